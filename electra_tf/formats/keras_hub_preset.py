"""Presets of KerasHub's `ElectraBackbone`, read and written by KerasHub.

    folder/config.json, model.weights.h5, tokenizer.json, assets/   a preset
    folder/heads.safetensors, heads.json                            ours

KerasHub has the encoder alone. Heads, and what its config does not say, lie in
two files of ours beside it (`keras_hub_heads`); without them a preset is an
encoder. As for Hugging Face, a pre-trained ELECTRA is two
presets, `discriminator` and `generator`.

What a backbone computes is not quite what was trained: its activation is the
tanh approximation of gelu. `pooled_dense` is KerasHub's own, no ELECTRA has
it; it is written as the identity and left out in reading.
"""

import dataclasses
import math
import pathlib
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import h5py
import numpy as np

from electra_tf import config
from electra_tf import json_files
from electra_tf.formats import foreign
from electra_tf.formats import keras_hub_heads
from electra_tf.formats import keras_hub_tokenizer
from electra_tf.formats import layout
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import towers

CONFIG_FILE = "config.json"
_CLASS = "ElectraBackbone"
_POOLER = "pooled_dense/"
_NO_WEIGHTS = "seed_generator_state"
# What h5py raises for files that are none.
_READ_ERRORS = (OSError, RuntimeError, LookupError, TypeError, ValueError)
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


def is_folder(path: pathlib.Path) -> bool:
    """Whether a folder holds a preset of KerasHub's."""
    if towers.are_apart(path):
        return is_folder(towers.discriminator_folder(path))
    try:
        return bool(_class_name(json_files.read_object(path / CONFIG_FILE)))
    except (OSError, ValueError):
        return False


def _class_name(content: Mapping[str, Any]) -> str:
    """Of the backbone that a preset's config names; empty if it is none."""
    module, name = content.get("module"), content.get("class_name")
    # KerasHub builds the registered one if the two differ.
    registered = content.get("registered_name") or name
    texts = [t for t in (module, name, registered) if isinstance(t, str)]
    if len(texts) < 3 or texts[0].split(".")[0] != "keras_hub":
        return ""
    return " and ".join(sorted({texts[1], texts[2].split(">")[-1]}))


def read(path: pathlib.Path) -> portable.PortableModel:
    """A preset, or both of a pre-trained ELECTRA under one folder.

    Args:
        path: the folder.

    Raises:
        FormatError: if it is damaged or of another backbone.
    """
    return towers.read(path, _read_one)


def _read_one(path: pathlib.Path) -> portable.PortableModel:
    file = path / CONFIG_FILE
    content: Mapping[str, Any] = {}
    if file.is_file():
        content = json_files.read_object(file, portable.FormatError)
    if _class_name(content) != _CLASS:
        raise portable.FormatError(
            f"{path} must be a preset of {_CLASS}. Received: one of "
            f"{_class_name(content) or 'nothing that KerasHub knows'}."
        )
    stated = _stated_sizes(file, content.get("config"))
    extras = keras_hub_heads.read(path)
    weights = _list_weights(path)
    notes = _precision_notes(path, weights)
    _require_enough(file, stated, weights)
    backbone = _load_backbone(path)
    _require_all_used(file, backbone, weights)
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
    encoder = _sizes(backbone, tensors, extras)
    taken = tensors.take(layout.encoder_shapes(portable.MAIN, encoder))
    vocabulary, more = keras_hub_tokenizer.read(path, encoder, extras.tokenizer)
    model = portable.PortableModel(
        {**taken, **extras.tensors},
        encoder,
        vocabulary=vocabulary,
        task=extras.task,
        step=extras.step,
        origin=tensors.origin,
        notes=(
            f"left out {_POOLER[:-1]}, which is KerasHub's own",
            *dict.fromkeys(notes + extras.notes + more),
        ),
    )
    layout.check(model)
    return model


def _stated_sizes(file: pathlib.Path, stated: Any) -> config.EncoderConfig:
    """Sizes by the config; KerasHub would begin to build any."""
    if not isinstance(stated, dict):
        raise portable.FormatError(
            f"{file} must have the arguments of its backbone under `config`. "
            f"Received: {stated!r:.60}. Take the file again from where it "
            "comes from."
        )
    sizes = {n: stated[name] for n, name in _SIZES.items() if name in stated}
    try:
        return config.EncoderConfig(**sizes)
    except config.ConfigError as error:
        names = ", ".join(f"{n} is {_SIZES[n]} there" for n in sizes)
        raise portable.FormatError(
            f"{file} must have sizes that an ELECTRA can have ({names}): "
            f"{error} Take the file again from where it comes from."
        ) from error


class _Weight(NamedTuple):
    """A dataset of a preset's files."""

    file: pathlib.Path
    name: str
    kind: str
    size: int


def _list_weights(path: pathlib.Path) -> list[_Weight]:
    """What lies in the files of weights, before KerasHub reads it."""
    found: list[_Weight] = []
    files = sorted(path.glob("*.h5"))
    if not files:
        raise portable.FormatError(
            f"{path} must be a preset that KerasHub loads. Received: one "
            "without model.weights.h5. Take it again from where it comes from."
        )
    for file in files:

        def collect(name: str, entry: Any, file: pathlib.Path = file) -> None:
            if isinstance(entry, h5py.Dataset) and "seed_generator" not in name:
                # HDF5 has no bfloat16; Keras writes beside it that it is.
                kind = str(entry.attrs.get("dtype", entry.dtype))
                size = math.prod(entry.shape or ())
                found.append(_Weight(file, name, kind, size))

        try:
            with h5py.File(file) as stream:
                stream.visititems(collect)
        except (
            OSError,
            RuntimeError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            raise portable.FormatError(
                f"{file} must be an HDF5 file of weights. Received: {error}. "
                "It is cut off or damaged: take it again from where it comes "
                "from."
            ) from error
    return found


def _precision_notes(
    path: pathlib.Path, weights: list[_Weight]
) -> tuple[str, ...]:
    kinds = {f"{w.name} in {w.file.name}": w.kind for w in weights}
    return keras_hub_heads.precision_notes(path, kinds)


def _require_enough(
    file: pathlib.Path, stated: config.EncoderConfig, weights: list[_Weight]
) -> None:
    """A config of other sizes could ask for more memory than there is."""
    shapes = layout.encoder_shapes(portable.MAIN, stated)
    width = stated.hidden_size
    shapes |= layout.linear_shapes(_POOLER[:-1], width, width)
    needed = sum(map(math.prod, shapes.values()))
    received = sum(weight.size for weight in weights)
    if needed > received:
        raise portable.FormatError(
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
        raise portable.FormatError(
            f"{path} must be a preset that KerasHub loads. Received: "
            f"{type(error).__name__}: {first_line}. It is cut off or damaged: "
            "take it again from where it comes from."
        ) from error


def _require_all_used(
    file: pathlib.Path, backbone: Any, weights: list[_Weight]
) -> None:
    """KerasHub leaves layers out that its config does not count."""
    if len(weights) != len(backbone.weights):
        raise portable.FormatError(
            f"{file} does not describe the tensors beside it: "
            f"{len(backbone.weights)} by the config. Received: "
            f"{len(weights)}. Are both of the same model?"
        )


def _flatten(path: str, value: np.ndarray) -> np.ndarray:
    """Without the axis of the heads."""
    if path.endswith("attention_output/kernel"):
        return value.reshape(-1, value.shape[-1])
    if value.ndim == 3:
        return value.reshape(len(value), -1)
    is_head_bias = path.endswith(("query/bias", "key/bias", "value/bias"))
    return value.reshape(-1) if is_head_bias else value


def _sizes(
    backbone: Any,
    tensors: foreign.ForeignTensors,
    extras: keras_hub_heads.Extras,
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
    rates: dict[str, Any] = {"attention_probs_dropout_prob": dropout}
    rates |= extras.rates
    try:
        return dataclasses.replace(found, hidden_dropout_prob=dropout, **rates)
    except config.ConfigError as error:
        raise portable.FormatError(
            f"{tensors.origin}: {keras_hub_heads.FACTS_FILE} must have rates "
            f"that can be: {error}"
        ) from error


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
    keras_hub_heads.write(model, folder)
    if model.vocabulary is not None:
        keras_hub_tokenizer.write(model.vocabulary, folder)


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
