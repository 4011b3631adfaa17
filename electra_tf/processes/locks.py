"""Locks of folders; the end of a process releases its locks."""

import contextlib
import errno
import fcntl
import os
import pathlib
import socket
import time
from collections.abc import Iterator
from typing import IO

from electra_tf import storage

LOCK_FILE = ".lock"
_MAX_OWNER_CHARACTERS = 400


@contextlib.contextmanager
def hold(
    folder: pathlib.Path, is_needed: bool = True, is_shared: bool = False
) -> Iterator[None]:
    """Locks a local folder by a file in it; makes the folder if it is missing.

    A folder that was made and stays empty is removed. A shared lock excludes
    only locks that are not shared. Raises `BlockingIOError` with the owner.
    """
    if not is_needed or not storage.is_local(folder):
        yield
        return
    storage.require_unicode(folder)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path, since = folder / LOCK_FILE, time.strftime("%Y-%m-%d %H:%M:%S")
    with _open_locked(path, is_shared) as file:
        owner = f"process {os.getpid()} on {socket.gethostname()}, {since}"
        try:
            with storage.naming(path):
                os.ftruncate(file.fileno(), 0)
                os.pwrite(file.fileno(), owner.encode(), 0)
            yield
        finally:
            if not is_shared:
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                for empty in missing:
                    empty.rmdir()


@contextlib.contextmanager
def hold_itself(folder: pathlib.Path, waits: bool = False) -> Iterator[None]:
    """Locks a folder without a lock file; the lock survives a renaming.

    Raises `OSError` if another process holds the lock, unless `waits`, or if
    the file system cannot lock folders.
    """
    descriptor = os.open(folder, os.O_DIRECTORY)
    try:
        kind = fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB
        fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def _open_locked(path: pathlib.Path, is_shared: bool) -> IO[str]:
    kind = fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX
    try:
        # Follows no link, and does not wait for the writer of a named pipe.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.fdopen(os.open(path, flags, 0o666), "r+", errors="replace")
        file.seek(0)
        owner = file.read(_MAX_OWNER_CHARACTERS)
        if owner and not owner.startswith("process "):
            text = f"a {path.name} of another program"
            raise FileExistsError(errno.EEXIST, text)
    except OSError as error:
        reason = error.strerror or f"{error}".rstrip(".")
        if path.is_symlink():
            reason = f"a link as {path.name}"
        raise type(error)(
            f"{path.parent} must be a folder to write to. Received: "
            f"{reason}. Name another folder, or repair this one."
        ) from error
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BlockingIOError(
            f"{path.parent} is in use by {owner or 'another process'}. "
            "Wait for its end, stop it, or choose another folder."
        ) from error
    except OSError:  # The file system has no locks.
        return file
    # The former owner may have removed the file since it was opened.
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(path.stat(), os.fstat(file.fileno())):
            return file
    return _open_locked(path, is_shared)
