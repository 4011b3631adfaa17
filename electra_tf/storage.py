"""Paths on this machine, or in a store such as gs://.

A local path is a `pathlib.Path`, any other an `epath.Path` with the same
methods, on TensorFlow's file systems. Stores rename by copying, and have
neither locks nor flushing. So files are made in a local temporary folder and
copied as a whole; the file that marks a folder as complete is copied last.
"""

import contextlib
import errno
import fnmatch
import functools
import io
import math
import os
import pathlib
import re
import shutil
import stat
import sys
import tempfile
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from etils import epath
from etils.epath import backend
from etils.epath import gpath

# Marks files and folders that are being written or deleted.
PARTIAL_MARK = ".partial-"
_SCHEME = re.compile(r"(\w\w+):/(/?)")
_BUILT_IN = ("gs", "ram")
# Python's error for each of TensorFlow's; `OSError` for others.
_OS_ERRORS = {"NotFound": FileNotFoundError, "AlreadyExists": FileExistsError,
              "PermissionDenied": PermissionError,
              "Unauthenticated": PermissionError}  # fmt: skip
_BUFFER_BYTES = 1 << 20
MAX_TEXT_BYTES = 1 << 26
"""Maximum size of a file of settings, of tokens or of tensor names."""


def path(given: str | os.PathLike[str], *parts: str) -> pathlib.Path:
    """Returns the path object of a text, joined with `parts`.

    `~` becomes the user's folder, as shells do not expand it in `--flag=~/x`.
    Raises `ValueError` for a scheme without a file system, such as `foo://`.
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
            "A path must be local or have a scheme of TensorFlow's file "
            f"systems: {', '.join(f'{s}://' for s in sorted(known))}. "
            f"Received: {text}. Copy the files to one of these, mount them as "
            "a folder, or write both slashes; in Python, give a string."
        )
    # The class has all methods of local paths that this project calls.
    return typing.cast(pathlib.Path, _CloudPath(text).joinpath(*parts))


def is_local(given: str | os.PathLike[str]) -> bool:
    """Returns whether a path is on this machine: it has no scheme."""
    return _SCHEME.match(os.fspath(given)) is None


def _raising_os_errors(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turns TensorFlow's errors into `OSError`s that name the path."""

    @functools.wraps(function)
    def call(place: Any, *arguments: Any, **options: Any) -> Any:
        import tensorflow as tf

        try:
            return function(place, *arguments, **options)
        except tf.errors.OpError as error:
            kind = type(error).__name__.removesuffix("Error")
            message = f"{place}: {error.message or kind}".split("\n")[0]
            os_error = _OS_ERRORS.get(kind, OSError)(message)
            # Without an errno, readers report a damaged file.
            os_error.errno = errno.EIO
            raise os_error from error

    return call


class _Reader(io.RawIOBase):
    """A file on a TensorFlow file system, as a raw stream of Python."""

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

    @_raising_os_errors
    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._position)
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position


_open_reader = _raising_os_errors(_Reader)


@epath.register_path_cls(tuple(f"{s}://" for s in _BUILT_IN))
class _CloudPath(gpath.PosixGPath):
    """A path on a TensorFlow file system, kept as `/scheme/bucket/name`."""

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
        if "r" not in mode:
            return super().open(mode)
        raw = io.BufferedReader(_open_reader(str(self)), _BUFFER_BYTES)
        if "b" in mode:
            return raw
        return io.TextIOWrapper(raw, encoding, newline=newline)

    def iterdir(self) -> Iterator["_CloudPath"]:
        names = _raising_os_errors(self._backend.listdir)(str(self))
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
        return self.glob(f"**/{pattern}")

    def stat(self) -> Any:
        statistics = self._backend.gfile.stat(str(self))
        return types.SimpleNamespace(st_size=statistics.length)

    def rmdir(self) -> None:
        if any(self.iterdir()):
            raise OSError(f"{self} is not empty")
        self.rmtree()


for _name in ("exists", "is_dir", "mkdir", "stat", "unlink", "rmtree",
              "read_bytes", "write_bytes", "write_text"):  # fmt: skip
    setattr(_CloudPath, _name, _raising_os_errors(getattr(_CloudPath, _name)))


def _without_scheme(parts: tuple[Any, ...]) -> list[str]:
    first, *others = map(os.fspath, parts)
    scheme, mark, rest = first.partition("://")
    return [f"/{scheme}/{rest}" if mark else first, *others]


@_raising_os_errors
def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    import tensorflow as tf

    if str(target).startswith("ram:"):  # to which `copy` would append
        target.unlink(missing_ok=True)
    tf.io.gfile.copy(str(source), str(target), overwrite=True)


def copy(source: pathlib.Path, target: pathlib.Path, marker: str = "") -> None:
    """Copies a file or a folder between any file systems.

    The file `marker` is copied last, and marks a complete copy.
    """
    if not source.is_dir():
        _copy(source, target)
        return
    target.mkdir(parents=True, exist_ok=True)
    for each in sorted(source.iterdir(), key=lambda p: (p.name == marker, p)):
        copy(each, target / each.name)


@contextlib.contextmanager
def local_copy(source: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yields a local path with the content of a file or folder."""
    if is_local(source):
        yield source
        return
    with tempfile.TemporaryDirectory() as scratch:
        target = pathlib.Path(scratch, source.name)
        copy(source, target)
        yield target


def remove_folder(folder: pathlib.Path, marker: str = "") -> None:
    """Deletes a folder; first the file `marker`, which marks it as complete."""
    if is_local(folder):
        hidden = f".{folder.name}{PARTIAL_MARK}{os.getpid()}"
        if marker:
            folder = folder.rename(folder.with_name(hidden))
        shutil.rmtree(folder)
    else:
        if marker:
            (folder / marker).unlink(missing_ok=True)
        folder.rmtree()  # type: ignore[attr-defined]


@contextlib.contextmanager
def naming(target: str | os.PathLike[str]) -> Iterator[None]:
    """Adds a path to an `OSError` without one, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.strerror and error.filename is None:
            error.filename = os.fspath(target)
        raise


@_raising_os_errors
def append_text(target: pathlib.Path, text: str) -> None:
    """Appends a text to a file; stores write the whole file."""
    with naming(target), target.open("a", encoding="utf-8") as file:
        file.write(text)


def require_unicode(given: str | os.PathLike[str]) -> None:
    """Raises `ValueError` for a name that is not UTF-8, as TensorFlow needs."""
    try:
        os.fspath(given).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"The name of a folder to write to, or of a model, must be UTF-8. "
            f"Received: {os.fsencode(given)!r}. Rename it, or name another."
        ) from error


def require_regular(source: pathlib.Path, limit: int = MAX_TEXT_BYTES) -> int:
    """Returns the size of a file; raises `ValueError` above the limit.

    Folders, devices and pipes, which may never end, raise `ValueError` too. The
    message completes "Received: ".
    """
    status = source.stat()
    if is_local(source) and not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{source.name} is a folder, a device or a pipe")
    if status.st_size > limit:
        raise ValueError(f"{status.st_size:,} bytes, of at most {limit:,}")
    return status.st_size


def read_bytes(source: pathlib.Path, limit: int = MAX_TEXT_BYTES) -> bytes:
    """Reads a file; raises the errors of `require_regular`."""
    size = require_regular(source, limit)
    with source.open("rb") as file:
        # At most `size`: some files of the system have size 0 and never end.
        return typing.cast(bytes, file.read(size))


def load_rows(
    source: pathlib.Path, choose: Callable[[int], slice] = lambda n: slice(n)
) -> np.ndarray:
    """Reads rows of a `.npy` file: all, or a slice.

    `choose` maps the number of rows to the slice. Raises `OSError` for damage.
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
