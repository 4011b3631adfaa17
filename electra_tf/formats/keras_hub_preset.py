"""Presets of KerasHub's `ElectraBackbone`, read and written by KerasHub.

    config.json, model.weights.h5                      the encoder
    tokenizer.json, assets/tokenizer/vocabulary.txt    its tokenizer

A backbone is an encoder and nothing else. It computes gelu by the tanh
approximation, so its output is not quite what was trained. Its layer
`pooled_dense` exists in no ELECTRA: it is written as the identity and left out
in reading.
"""

import dataclasses
import math
import pathlib
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import foreign
from electra_tf.formats import layout
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tokenizer_files
from electra_tf.text import vocabulary as vocabulary_lib

CONFIG_FILE = "config.json"
_CLASS = "ElectraBackbone"
_POOLER = "pooled_dense"
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


def is_folder(path: pathlib.Path) -> bool:
    """Whether a folder holds a preset of KerasHub's."""
    try:
        return bool(_class_name(schema.read_object(path / CONFIG_FILE)))
    except (OSError, ValueError):
        return False


def _class_name(content: Mapping[str, Any]) -> str:
    """The backbone that a preset's config names; empty if it names none."""
    module, name = content.get("module"), content.get("class_name")
    # KerasHub builds the registered one if the two differ.
    registered = content.get("registered_name") or name
    texts = [t for t in (module, name, registered) if isinstance(t, str)]
    if len(texts) < 3 or texts[0].split(".")[0] != "keras_hub":
        return ""
    return " and ".join(sorted({texts[1], texts[2].split(">")[-1]}))


def read(path: pathlib.Path) -> portable.PortableModel:
    """The encoder and the vocabulary of a preset.

    Args:
        path: the folder.

    Raises:
        ModelError: if it is damaged or of another backbone.
    """
    file = path / CONFIG_FILE
    content: Mapping[str, Any] = {}
    if file.is_file():
        content = schema.read_object(file, errors.ModelError)
    if _class_name(content) != _CLASS:
        raise errors.ModelError(
            f"{path} must be a preset of {_CLASS}. Received: one of "
            f"{_class_name(content) or 'nothing that KerasHub knows'}."
        )
    encoder = _read_sizes(file, content.get("config"))
    weights = _list_weights(path)
    _require_weights(file, encoder, weights)
    backbone = _load_backbone(path)
    if len(weights) != len(backbone.weights):
        # KerasHub leaves out layers that its config does not count.
        raise errors.ModelError(
            f"{file} does not describe the tensors beside it: "
            f"{len(backbone.weights)} by the config. Received: "
            f"{len(weights)}. Are both of the same model?"
        )
    tensors = foreign.ForeignTensors(
        {
            variable.path: _flatten(variable.path, np.asarray(variable))
            for variable in backbone.variables
            if _NO_WEIGHTS not in variable.path
            and not variable.path.startswith(f"{_POOLER}/")
        },
        parameter_names.KERAS_HUB_RULES,
        f"KerasHub preset {path}",
    )
    vocabulary, notes = _read_vocabulary(path, encoder)
    model = portable.PortableModel(
        tensors.take(layout.encoder_shapes(portable.MAIN, encoder)),
        encoder,
        vocabulary=vocabulary,
        origin=tensors.origin,
        notes=(
            f"left out {_POOLER}, which is KerasHub's own",
            *foreign.precision_notes(kind for kind, _ in weights.values()),
            *notes,
        ),
    )
    layout.check(model)
    return model


def _read_sizes(file: pathlib.Path, stated: Any) -> config.EncoderConfig:
    """Sizes by the config, because KerasHub would begin to build any."""
    if not isinstance(stated, dict):
        raise errors.ModelError(
            f"{file} must have the arguments of its backbone under `config`. "
            f"Received: {stated!r:.60}. Take the file again from where it "
            "comes from."
        )
    sizes = {n: stated[name] for n, name in _SIZES.items() if name in stated}
    try:
        return _with_one_rate(config.EncoderConfig(**sizes))
    except errors.ConfigError as error:
        names = ", ".join(f"{n} is {_SIZES[n]} there" for n in sizes)
        raise errors.ModelError(
            f"{file} must have sizes that an ELECTRA can have ({names}): "
            f"{error} Take the file again from where it comes from."
        ) from error


def _with_one_rate(encoder: config.EncoderConfig) -> config.EncoderConfig:
    """The sizes as a preset can state them: it has one rate of dropout."""
    return dataclasses.replace(
        encoder,
        attention_probs_dropout_prob=encoder.hidden_dropout_prob,
        initializer_range=config.EncoderConfig.initializer_range,
    )


def _list_weights(path: pathlib.Path) -> dict[str, tuple[str, int]]:
    """The name of each stored weight to its dtype and its size."""
    found: dict[str, tuple[str, int]] = {}
    files = sorted(path.glob("*.h5"))
    if not files:
        raise errors.ModelError(
            f"{path} must be a preset that KerasHub loads. Received: one "
            "without model.weights.h5. Take it again from where it comes from."
        )
    for file in files:

        def collect(name: str, entry: Any, file: pathlib.Path = file) -> None:
            if isinstance(entry, h5py.Dataset) and "seed_generator" not in name:
                # HDF5 has no bfloat16; Keras writes beside it that it is.
                kind = str(entry.attrs.get("dtype", entry.dtype))
                size = math.prod(entry.shape or ())
                found[f"{name} in {file.name}"] = kind, size

        try:
            with h5py.File(file) as stream:
                stream.visititems(collect)
        except (OSError, RuntimeError, LookupError, TypeError) as error:
            raise errors.ModelError(
                f"{file} must be an HDF5 file of weights. Received: {error}. "
                "It is cut off or damaged: take it again from where it comes "
                "from."
            ) from error
    return found


def _require_weights(
    file: pathlib.Path,
    encoder: config.EncoderConfig,
    weights: Mapping[str, tuple[str, int]],
) -> None:
    """Raises `ModelError` for integers, or fewer numbers than sizes need.

    A config of other sizes could ask for more memory than there is.
    """
    problems = foreign.dtype_problems({n: w[0] for n, w in weights.items()})
    if problems:
        raise errors.ModelError(
            f"{file.parent} must hold floating point numbers. Received: "
            f"{'; '.join(problems[:8])}. Such weights, those of a quantized "
            "model for example, cannot be converted: take the model before "
            "that."
        )
    width = encoder.hidden_size
    shapes = layout.encoder_shapes(portable.MAIN, encoder)
    shapes |= layout.linear_shapes(_POOLER, width, width)
    needed = sum(map(math.prod, shapes.values()))
    received = sum(size for _, size in weights.values())
    if needed > received:
        raise errors.ModelError(
            f"{file} does not describe the tensors beside it: {needed:,} "
            f"numbers by the config. Received: {received:,}. Are both of the "
            "same model, and is it whole?"
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
        raise errors.ModelError(
            f"{path} must be a preset that KerasHub loads. Received: "
            f"{type(error).__name__}: {first_line}. It is cut off or damaged: "
            "take it again from where it comes from."
        ) from error


def _flatten(path: str, value: np.ndarray) -> np.ndarray:
    """The value without the axis of the attention heads."""
    if path.endswith("attention_output/kernel"):
        return value.reshape(-1, value.shape[-1])
    if value.ndim == 3:
        return value.reshape(len(value), -1)
    is_head_bias = path.endswith(("query/bias", "key/bias", "value/bias"))
    return value.reshape(-1) if is_head_bias else value


def _read_vocabulary(
    path: pathlib.Path, encoder: config.EncoderConfig
) -> tuple[vocabulary_lib.Vocabulary | None, tuple[str, ...]]:
    """The vocabulary, None for a preset without a tokenizer; and notes."""
    tokens = path / "assets" / "tokenizer" / "vocabulary.txt"
    described = path / tokenizer_files.TOKENIZER_FILE
    files = (tokens, described)
    if not any(file.exists() or file.is_symlink() for file in files):
        return None, ("there is no vocabulary in the preset",)
    for file in files:
        if not file.is_file():
            raise errors.ModelError(
                f"{file} must be there with the rest of the preset's "
                "tokenizer. Received: no such file. Restore it."
            )
    settings = _read_tokenizer(described)
    try:
        listed = vocabulary_lib.read_tokens(tokens)
        vocabulary = vocabulary_lib.Vocabulary(listed, settings)
    except errors.DataError as error:
        raise errors.ModelError(f"{tokens}: {error}") from error
    fitted = tokenizer_files.fit_rows(vocabulary, encoder, tokens)
    return fitted, tokenizer_files.notes_of(fitted)


def _read_tokenizer(file: pathlib.Path) -> vocabulary_lib.TokenizerSettings:
    """What the preset's tokenizer does, if ours does the same."""
    content = schema.read_object(file, errors.ModelError)
    stated = content.get("config")
    names = ("lowercase", "strip_accents")
    if not isinstance(stated, dict) or any(
        not isinstance(stated.get(name, False), bool) for name in names
    ):
        raise errors.ModelError(
            f"{file} must have `config`, with true or false for "
            f"{' and '.join(names)}. Received: {stated!r:.80}. Take the file "
            "again from where it comes from."
        )
    lowers, strips = (stated.get(name, False) for name in names)
    other = {
        name: stated[name]
        for name, value in _TOKENIZER_OPTIONS.items()
        if stated.get(name, value) != value
    }
    if strips and not lowers:
        other["strip_accents"] = True
    if other:
        raise errors.ModelError(
            f"The tokenizer of {file} must split and match as the original's. "
            f"Received: {other}, which this one does not follow."
        )
    return vocabulary_lib.TokenizerSettings(
        do_lower_case=lowers, strip_accents=strips
    )


def write(
    model: portable.PortableModel, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes what `ElectraBackbone.from_preset` reads.

    Args:
        model: an encoder without heads.
        folder: exists and is empty.

    Returns:
        The model with what a preset can state, and notes on the rest.

    Raises:
        ModelError: if there is more than an encoder.
    """
    others = [part for part in model.parts if part != portable.MAIN]
    if others:
        raise errors.ModelError(
            "A preset of KerasHub holds an encoder alone. Received: "
            f"{model.origin} with {', '.join(others)}. Leave them out with "
            f"--drop='{'|'.join(others)}'."
        )
    model = _as_preset(model)
    backbone = _build_backbone(model)
    _require_space(folder, model)
    backbone.save_to_preset(str(folder))
    if model.vocabulary is not None:
        _write_tokenizer(model.vocabulary, folder)
    return model


def _as_preset(model: portable.PortableModel) -> portable.PortableModel:
    """The model without what a preset has no place for, which it notes."""
    before, vocabulary = model.encoder, model.vocabulary
    encoder, notes = _with_one_rate(before), []
    if encoder != before:
        notes.append(
            "attention_probs_dropout_prob "
            f"{before.attention_probs_dropout_prob} and initializer_range "
            f"{before.initializer_range} have no place in a preset"
        )
    if vocabulary is not None:
        length = vocabulary.settings.max_word_length
        settings = dataclasses.replace(
            vocabulary.settings,
            max_word_length=vocabulary_lib.TokenizerSettings.max_word_length,
        )
        if settings != vocabulary.settings:
            notes.append(f"max_word_length {length} has no place in a preset")
            vocabulary = vocabulary_lib.Vocabulary(vocabulary.tokens, settings)
    return dataclasses.replace(
        model, encoder=encoder, vocabulary=vocabulary
    ).with_notes(*notes)


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
    width = model.encoder.hidden_size
    arrays = parameter_names.split_all(
        model.tensors, parameter_names.KERAS_HUB_RULES
    ) | {
        f"{_POOLER}/kernel": np.eye(width, dtype=np.float32),
        f"{_POOLER}/bias": np.zeros(width, np.float32),
    }
    for variable in backbone.variables:
        if _NO_WEIGHTS not in variable.path:
            value = arrays.pop(variable.path)
            variable.assign(value.reshape(variable.shape))
    layout.require_none(
        [f"{name} has no place in KerasHub" for name in arrays], model.origin
    )
    return backbone


def _write_tokenizer(
    vocabulary: vocabulary_lib.Vocabulary, folder: pathlib.Path
) -> None:
    """Writes what `ElectraTokenizer.from_preset` reads."""
    import keras_hub

    settings = vocabulary.settings
    keras_hub.models.ElectraTokenizer(
        vocabulary=list(vocabulary.tokens),
        lowercase=settings.do_lower_case,
        strip_accents=settings.do_lower_case and settings.strip_accents,
    ).save_to_preset(str(folder))
