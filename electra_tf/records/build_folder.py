"""The state of a dataset folder: free, unfinished, finished, or not ours."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from electra_tf import errors
from electra_tf.records.atomic import remove_partial
from electra_tf.records.atomic import replacing_file
from electra_tf.records.manifest import MANIFEST_FILE
from electra_tf.records.manifest import SPLITS
from electra_tf.records.manifest import load_index

BUILD_FOLDER = ".build"
PARTS_FOLDER = "parts"
SHARDS_FOLDER = "shards"
_RECORD_FILE = "build.json"
_LOCK_FILE = "lock"


@contextlib.contextmanager
def claim_folder(
    output_folder: str | os.PathLike, record: Mapping[str, Any], resume: bool
) -> Iterator[pathlib.Path]:
    """Gives the folder for unfinished work, for one build at a time.

    If the block fails, what it has done stays for a later `resume`; except
    after a ValueError, since a build from wrong input cannot be completed.

    Args:
      output_folder: the dataset folder; created if need be.
      record: all that decides the dataset's bytes, as plain JSON.
      resume: whether to go on with what is there.

    Yields:
      The folder `.build`, with its sub-folders.

    Raises:
      DataError: if the folder holds something else than `record` says, is
        in use, or holds it already and `resume` is False.
    """
    output_folder = pathlib.Path(output_folder)
    _check_folder(output_folder, record, resume)
    build_folder = output_folder / BUILD_FOLDER
    for name in (PARTS_FOLDER, SHARDS_FOLDER):
        (build_folder / name).mkdir(parents=True, exist_ok=True)
    with open(build_folder / _LOCK_FILE, "w") as lock:
        _lock(lock, output_folder)
        for folder in (
            output_folder,
            build_folder,
            *(build_folder / name for name in (PARTS_FOLDER, SHARDS_FOLDER)),
            *(output_folder / split for split in SPLITS),
        ):
            remove_partial(folder)
        with replacing_file(build_folder / _RECORD_FILE) as partial:
            partial.write_text(json.dumps(record), "utf-8")
        try:
            yield build_folder
        except BaseException as error:
            is_useless = isinstance(error, ValueError) or not any(
                (build_folder / PARTS_FOLDER).iterdir()
            )
            if is_useless:
                release_folder(output_folder)
            raise


def release_folder(output_folder: str | os.PathLike) -> None:
    """Removes the folder for unfinished work, and what is empty without it."""
    output_folder = pathlib.Path(output_folder)
    shutil.rmtree(output_folder / BUILD_FOLDER)
    for folder in (*(output_folder / split for split in SPLITS), output_folder):
        with contextlib.suppress(OSError):
            folder.rmdir()


def is_finished(output_folder: str | os.PathLike) -> bool:
    """Returns whether the folder holds a dataset that was completed once."""
    return pathlib.Path(output_folder, MANIFEST_FILE).is_file()


def _lock(lock: Any, output_folder: pathlib.Path) -> None:
    """Takes the folder's lock, which ends with this process."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise errors.DataError(
            f"Another process is building in {output_folder}. Wait for it, or "
            "end it and run again with --resume."
        ) from error


def _check_folder(
    output_folder: pathlib.Path, record: Mapping[str, Any], resume: bool
) -> None:
    """Raises unless the folder is free, or may be resumed."""
    build_file = output_folder / BUILD_FOLDER / _RECORD_FILE
    if is_finished(output_folder):
        found, state = load_index(output_folder)["build"], "a dataset"
    elif build_file.is_file():
        found = json.loads(build_file.read_text("utf-8"))
        state = "an unfinished dataset"
    else:
        if output_folder.exists() and not output_folder.is_dir():
            raise errors.DataError(f"{output_folder} is a file. Name a folder.")
        names = (
            sorted(os.listdir(output_folder)) if output_folder.exists() else []
        )
        if names not in ([], [BUILD_FOLDER]):
            raise errors.DataError(
                f"{output_folder} holds other files: {names[:5]}. Name a new "
                "folder, or empty this one yourself."
            )
        return
    differences = _differences(found, json.loads(json.dumps(record)))
    if differences:
        raise errors.DataError(
            f"{output_folder} holds {state} built otherwise: "
            + "; ".join(differences)
            + ". Name another folder, or delete this one."
        )
    if not resume:
        raise errors.DataError(
            f"{output_folder} holds {state} with these settings. Use --resume "
            "to complete it, name another folder, or delete this one."
        )


def _differences(
    found: Mapping[str, Any], expected: Mapping[str, Any], prefix: str = ""
) -> list[str]:
    """Returns the values that differ, by their dotted names."""
    result = []
    for key in sorted({*found, *expected}):
        old, new = found.get(key), expected.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            result += _differences(old, new, f"{prefix}{key}.")
        elif old != new:
            result.append(f"{prefix}{key} is {old!r} there, {new!r} now")
    return result
