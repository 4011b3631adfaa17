"""Reading reference folders; every error names the file."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from electra_tf.text import vocabulary as vocabulary_lib

Arrays = dict[str, np.ndarray]


class ReferenceFileError(ValueError):
    """A file of the reference folder is damaged; says which."""


def read_json(path: Path) -> Any:
    """The content of a JSON file.

    Raises:
        FileNotFoundError: if there is no such file.
        ReferenceFileError: if it is no JSON.
    """
    _require_file(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ReferenceFileError(
            f"Expected JSON in {path}. Received: {error}."
        ) from error


def read_arrays(path: Path) -> Arrays:
    """All arrays of an `.npz` file.

    Raises:
        FileNotFoundError: if there is no such file.
        ReferenceFileError: if it is damaged.
    """
    _require_file(path)
    try:
        with np.load(path) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        # NumPy takes what it does not know for a pickle, and says so.
        raise ReferenceFileError(
            f"Expected an .npz file of arrays: {path}. Received a damaged "
            "file, or one of another format."
        ) from error


def load_vocabulary(
    folder: Path, settings: vocabulary_lib.TokenizerSettings | None = None
) -> vocabulary_lib.Vocabulary:
    """The `vocab.txt` of a kind of reference.

    Several kinds share one file: without one of its own, a folder uses the
    only one in the folders beside it.

    Args:
        folder: of the kind, for example `examples`.
        settings: casing and accents; None keeps those found beside the file.

    Raises:
        FileNotFoundError: if there is none, or several beside the folder.
    """
    paths = [folder / "vocab.txt"]
    if not paths[0].is_file():
        paths = sorted(folder.parent.glob("*/vocab.txt"))
    if len(paths) != 1:
        raise FileNotFoundError(
            f"Expected vocab.txt in {folder}, or in one folder beside it. "
            f"Received: {[str(path) for path in paths]}."
        )
    vocabulary = vocabulary_lib.Vocabulary.load(paths[0])
    if settings is None:
        return vocabulary
    return vocabulary_lib.Vocabulary(vocabulary.tokens, settings)


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"Expected the file {path}; there is none.")
