"""Presets of KerasHub's `ElectraBackbone`, read and written by KerasHub.

    folder/config.json, model.weights.h5, tokenizer.json, assets/   a preset
    folder/heads.safetensors, heads.json                            ours

KerasHub has the encoder alone. Heads, and what its config does not say, lie in
two files of ours beside it, which KerasHub does not look at; without them a
preset is an encoder. As for Hugging Face, a pre-trained ELECTRA is two
presets, `discriminator` and `generator`.

What a backbone computes is not quite what was trained: its activation is the
tanh approximation of gelu. `pooled_dense` is KerasHub's own, no ELECTRA has
it; it is written as the identity and left out in reading.
"""

import dataclasses
import json
import pathlib
from typing import Any

import h5py
import numpy as np

from electra_tf import config
from electra_tf.formats import foreign
from electra_tf.formats import layout
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.formats import tokenizer_files
from electra_tf.formats import towers
from electra_tf.text import vocabulary as vocabulary_lib

CONFIG_FILE = "config.json"
HEADS_FILE, FACTS_FILE = "heads.safetensors", "heads.json"
_CLASS = "ElectraBackbone"
_POOLER = "pooled_dense/"
_NO_WEIGHTS = "seed_generator_state"
_CHUNK_BYTES = 2**20
# Our sizes and KerasHub's arguments.
_SIZES = {
    "vocab_size": "vocab_size",
    "embedding_size": "embedding_dim",
    "hidden_size": "hidden_dim",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "intermediate_size": "intermediate_dim",
    "max_position_embeddings": "max_sequence_length",
    "type_vocab_size": "num_segments",
    "hidden_dropout_prob": "dropout",
}
# Options of its tokenizer that change the ids, and what they must be.
_TOKENIZER_OPTIONS = {
    "split": True,
    "split_on_cjk": True,
    "suffix_indicator": "##",
    "oov_token": "[UNK]",
    "special_tokens_in_strings": False,
}
_RATES = ("attention_probs_dropout_prob", "initializer_range")


def is_folder(path: pathlib.Path) -> bool:
    """Whether a folder holds a preset of KerasHub's."""
    if towers.are_apart(path):
        return is_folder(towers.discriminator_folder(path))
    return bool(_class_name(path))


def _class_name(path: pathlib.Path) -> str:
    """Of the backbone that a preset's config names; empty if it is none."""
    try:
        content = json.loads((path / CONFIG_FILE).read_text("utf-8"))
        is_preset = content["module"].split(".")[0] == "keras_hub"
        return content["class_name"] if is_preset else ""
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""


def read(path: pathlib.Path) -> portable.PortableModel:
    """A preset, or both of a pre-trained ELECTRA under one folder.

    Args:
        path: the folder.

    Raises:
        FormatError: if it is damaged or of another backbone.
    """
    return towers.read(path, _read_one)


def _read_one(path: pathlib.Path) -> portable.PortableModel:
    if _class_name(path) != _CLASS:
        raise portable.FormatError(
            f"{path} must be a preset of {_CLASS}. Received: one of "
            f"{_class_name(path) or 'nothing that KerasHub knows'}."
        )
    backbone = _load_backbone(path)
    _require_all_used(path, backbone)
    tensors = foreign.ForeignTensors(
        {
            variable.path: _flatten(variable.path, np.asarray(variable))
            for variable in backbone.variables
            if _NO_WEIGHTS not in variable.path
            and not variable.path.startswith(_POOLER)
        },
        parameter_names.KERAS_HUB_RULES,
        f"KerasHub preset {path}",
    )
    facts = _read_facts(path / FACTS_FILE)
    try:
        model = _with_facts(path, backbone, tensors, facts)
    except portable.FormatError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise portable.FormatError(
            f"{path}: {FACTS_FILE} or {tokenizer_files.TOKENIZER_FILE} is "
            f"damaged: {error}. Take the files again from where they come from."
        ) from error
    layout.check(model)
    return model


def _with_facts(
    path: pathlib.Path,
    backbone: Any,
    tensors: foreign.ForeignTensors,
    facts: dict[str, Any],
) -> portable.PortableModel:
    """The encoder, and what our two files add to it."""
    encoder = _sizes(backbone, tensors, facts)
    taken = tensors.take(layout.encoder_shapes(portable.MAIN, encoder))
    heads: dict[str, np.ndarray] = {}
    if (path / HEADS_FILE).is_file():
        heads = tensor_files.read_safetensors(path / HEADS_FILE)
    if sorted(heads) != facts.get("heads", []):
        raise portable.FormatError(
            f"{path / HEADS_FILE} must hold the tensors that {FACTS_FILE} "
            f"names. Received: {sorted(heads)}, named: {facts.get('heads')}. "
            "Take both again from where they come from."
        )
    task = facts.get("task")
    if task is not None:
        lists = {n: tuple(task[n]) for n in ("labels", "value_range")}
        task = portable.PortableTask(**task | lists)
    return portable.PortableModel(
        taken | heads,
        encoder,
        vocabulary=_read_vocabulary(path, encoder, facts),
        task=task,
        step=int(facts.get("step", 0)),
        origin=tensors.origin,
        notes=(f"left out {_POOLER[:-1]}, which is KerasHub's own",),
    )


def _load_backbone(path: pathlib.Path) -> Any:
    # Takes seconds to import.
    import keras_hub

    try:
        return keras_hub.models.ElectraBackbone.from_preset(
            str(path.resolve()), dtype="float32"
        )
    except Exception as error:
        # KerasHub, Keras and h5py raise whatever comes up.
        first_line = (str(error).splitlines() or [""])[0]
        raise portable.FormatError(
            f"{path} must be a preset that KerasHub loads. Received: "
            f"{type(error).__name__}: {first_line}. It is cut off or damaged: "
            "take it again from where it comes from."
        ) from error


def _require_all_used(path: pathlib.Path, backbone: Any) -> None:
    """KerasHub leaves layers out that its config does not count."""
    names: list[str] = []

    def collect(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset) and "seed_generator" not in name:
            names.append(name)

    for file in sorted(path.glob("*.h5")):
        with h5py.File(file) as stream:
            stream.visititems(collect)
    if len(names) != len(backbone.weights):
        raise portable.FormatError(
            f"{path / CONFIG_FILE} does not describe the tensors beside it: "
            f"{len(backbone.weights)} by the config. Received: {len(names)}. "
            "Are both of the same model?"
        )


def _flatten(path: str, value: np.ndarray) -> np.ndarray:
    """Without the axis of the heads."""
    if path.endswith("attention_output/kernel"):
        return value.reshape(-1, value.shape[-1])
    if value.ndim == 3:
        return value.reshape(len(value), -1)
    is_head_bias = path.endswith(("query/bias", "key/bias", "value/bias"))
    return value.reshape(-1) if is_head_bias else value


def _read_facts(path: pathlib.Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise portable.FormatError(f"{path} is damaged: {error}.") from error


def _sizes(
    backbone: Any, tensors: foreign.ForeignTensors, facts: dict[str, Any]
) -> config.EncoderConfig:
    found = layout.infer_sizes(
        portable.MAIN,
        tensors.shape_of,
        num_attention_heads=backbone.num_heads,
        origin=tensors.origin,
    )
    stated = {ours: getattr(backbone, name) for ours, name in _SIZES.items()}
    dropout = float(stated.pop("hidden_dropout_prob"))
    layout.require_sizes(found, stated, tensors.origin)
    return dataclasses.replace(
        found,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=float(facts.get(_RATES[0], dropout)),
        initializer_range=float(facts.get(_RATES[1], found.initializer_range)),
    )


def _read_vocabulary(
    path: pathlib.Path, encoder: config.EncoderConfig, facts: dict[str, Any]
) -> vocabulary_lib.Vocabulary | None:
    """Tokens and settings of the preset's tokenizer."""
    file = path / "assets" / "tokenizer" / "vocabulary.txt"
    if not file.is_file():
        return None
    stated = _read_facts(path / tokenizer_files.TOKENIZER_FILE).get(
        "config", {}
    )
    other = {
        name: stated[name]
        for name, value in _TOKENIZER_OPTIONS.items()
        if name in stated and stated[name] != value
    }
    if stated.get("strip_accents") and not stated.get("lowercase"):
        other["strip_accents"] = True
    if other:
        raise portable.FormatError(
            f"The tokenizer of {path} must split and match as the original's. "
            f"Received: {other}, which this one does not follow."
        )
    settings = vocabulary_lib.TokenizerSettings(
        do_lower_case=bool(stated.get("lowercase")),
        strip_accents=bool(stated.get("strip_accents")),
    )
    if "tokenizer" in facts:
        settings = vocabulary_lib.TokenizerSettings.from_dict(
            facts["tokenizer"]
        )
    vocabulary = vocabulary_lib.Vocabulary(
        vocabulary_lib.read_tokens(file), settings
    )
    return tokenizer_files.fit_rows(vocabulary, encoder, file)


def write(model: portable.PortableModel, folder: pathlib.Path) -> None:
    """Writes what `ElectraBackbone.from_preset` reads.

    Args:
        model: pre-trained or fine-tuned.
        folder: exists and is empty.

    Raises:
        FormatError: for parts that have no place there (names them).
    """
    for name, tower in towers.split(model).items():
        target = folder / name
        target.mkdir(exist_ok=True)
        _write_one(tower, target)


def _write_one(model: portable.PortableModel, folder: pathlib.Path) -> None:
    backbone = _build_backbone(model)
    _require_space(folder, model)
    backbone.save_to_preset(str(folder))
    heads = {
        path: np.ascontiguousarray(value)
        for path, value in model.tensors.items()
        if not path.startswith(f"{portable.MAIN}/")
    }
    facts: dict[str, Any] = {
        name: getattr(model.encoder, name) for name in _RATES
    }
    facts |= {"step": model.step, "heads": sorted(heads)}
    if model.task is not None:
        facts["task"] = dataclasses.asdict(model.task)
    if heads:
        tensor_files.write_safetensors(folder / HEADS_FILE, heads)
    if model.vocabulary is not None:
        facts["tokenizer"] = dataclasses.asdict(model.vocabulary.settings)
        _save_tokenizer(model.vocabulary, folder)
    text = json.dumps(facts, indent=2) + "\n"
    (folder / FACTS_FILE).write_text(text, "utf-8")


def _require_space(folder: pathlib.Path, model: portable.PortableModel) -> None:
    """Raises `OSError` if the disk cannot take the model.

    HDF5 ends the whole process when it meets a full disk.
    """
    num_bytes = sum(value.nbytes for value in model.tensors.values())
    trial = folder / "space"
    try:
        with open(trial, "wb") as stream:
            for _ in range(1 + num_bytes // _CHUNK_BYTES):
                stream.write(bytes(_CHUNK_BYTES))
    finally:
        trial.unlink()


def _build_backbone(model: portable.PortableModel) -> Any:
    import keras_hub

    sizes = dataclasses.asdict(model.encoder)
    backbone = keras_hub.models.ElectraBackbone(
        **{name: sizes[ours] for ours, name in _SIZES.items()},
        dtype="float32",
        name="electra_backbone",
    )
    arrays = parameter_names.split_all(
        portable.take_part(model.tensors, portable.MAIN),
        parameter_names.KERAS_HUB_RULES,
    )
    width = model.encoder.hidden_size
    arrays |= {
        f"{_POOLER}kernel": np.eye(width, dtype=np.float32),
        f"{_POOLER}bias": np.zeros(width, np.float32),
    }
    for variable in backbone.variables:
        if _NO_WEIGHTS not in variable.path:
            value = arrays.pop(variable.path)
            variable.assign(value.reshape(variable.shape))
    layout.require_none(
        [f"{name} has no place in KerasHub" for name in arrays], model.origin
    )
    return backbone


def _save_tokenizer(
    vocabulary: vocabulary_lib.Vocabulary, folder: pathlib.Path
) -> None:
    import keras_hub

    settings = vocabulary.settings
    keras_hub.models.ElectraTokenizer(
        vocabulary=list(vocabulary.tokens),
        lowercase=settings.do_lower_case,
        strip_accents=settings.do_lower_case and settings.strip_accents,
    ).save_to_preset(str(folder))
