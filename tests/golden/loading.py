"""Reads the files of a reference folder; every error names the file."""

import functools
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from electra_tf.text.tokenizer import Tokenizer
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary

Arrays = dict[str, np.ndarray]


def read_json(path: Path) -> Any:
    """The content of a JSON file; ValueError if it is no JSON."""
    text = path.read_text(encoding="utf-8")
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"Expected JSON in {path}. Received: {error}."
        ) from error


def read_arrays(path: Path) -> Arrays:
    """All arrays of an `.npz` file; ValueError if it is damaged."""
    try:
        with np.load(path) as archive:
            return dict(archive)
    except FileNotFoundError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        # NumPy takes what it does not know for a pickle, and says so.
        raise ValueError(
            f"Expected an .npz file of arrays: {path}. Received a damaged "
            "file, or one of another format."
        ) from error


def with_prefix(arrays: Arrays, prefix: str) -> Arrays:
    """The arrays whose names begin so, by the rest of their names."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def load_vocabulary(
    folder: Path, settings: TokenizerSettings = TokenizerSettings()
) -> Vocabulary:
    """The `vocab.txt` of a kind of reference, or of a part of a kind.

    Several kinds share one file: without one of its own, a part takes that of
    its kind, and a kind the only one in the folders beside it.

    Args:
        folder: for example `examples` or `finetuning/qa`.
        settings: casing and accents.
    """
    paths = [folder / "vocab.txt"]
    if folder.parent.name == "finetuning" and not paths[0].is_file():
        folder = folder.parent
        paths = [folder / "vocab.txt"]
    if not paths[0].is_file():
        paths = sorted(folder.parent.glob("*/vocab.txt"))
    if len(paths) != 1:
        raise FileNotFoundError(
            f"Expected vocab.txt in {folder}, or in one folder beside it. "
            f"Received: {[str(path) for path in paths]}."
        )
    return Vocabulary(Vocabulary.load(paths[0]).tokens, settings)


def load_tokenizer(
    folder: Path, settings: TokenizerSettings = TokenizerSettings()
) -> Tokenizer:
    """A tokenizer with the vocabulary of `load_vocabulary`."""
    return _build_tokenizer(load_vocabulary(folder, settings))


@functools.lru_cache(maxsize=4)
def _build_tokenizer(vocabulary: Vocabulary) -> Tokenizer:
    # Compiling a vocabulary takes longer than most cases.
    return Tokenizer(vocabulary)
