"""Reads and writes presets of KerasHub's `ElectraBackbone`, by KerasHub.

A backbone is an encoder without a head. It computes gelu by the tanh
approximation, so its output differs slightly from the trained model's. Its
layer `pooled_dense`, unknown to ELECTRA, is written as the identity.
"""

import dataclasses
import math
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any, Literal

import h5py
import numpy as np

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import parameter_names
from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.formats import tokenizer_files
from electra_tf.formats.portable import PortableModel
from electra_tf.text import vocabulary as vocabulary_lib

CONFIG_FILE = "config.json"
_CLASS = "ElectraBackbone"
_POOLER = "pooled_dense"
_OPENED = ".json", ".txt", ".h5"
# Our names of sizes, and KerasHub's.
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


@schema.frozen
class _Described:
    """A serialized Keras object: its class and its arguments."""

    class_name: str
    config: Mapping[str, Any]
    # KerasHub builds this class if the two names differ.
    registered_name: str = f"keras_hub>{_CLASS}"


@schema.frozen
class _Tokenizer:
    """Options of KerasHub's tokenizer; fixed ones are fixed in ours."""

    lowercase: bool = False
    strip_accents: bool = False
    split: Literal[True] = True
    split_on_cjk: Literal[True] = True
    suffix_indicator: Literal["##"] = "##"
    oov_token: Literal["[UNK]"] = "[UNK]"
    special_tokens_in_strings: Literal[False] = False


def read_model(path: pathlib.Path) -> PortableModel:
    """Reads the encoder and the vocabulary in the folder of a preset."""
    # Sizes are checked first: KerasHub would build a model of any size.
    encoder = _read_sizes(path / CONFIG_FILE)
    model = PortableModel({}, encoder, origin=f"KerasHub preset {path}")
    expected = portable.part_shapes(portable.MAIN, model)
    width = encoder.hidden_size
    pooler = portable.linear_shapes(_POOLER, width, width)
    kinds = _check_weights(path, expected | pooler)
    table = parameter_names.KERAS_HUB
    shapes = table.all_shapes(expected)
    arrays = {
        # KerasHub's kernels have an axis for the attention heads.
        variable.path: np.reshape(variable, shapes[variable.path])
        for variable in _load_backbone(path).weights
        if not variable.path.startswith(_POOLER)
    }
    tensors = parameter_names.take(arrays, expected, table, model.origin)
    vocabulary = None
    listed = path / "assets" / "tokenizer" / "vocabulary.txt"
    file = path / tokenizer_files.TOKENIZER_FILE
    if listed.exists() or file.exists():
        stated = _read_described(file).config
        options = portable.build_known(_Tokenizer, stated, file)
        tokens = vocabulary_lib.read_tokens(listed)
        vocabulary = tokenizer_files.build(
            path, encoder, tokens, options.lowercase, options.strip_accents
        )
    return dataclasses.replace(
        model, tensors=tensors, vocabulary=vocabulary
    ).with_notes(
        f"left out {_POOLER}, which only KerasHub has",
        *parameter_names.precision_notes(kinds),
        *tokenizer_files.notes_of(vocabulary),
    )


def _read_described(file: pathlib.Path) -> _Described:
    content = schema.read_object(file, errors.ModelError)
    return portable.build_known(_Described, content, file)


def _read_sizes(file: pathlib.Path) -> config.EncoderConfig:
    described = _read_described(file)
    names = described.class_name, described.registered_name
    if names != (_CLASS, f"keras_hub>{_CLASS}"):
        raise errors.ModelError(
            f"{file.parent} must be a preset of {_CLASS}. Received: a preset "
            f"of {' and '.join(names)}, which cannot be converted."
        )
    theirs = described.config
    sizes = {ours: theirs[n] for ours, n in _SIZES.items() if n in theirs}
    encoder = portable.build_known(config.EncoderConfig, sizes, file)
    return _limit_to_preset(encoder)


def _limit_to_preset(encoder: config.EncoderConfig) -> config.EncoderConfig:
    """Sets the fields that a preset lacks: it has one dropout rate."""
    return dataclasses.replace(
        encoder,
        attention_probs_dropout_prob=encoder.hidden_dropout_prob,
        initializer_range=config.EncoderConfig.initializer_range,
    )


def _check_weights(path: pathlib.Path, expected: portable.Shapes) -> set[str]:
    """Returns the weights' dtypes; raises `ModelError` for other sizes."""
    # With other sizes, KerasHub would leave out layers or run out of memory.
    kinds: set[str] = set()
    wrong, size = [], 0
    # KerasHub opens these files itself.
    opened = [f for f in path.rglob("*") if f.suffix in _OPENED]
    tensor_files.require_sizes(opened, expected)
    try:
        for file in path.glob("*.h5"):
            with h5py.File(file) as stream:
                for name, entry in tensor_files.walk(stream):
                    if "seed_generator" in name:
                        continue
                    # HDF5 has no bfloat16; Keras notes it in an attribute.
                    kind = str(entry.attrs.get("dtype", entry.dtype))
                    if kind not in portable.FLOATS:
                        floats = " or ".join(portable.FLOATS)
                        wrong.append(f"{name} holds {kind}, expected {floats}")
                    kinds.add(kind)
                    size += math.prod(entry.shape or ())
    except (OSError, RuntimeError, LookupError, TypeError, ValueError) as error:
        raise _damaged(path, error) from error
    portable.require_none(wrong, f"KerasHub preset {path}")
    needed = sum(map(math.prod, expected.values()))
    if needed != size:
        raise errors.ModelError(
            f"{path / CONFIG_FILE} does not describe the tensors beside it: "
            f"the config needs {needed:,} numbers. Received: {size:,}. Copy "
            "the complete folder of one model."
        )
    return kinds


def _damaged(path: pathlib.Path, error: Exception) -> errors.ModelError:
    first_line = (str(error).splitlines() or [""])[0]
    return errors.ModelError(
        f"{path} must be a preset that KerasHub can load. Received: "
        f"{type(error).__name__}: {first_line}. The preset is cut off or "
        "damaged: download or copy it again."
    )


def _load_backbone(path: pathlib.Path) -> Any:
    import keras_hub  # Takes seconds.

    try:
        backbone = keras_hub.models.ElectraBackbone
        return backbone.from_preset(str(path.resolve()), dtype="float32")
    except Exception as error:  # KerasHub raises many types.
        raise _damaged(path, error) from error


def write(model: PortableModel, folder: pathlib.Path) -> PortableModel:
    """Writes a folder for `ElectraBackbone.from_preset`.

    Returns the model that the preset holds, with notes on what it lacks.
    """
    import keras_hub  # takes seconds

    why = "A preset of KerasHub holds only an encoder."
    portable.require_parts(model, [portable.MAIN], why)
    encoder, vocabulary = _limit_to_preset(model.encoder), model.vocabulary
    lost = schema.find_differences(model.encoder, encoder)
    if vocabulary is not None:
        own = vocabulary.settings
        length = vocabulary_lib.TokenizerSettings.max_word_length
        settings = dataclasses.replace(own, max_word_length=length)
        lost += schema.find_differences(own, settings)
        vocabulary = dataclasses.replace(vocabulary, settings=settings)
    model = dataclasses.replace(
        model, encoder=encoder, vocabulary=vocabulary
    ).with_notes(*(f"the model's, and the preset's: {line}" for line in lost))
    backbone = keras_hub.models.ElectraBackbone(
        **{name: getattr(encoder, ours) for ours, name in _SIZES.items()},
        dtype="float32",
        name="electra_backbone",
    )
    arrays = parameter_names.KERAS_HUB.split_all(model.tensors)
    width = encoder.hidden_size
    arrays[f"{_POOLER}/kernel"] = np.eye(width, dtype=np.float32)
    arrays[f"{_POOLER}/bias"] = np.zeros(width, np.float32)
    for variable in backbone.weights:
        variable.assign(arrays[variable.path].reshape(variable.shape))
    # Space is tested first: on a full disk HDF5 ends the process.
    with tempfile.TemporaryFile(dir=folder) as trial:
        trial.write(bytes(sum(value.nbytes for value in arrays.values())))
    backbone.save_to_preset(str(folder))
    if vocabulary is not None:
        keras_hub.models.ElectraTokenizer(
            vocabulary=list(vocabulary.tokens),
            lowercase=settings.do_lower_case,
            strip_accents=settings.is_stripping,
        ).save_to_preset(str(folder))
    return model
