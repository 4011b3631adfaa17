"""Reads the files of a reference folder; every error names the file."""

import functools
import json
import zipfile
import zlib

import keras
import numpy as np

from electra_tf.formats import original_model
from electra_tf.formats import parameter_names
from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary


def read_json(path):
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"Expected JSON in {path}: {error}.") from error


def read_arrays(path):
    try:
        with np.load(path) as archive:
            return dict(archive)
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        # NumPy takes what it does not know for a pickle, and says so.
        raise ValueError(f"Expected a whole .npz file: {path}.") from error


def assign_checkpoint(variables, path):
    """Puts the weights of a checkpoint of the original into our variables."""
    checkpoint = original_model.read_checkpoint(path)
    shapes = {variable.path: tuple(variable.shape) for variable in variables}
    values = parameter_names.take(
        checkpoint.variables, shapes, parameter_names.ORIGINAL, checkpoint.path
    )
    for variable in variables:
        variable.assign(values[variable.path])


def with_prefix(arrays, prefix):
    """The arrays whose names begin so, by the rest of their names."""
    chosen = (name for name in arrays if name.startswith(prefix))
    return {name.removeprefix(prefix): arrays[name] for name in chosen}


def load_vocabulary(folder, **settings):
    """The vocabulary of `examples` or `finetuning/qa`, for example.

    Several kinds share one file: without one of its own, a part takes that of
    its kind, and a kind the only one in the folders beside it. The settings
    are those of `TokenizerSettings`.
    """
    if folder.parent.name == "finetuning":
        has_own = (folder / "vocab.txt").is_file()
        folder = folder if has_own else folder.parent
    paths = [folder / "vocab.txt"]
    if not paths[0].is_file():
        paths = sorted(folder.parent.glob("*/vocab.txt"))
    if len(paths) != 1:
        raise FileNotFoundError(
            f"Expected vocab.txt in {folder}, or in one folder beside it."
        )
    tokens = Vocabulary.load(paths[0]).tokens
    return Vocabulary(tokens, TokenizerSettings(**settings))


def build_head(head_class, arrays, **options):
    """A head with the weights of `weights/<path>`, and with all of these."""
    weights = with_prefix(arrays, "weights/")
    stage, task, *_ = next(iter(weights)).split("/")
    with keras.name_scope(stage):
        head = head_class(seed=1, name=task, **options)
        head.build(arrays["final_hidden"].shape)
    for variable in head.weights:
        variable.assign(weights.pop(variable.path))
    if weights:
        raise ValueError(f"{type(head).__name__} has no {sorted(weights)}.")
    return head


def load_tokenizer(folder, **settings):
    return _build_tokenizer(load_vocabulary(folder, **settings))


# Compiling a vocabulary takes longer than most cases.
_build_tokenizer = functools.lru_cache(maxsize=4)(Tokenizer)
