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
# In bytes, of the final name's part in a hidden one: file systems allow 255
# for a name, and whoever writes there may add an ending.
_LONGEST_BEGINNING = 128


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

    Args:
      path: the final name; folders above it are made.

    Yields:
      A free name in the same folder. If the block raises, it is deleted, and
      so are the folders above it that were made for it.

    Raises:
      OSError: if there can be no such folder; names the path.
    """
    path = pathlib.Path(path)
    partial = _partial_name(path)
    made: list[pathlib.Path] = []
    try:
        with _naming_folder(path):
            for folder in reversed(path.parents):
                if not folder.is_dir() and _make_or_find(folder):
                    made.append(folder)
            partial.mkdir()
        yield partial
        try:
            os.rename(partial, path)
        except OSError:
            if not path.is_dir():
                raise
            shutil.rmtree(partial)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        for folder in reversed(made):
            # What others have put something into stays.
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


@contextlib.contextmanager
def _naming_folder(path: pathlib.Path) -> Iterator[None]:
    """Errors name the final path, not the hidden one beside it."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OSError(
            f"{str(path)!r} must be a path at which a folder can be made. "
            f"Received: {reason}. Give another, or repair the folders above it."
        ) from error


def _make_or_find(folder: pathlib.Path) -> bool:
    """Whether it was made here, and not by another process meanwhile."""
    try:
        folder.mkdir()
    except FileExistsError as error:
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is no folder") from error
        return False
    return True


def remove_partial(folder: str | os.PathLike) -> None:
    """Deletes what killed processes left half-written in the folder."""
    for path in pathlib.Path(folder).glob(f".*{PARTIAL_MARK}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _partial_name(path: pathlib.Path) -> pathlib.Path:
    """Returns an unused hidden name beside the path, not too long a one."""
    name = os.fsencode(path.name)[:_LONGEST_BEGINNING].decode("utf-8", "ignore")
    return path.parent / f".{name}{PARTIAL_MARK}{uuid.uuid4().hex}"
