"""Files and folders that appear under their final name complete or not at all.

Each is written beside its destination under a name that contains
`storage.PARTIAL_MARK`, flushed to the disk and renamed. For a store such as
gs://, it is written to a local temporary folder and copied.
"""

import contextlib
import glob
import os
import pathlib
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator

import numpy as np

from electra_tf import storage
from electra_tf.processes import locks

# Bytes of the final name in a temporary name: file systems allow 255 bytes, and
# a writer may add a suffix.
_MAX_PREFIX_BYTES = 128


@contextlib.contextmanager
def replacing_file(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Yields a temporary path that is renamed to `path` if the block succeeds.

    An existing file is replaced atomically. If the block raises, for example
    because the disk is full, the temporary file is deleted.
    """
    path = storage.path(path)
    if not storage.is_local(path):
        with _uploading(path) as local:
            yield local
        return
    partial = _partial_name(path)
    try:
        with storage.naming(path):
            yield partial
            _flush(partial)
            partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text to a file, in UTF-8."""
    with replacing_file(path) as partial:
        partial.write_text(text, "utf-8")


def save_array(path: str | os.PathLike, array: np.ndarray) -> None:
    """Writes an array to a file, in NumPy's format."""
    with replacing_file(path) as partial, partial.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)


@contextlib.contextmanager
def _uploading(path: pathlib.Path, marker: str = "") -> Iterator[pathlib.Path]:
    with tempfile.TemporaryDirectory() as scratch:
        yield (local := pathlib.Path(scratch, path.name))
        try:
            storage.copy(local, path, marker)
        except BaseException:
            if local.is_dir():
                with contextlib.suppress(OSError):
                    storage.remove_folder(path, marker)
            raise


@contextlib.contextmanager
def creating_folder(
    path: str | os.PathLike,
    marker: str = "config.json",
    refuses: str = "",
) -> Iterator[pathlib.Path]:
    """Yields an empty folder, which is renamed to `path` if the block succeeds.

    If the block raises, the folder is deleted, with the parents made for it.

    Args:
        path: the folder to create.
        marker: file that is copied last to a store: it marks a complete folder.
        refuses: the flag that names the folder, for the `FileExistsError` if
            `path` exists before or after the block. By default, an existing
            folder is kept, which should have the same content.
    """
    if refuses:
        refuse_existing(path, refuses)
    path = storage.path(path)
    if not storage.is_local(path):
        with _uploading(path, marker) as local:
            local.mkdir()
            yield local
        return
    _remove_abandoned(path)
    partial = _partial_name(path)
    missing = [folder for folder in path.parents if not folder.is_dir()]
    with contextlib.ExitStack() as lock:
        try:
            _make_locked(partial, path, lock)
            with storage.naming(path):
                yield partial
                for written in (*partial.rglob("*"), partial):
                    _flush(written)
            try:
                partial.rename(path)
            except OSError:
                if not path.is_dir():
                    raise
                if refuses:
                    refuse_existing(path, refuses)
                shutil.rmtree(partial)
            _flush(path.parent)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            for folder in missing:
                # A folder that others have written to is kept.
                with contextlib.suppress(OSError, ValueError):
                    folder.rmdir()
            raise


def _flush(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_locked(
    partial: pathlib.Path, path: pathlib.Path, lock: contextlib.ExitStack
) -> None:
    try:
        # Another process may delete the folder before it is locked.
        while not partial.is_dir():
            partial.mkdir(parents=True)
            with contextlib.suppress(OSError):  # a file system without locks
                lock.enter_context(locks.hold_itself(partial, waits=True))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(
            f"{str(path)!r} must be a path at which a folder can be made. "
            f"Received: {reason}. Name another path, or repair its parents."
        ) from error


def not_written(path: str | os.PathLike, error: Exception) -> OSError:
    """Builds the error that a file or folder could not be written."""
    return OSError(
        f"{path} could not be written: {first_line(error)}. Nothing was kept. "
        "Free space or repair the disk, then start the same command again."
    )


def first_line(error: Exception) -> str:
    """Returns the first line of a message, without names of graph nodes."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return re.sub(r"\{\{.*?\}\} | \[Op:\w+\]", "", line)


def refuse_existing(path: str | os.PathLike, flag: str) -> None:
    """Raises `FileExistsError` if a folder that `flag` names exists already.

    Raises `ValueError` if the name is not UTF-8.
    """
    path = storage.path(path)
    storage.require_unicode(path)
    if path.exists() or (storage.is_local(path) and path.is_symlink()):
        raise FileExistsError(
            f"The folder to create must not exist yet. Received: {path}. "
            f"Give another {flag}, or remove that folder."
        )


def remove_partial(folder: str | os.PathLike) -> None:
    """Deletes unfinished files that killed processes left in a folder."""
    for path in storage.path(folder).glob(f".*{storage.PARTIAL_MARK}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _remove_abandoned(path: pathlib.Path) -> None:
    """Deletes unfinished versions of a folder that no process has locked."""
    for partial in path.parent.glob(f"{glob.escape(_partial_prefix(path))}*"):
        with contextlib.suppress(OSError), locks.hold_itself(partial):
            shutil.rmtree(partial, ignore_errors=True)


def _partial_name(path: pathlib.Path) -> pathlib.Path:
    return path.parent / f"{_partial_prefix(path)}{uuid.uuid4().hex}"


def _partial_prefix(path: pathlib.Path) -> str:
    name = os.fsencode(path.name)[:_MAX_PREFIX_BYTES].decode("utf-8", "ignore")
    return f".{name}{storage.PARTIAL_MARK}"
