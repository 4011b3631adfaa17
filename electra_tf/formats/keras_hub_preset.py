"""Presets of KerasHub's `ElectraBackbone`, read and written by KerasHub.

A backbone is an encoder alone. It computes gelu by the tanh approximation, so
its output is not quite what was trained. Its layer `pooled_dense` exists in no
ELECTRA: it is written as the identity, and not read.
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


@schema.frozen
class _Described:
    """A serialized Keras object: its class and its arguments."""

    class_name: str
    config: Mapping[str, Any]
    # KerasHub builds this one if the two differ.
    registered_name: str = f"keras_hub>{_CLASS}"


@schema.frozen
class _Tokenizer:
    """Options of its tokenizer; those that change the ids must be these."""

    lowercase: bool = False
    strip_accents: bool = False
    split: Literal[True] = True
    split_on_cjk: Literal[True] = True
    suffix_indicator: Literal["##"] = "##"
    oov_token: Literal["[UNK]"] = "[UNK]"
    special_tokens_in_strings: Literal[False] = False


def read_model(path: pathlib.Path) -> PortableModel:
    """Reads the encoder and the vocabulary in the folder of a preset."""
    # The sizes first, because KerasHub would begin to build any.
    encoder = _read_sizes(path / CONFIG_FILE)
    model = PortableModel({}, encoder, origin=f"KerasHub preset {path}")
    expected = portable.part_shapes(portable.MAIN, model)
    width = encoder.hidden_size
    pooler = portable.linear_shapes(_POOLER, width, width)
    kinds = _check_weights(path, expected | pooler)
    table = parameter_names.KERAS_HUB
    shapes = table.all_shapes(expected)
    arrays = {
        # There with an axis for the attention heads.
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
        f"left out {_POOLER}, which is KerasHub's own",
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
            f"{file.parent} must be a preset of {_CLASS}. Received: one of "
            f"{' and '.join(names)}, which cannot be converted."
        )
    stated = described.config
    sizes = {ours: stated[n] for ours, n in _SIZES.items() if n in stated}
    encoder = portable.build_known(config.EncoderConfig, sizes, file)
    return _with_one_rate(encoder)


def _with_one_rate(encoder: config.EncoderConfig) -> config.EncoderConfig:
    """Returns the sizes as a preset states them: with one dropout rate."""
    return dataclasses.replace(
        encoder,
        attention_probs_dropout_prob=encoder.hidden_dropout_prob,
        initializer_range=config.EncoderConfig.initializer_range,
    )


def _check_weights(path: pathlib.Path, expected: portable.Shapes) -> set[str]:
    """Returns the dtypes of weights that have the sizes in the config.

    KerasHub would leave out layers, or ask for more memory than there is.
    """
    kinds: set[str] = set()
    wrong, size = [], 0
    # KerasHub opens the other files by itself.
    opened = [f for f in path.rglob("*") if f.suffix in _OPENED]
    tensor_files.require_sizes(opened, expected)
    try:
        for file in path.glob("*.h5"):
            with h5py.File(file) as stream:
                for name, entry in tensor_files.walk(stream):
                    if "seed_generator" in name:
                        continue
                    # HDF5 has no bfloat16; Keras writes beside it that it is.
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
            f"{needed:,} numbers by the config. Received: {size:,}. Are both "
            "of the same model, and is it whole?"
        )
    return kinds


def _damaged(path: pathlib.Path, error: Exception) -> errors.ModelError:
    first_line = (str(error).splitlines() or [""])[0]
    return errors.ModelError(
        f"{path} must be a preset that KerasHub loads. Received: "
        f"{type(error).__name__}: {first_line}. It is cut off or damaged: "
        "take it again from where it comes from."
    )


def _load_backbone(path: pathlib.Path) -> Any:
    import keras_hub  # Takes seconds.

    try:
        backbone = keras_hub.models.ElectraBackbone
        return backbone.from_preset(str(path.resolve()), dtype="float32")
    except Exception as error:  # The libraries raise whatever comes up.
        raise _damaged(path, error) from error


def write(model: PortableModel, folder: pathlib.Path) -> PortableModel:
    """Writes what `ElectraBackbone.from_preset` reads.

    Returns the model with what a preset can state, and notes on the rest.
    """
    import keras_hub  # Takes seconds.

    why = "A preset of KerasHub holds an encoder alone."
    portable.require_parts(model, [portable.MAIN], why)
    encoder, vocabulary = _with_one_rate(model.encoder), model.vocabulary
    lost = schema.find_differences(model.encoder, encoder)
    if vocabulary is not None:
        own = vocabulary.settings
        length = vocabulary_lib.TokenizerSettings.max_word_length
        settings = dataclasses.replace(own, max_word_length=length)
        lost += schema.find_differences(own, settings)
        vocabulary = dataclasses.replace(vocabulary, settings=settings)
    model = dataclasses.replace(
        model, encoder=encoder, vocabulary=vocabulary
    ).with_notes(*(f"its own, and in a preset: {line}" for line in lost))
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
    # On a full disk HDF5 would end the process.
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
