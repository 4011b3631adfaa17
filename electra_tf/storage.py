"""Paths that a user gives: on this machine, or on a store such as gs://.

A local path is a `pathlib.Path`, any other an `epath.Path` with the same
methods, on TensorFlow's file systems. These rename by copying and know neither
locks nor flushing. So nothing is written there piece by piece: it is made in a
temporary folder here and copied whole, its marker last.
"""

import contextlib
import errno
import fnmatch
import functools
import io
import math
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl import logging
from etils import epath
from etils.epath import backend
from etils.epath import gpath

PARTIAL_MARK = ".partial-"
"""Part of the names of what is not complete, or on its way out."""
_SCHEME = re.compile(r"(\w\w+):/(/?)")
_BUILT_IN = ("gs", "ram")
# Between tries, for errors of TensorFlow that may pass.
_WAIT_SECONDS = (1.0, 2.0, 4.0, 8.0)
_PASSING = ("Aborted", "DeadlineExceeded", "Internal", "ResourceExhausted",
            "Unavailable", "Unknown")  # fmt: skip
_OS_ERRORS = {"NotFound": FileNotFoundError, "AlreadyExists": FileExistsError,
              "PermissionDenied": PermissionError,
              "Unauthenticated": PermissionError}  # fmt: skip
_BUFFER_BYTES = 1 << 20


def path(given: str | os.PathLike[str], *parts: str) -> pathlib.Path:
    """The object for a path that a user gives, and names below it.

    `~` is the user's folder, since shells leave it alone in `--flag=~/x`.
    `ValueError` names a scheme such as `foo://` that nobody here can read.
    """
    text = os.fspath(given)
    match = _SCHEME.match(text)
    if match is None:
        return pathlib.Path(os.path.expanduser(text), *parts)
    scheme, known = match[1], set(_BUILT_IN)
    if "tensorflow" in sys.modules:  # perhaps with a plugin
        known |= {*sys.modules["tensorflow"].io.gfile.get_registered_schemes()}
    known -= {"", "file"}
    if not match[2] or scheme not in known:
        raise ValueError(
            "A path must be local or begin with a scheme that TensorFlow has a "
            f"file system for: {', '.join(f'{s}://' for s in sorted(known))}. "
            f"Received: {text}. Copy the files to one of these, mount them as "
            "a folder, or write both slashes; in Python, give a string."
        )
    # It has all methods of a local one that this project calls.
    return typing.cast(pathlib.Path, _CloudPath(text).joinpath(*parts))


def is_local(given: str | os.PathLike[str]) -> bool:
    """Whether a path is one of this machine's file systems."""
    return _SCHEME.match(os.fspath(given)) is None


def _retried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Calls again what may pass; makes TensorFlow's errors those of Python."""

    @functools.wraps(function)
    def call(place: Any, *arguments: Any, **options: Any) -> Any:
        import tensorflow as tf

        for wait in (*_WAIT_SECONDS, 0.0):
            try:
                return function(place, *arguments, **options)
            except tf.errors.OpError as error:
                kind = type(error).__name__.removesuffix("Error")
                first_line = f"{place}: {error.message or kind}".split("\n")[0]
                if not wait or kind not in _PASSING:
                    found = _OS_ERRORS.get(kind, OSError)(first_line)
                    # As the system's own: a file that could not be read is
                    # not a damaged one.
                    found.errno = errno.EIO
                    raise found from error
            logging.warning("%s. Trying again ...", first_line)
            time.sleep(wait * random.uniform(0.5, 1.0))
        raise AssertionError("the last try returns or raises")

    return call


class _Reader(io.RawIOBase):
    """A file of TensorFlow's file systems as Python's libraries read one."""

    def __init__(self, name: str) -> None:
        import tensorflow as tf

        self.name, self._position = name, 0
        self._file = tf.io.gfile.GFile(name, "rb")
        self._size = self._file.size()

    def __str__(self) -> str:
        return self.name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    @_retried
    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._position)
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position


@epath.register_path_cls(tuple(f"{s}://" for s in _BUILT_IN))
class _CloudPath(gpath.PosixGPath):
    """A path on a file system of TensorFlow; inside, `/scheme/bucket/name`."""

    if sys.version_info >= (3, 12):

        def __init__(self, *parts: Any) -> None:
            super().__init__(*_without_scheme(parts))

    else:

        def __new__(cls, *parts: Any) -> "_CloudPath":
            return super().__new__(cls, *_without_scheme(parts))

    @property
    def _uri_scheme(self) -> str | None:
        return self.parts[1] if self.root and self.parts[1:] else None

    @property
    def _backend(self) -> backend.Backend:
        return backend.tf_backend

    def resolve(self, strict: bool = False) -> "_CloudPath":
        return self

    absolute = resolve

    def open(
        self,
        mode: str = "r",
        encoding: str | None = "utf-8",
        newline: str | None = None,
    ) -> Any:
        """Opens it; to read, as a file that libraries of Python take."""
        if "r" not in mode:
            return super().open(mode)
        raw = io.BufferedReader(_retried(_Reader)(str(self)), _BUFFER_BYTES)
        if "b" in mode:
            return raw
        return io.TextIOWrapper(raw, encoding, newline=newline)

    def iterdir(self) -> Iterator["_CloudPath"]:
        names = _retried(self._backend.listdir)(str(self))
        return iter([self / name for name in names])

    def glob(self, pattern: str) -> Iterator["_CloudPath"]:
        first, _, rest = pattern.partition("/")
        if first == "**":  # this folder and all below it
            yield from self.glob(rest or "*")
        for child in self.iterdir() if self.is_dir() else ():
            if first == "**":
                yield from child.glob(pattern)
            elif fnmatch.fnmatchcase(child.name, first):
                yield from child.glob(rest) if rest else [child]

    def rglob(self, pattern: str) -> Iterator["_CloudPath"]:
        for folder, _, names in _retried(lambda folder: [*folder.walk()])(self):
            yield from (folder / n for n in fnmatch.filter(names, pattern))

    def stat(self) -> Any:
        found = self._backend.gfile.stat(str(self))
        return types.SimpleNamespace(st_size=found.length)

    def rmdir(self) -> None:
        if any(self.iterdir()):
            raise OSError(f"{self} is not empty")
        self.rmtree()


for _name in ("exists", "is_dir", "mkdir", "stat", "unlink", "rmtree",
              "read_bytes", "write_bytes", "write_text"):  # fmt: skip
    setattr(_CloudPath, _name, _retried(getattr(_CloudPath, _name)))


def _without_scheme(parts: tuple[Any, ...]) -> list[str]:
    first, *others = map(os.fspath, parts)
    scheme, mark, rest = first.partition("://")
    return [f"/{scheme}/{rest}" if mark else first, *others]


@_retried
def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    import tensorflow as tf

    if str(target).startswith("ram:"):  # where it would be appended
        target.unlink(missing_ok=True)
    tf.io.gfile.copy(str(source), str(target), overwrite=True)


def copy(source: pathlib.Path, target: pathlib.Path, marker: str = "") -> None:
    """Copies a file or a folder to, from or on any file system.

    The file called `marker` is copied last: with it, the copy is complete.
    """
    if not source.is_dir():
        _copy(source, target)
        return
    target.mkdir(parents=True, exist_ok=True)
    for each in sorted(source.iterdir(), key=lambda p: (p.name == marker, p)):
        copy(each, target / each.name)


@contextlib.contextmanager
def local_copy(source: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a file or folder for libraries that read from this machine."""
    if is_local(source):
        yield source
        return
    with tempfile.TemporaryDirectory() as scratch:
        target = pathlib.Path(scratch, source.name)
        copy(source, target)
        yield target


def remove_folder(folder: pathlib.Path, marker: str = "") -> None:
    """Deletes a folder, the file that makes it complete first."""
    if is_local(folder):
        hidden = f".{folder.name}{PARTIAL_MARK}{os.getpid()}"
        if marker:
            folder = folder.rename(folder.with_name(hidden))
        shutil.rmtree(folder)
    else:
        if marker:
            (folder / marker).unlink(missing_ok=True)
        folder.rmtree()  # type: ignore[attr-defined]


@_retried
def append_text(target: pathlib.Path, text: str) -> None:
    """Appends to a file; stores write it anew."""
    with target.open("a", encoding="utf-8") as file:
        file.write(text)


def load_rows(
    source: pathlib.Path, choose: Callable[[int], slice] = lambda n: slice(n)
) -> np.ndarray:
    """Reads the rows of a `.npy` file that `choose` takes of their number.

    Raises `OSError` if the file ends before them.
    """
    with source.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        num_rows, *others = shape
        begin, end, _ = choose(num_rows).indices(num_rows)
        row_bytes = dtype.itemsize * math.prod(others)
        file.seek(begin * row_bytes, os.SEEK_CUR)
        content = file.read((end - begin) * row_bytes)
        if len(content) != (end - begin) * row_bytes:
            raise OSError(
                f"{source} is cut off: expected {end - begin} rows of "
                f"{row_bytes} bytes from row {begin}. Received: {len(content)} "
                f"bytes. Delete {source.parent} and run the command again."
            )
    return np.frombuffer(content, dtype).reshape(end - begin, *others)
