"""Files and folders that appear under their final name complete or not at all.

Everything is written beside its destination under a name that contains
`PARTIAL_MARK`, flushed to the disk and renamed. What a killed process left
under such a name is worthless and may be deleted by whoever owns the folder.
"""

import contextlib
import os
import pathlib
import shutil
import uuid
from collections.abc import Iterator

PARTIAL_MARK = ".partial-"


@contextlib.contextmanager
def replacing_file(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Gives a path to write to, which becomes `path` if the block succeeds.

    Args:
      path: the final name; an existing file is replaced in one instant.

    Yields:
      A free name in the same folder. If the block raises, for example because
      the disk is full, what it wrote there is deleted.
    """
    path = pathlib.Path(path)
    partial = _partial_name(path)
    try:
        yield partial
        with open(partial, "rb") as stream:
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def creating_folder(path: str | os.PathLike) -> Iterator[pathlib.Path]:
    """Gives an empty folder, which becomes `path` if the block succeeds.

    Should another process have created `path` in the meantime, that one stays:
    both are taken to hold the same.
    """
    path = pathlib.Path(path)
    partial = _partial_name(path)
    partial.mkdir(parents=True)
    try:
        yield partial
        try:
            os.rename(partial, path)
        except OSError:
            if not path.is_dir():
                raise
            shutil.rmtree(partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def remove_partial(folder: str | os.PathLike) -> None:
    """Deletes what killed processes left half-written in the folder."""
    for path in pathlib.Path(folder).glob(f".*{PARTIAL_MARK}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _partial_name(path: pathlib.Path) -> pathlib.Path:
    """Returns an unused hidden name beside the path."""
    return path.with_name(f".{path.name}{PARTIAL_MARK}{uuid.uuid4().hex}")
