"""Tensors in PyTorch files, without running what is in them.

A `pytorch_model.bin` is a pickle, which can call anything. It is read as
`torch.load(weights_only=True)` reads it: names of plain tensors and their
storages are known, every other name in the pickle is refused. Files of today's
layout, a zip archive, need no PyTorch; older ones do.
"""

import collections
import io
import math
import pathlib
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from electra_tf.formats import portable

# Storage classes of PyTorch and what their bytes are.
_STORAGES: dict[str, Any] = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "BFloat16Storage": ml_dtypes.bfloat16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "ByteStorage": np.uint8,
    "CharStorage": np.int8,
    "BoolStorage": np.bool_,
}
_MAX_PICKLE_BYTES = 16 * 2**20
# More than a tensor has axes.
_MAX_TUPLE_LENGTH = 32
# What `torch.save` writes for a dict of tensors, in any protocol.
_OPCODES = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK),
    *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BINFLOAT),
    *(pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1),
    *(pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.SHORT_BINSTRING),
    *(pickle.EMPTY_DICT, pickle.SETITEM, pickle.SETITEMS),
    *(pickle.EMPTY_LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_TUPLE),
    *(pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE),
    *(pickle.BINGET, pickle.LONG_BINGET),
    *(pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.BINPERSID),
    *(pickle.REDUCE, pickle.BUILD),
)
_TUPLES = pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3

Arrays = dict[str, np.ndarray]


def read(path: pathlib.Path) -> Arrays:
    """All tensors of a PyTorch file; nothing that is in it is run.

    Args:
        path: what `torch.save` made of a dict of tensors.

    Raises:
        FormatError: if it is damaged, or holds anything but tensors.
        ImportError: for a file of PyTorch before 1.6 without PyTorch.
    """
    if not _is_archive(path):
        return _read_old_torch(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return _TorchArchive(archive).read()
    except portable.FormatError as error:
        raise portable.FormatError(f"{path}: {error}") from error
    except Exception as error:
        # A crafted pickle can make its reader fail in any way.
        raise portable.FormatError(
            f"{path} must hold a dict of tensors, as torch.save writes it. "
            f"Received: {type(error).__name__}: {error}. It is cut off or "
            "damaged: download it again."
        ) from error


def _is_archive(path: pathlib.Path) -> bool:
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        # A damaged one, as whoever opens it will see.
        return True


def _read_old_torch(path: pathlib.Path) -> Arrays:
    with open(path, "rb") as stream:
        is_pickle = stream.read(1) == b"\x80"
    if not is_pickle:
        raise portable.FormatError(
            f"{path} must be a PyTorch file. Received: something else, or the "
            "beginning of one. Download it again."
        )
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{path} was written by PyTorch before 1.6, which only PyTorch "
            "reads. Install it (pip install torch), or take the model's "
            "model.safetensors."
        ) from error
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
        return {name: tensors[name].float().numpy() for name in tensors}
    except Exception as error:
        raise portable.FormatError(
            f"{path} must hold a dict of tensors. Received: "
            f"{type(error).__name__}: {error}"
        ) from error


class _Known:
    """What a name in a pickle stands for: a storage's dtype, or a function.

    A pickle may set attributes of whatever it names, functions too, and they
    would stay so for the next file. Nothing can be set here.
    """

    __slots__ = ("_call", "dtype")

    def __init__(
        self, call: Callable[..., Any] | None = None, dtype: Any = None
    ) -> None:
        self._call = call
        self.dtype = dtype if dtype is None else np.dtype(dtype)

    def __call__(self, *args: Any) -> Any:
        if self._call is None:
            raise portable.FormatError("it makes a storage, which none does")
        return self._call(*args)

    def __setstate__(self, state: Any) -> None:
        raise portable.FormatError("it changes what its names mean")


class _TorchArchive:
    """A zip archive of `torch.save`: `data.pkl` and one file per storage."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        found = [n for n in archive.namelist() if n.endswith("/data.pkl")]
        if len(found) != 1 or found[0].count("/") != 1:
            raise portable.FormatError(
                f"expected one data.pkl in the archive, found {found}"
            )
        self._folder = found[0].removesuffix("data.pkl")
        self._storages: dict[str, np.ndarray] = {}
        order = "byteorder"
        is_stated = self._folder + order in archive.namelist()
        if is_stated and self._read_entry(order, 16) != b"little":
            raise portable.FormatError("expected little-endian tensors")

    def read(self) -> Arrays:
        data = self._read_entry("data.pkl", _MAX_PICKLE_BYTES)
        content = _StateDictReader(data, self._storage).load()
        if not isinstance(content, dict):
            raise portable.FormatError(
                f"expected a dict of tensors, found a {type(content).__name__}"
            )
        for name, value in content.items():
            # Not shown themselves, they may be without end.
            if not isinstance(name, str) or not isinstance(value, np.ndarray):
                raise portable.FormatError(
                    "expected names and tensors, found a "
                    f"{type(name).__name__} and a {type(value).__name__}"
                )
        return dict(content)

    def _storage(self, reference: Any) -> np.ndarray:
        parts = reference if isinstance(reference, tuple) else ()
        types = tuple(type(part) for part in parts)
        if types != (str, _Known, str, str, int) or parts[0] != "storage":
            shown = ", ".join(kind.__name__ for kind in types)
            raise portable.FormatError(f"unknown reference of {shown or None}")
        _, storage, key, _, size = parts
        if key not in self._storages:
            # Many tensors may name one storage; it is read once.
            data = self._read_entry(f"data/{key}")
            self._storages[key] = np.frombuffer(data, np.uint8)
        found = self._storages[key].view(storage.dtype)
        if len(found) != size:
            raise portable.FormatError(
                f"storage {key} holds {len(found)} numbers, expected {size}"
            )
        return found

    def _read_entry(self, name: str, max_bytes: int | None = None) -> bytes:
        """An entry, looked at before it is read."""
        entry = self._archive.getinfo(self._folder + name)
        if entry.compress_type != zipfile.ZIP_STORED:
            raise portable.FormatError(f"{name} is compressed")
        if max_bytes is not None and entry.file_size > max_bytes:
            raise portable.FormatError(f"{name} is too large")
        return self._archive.read(entry)


def _rebuild_tensor(
    storage: np.ndarray, offset: int, size: Any, stride: Any, *_: Any
) -> np.ndarray:
    """What `torch._utils._rebuild_tensor_v2` makes, in the storage's memory."""
    # An array of another shape may be longer than the memory that it has.
    if not isinstance(storage, np.ndarray) or storage.ndim != 1:
        raise portable.FormatError("a tensor is of something but a storage")
    # Products of texts and lists take any memory.
    if {type(number) for number in (offset, *size, *stride)} != {int}:
        raise portable.FormatError("a tensor's shape is not in integers")
    if min(size, default=0) < 0:
        raise portable.FormatError("a tensor's shape is negative")
    if math.prod(size) > len(storage):
        raise portable.FormatError("a tensor is larger than its storage")
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if offset < 0 or min(stride, default=0) < 0:
        raise portable.FormatError("a tensor lies outside of its storage")
    if math.prod(size) and last >= len(storage):
        raise portable.FormatError("a tensor lies outside of its storage")
    strides = [step * storage.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(
        storage[offset:], size, strides, writeable=False
    )


def _rebuild_parameter(data: Any, *_: Any) -> np.ndarray:
    if not isinstance(data, np.ndarray):
        raise portable.FormatError("a parameter is of something but a tensor")
    return data


_KNOWN: dict[tuple[str, str], _Known] = {
    ("collections", "OrderedDict"): _Known(collections.OrderedDict),
    ("torch._utils", "_rebuild_tensor_v2"): _Known(_rebuild_tensor),
    ("torch._utils", "_rebuild_parameter"): _Known(_rebuild_parameter),
    **{
        ("torch", name): _Known(dtype=dtype)
        for name, dtype in _STORAGES.items()
    },
}


def _checked(make_tuple: Callable[[Any], None]) -> Callable[[Any], None]:
    """The operation, with a look at the tuple that it leaves on the stack."""

    def load(reader: Any) -> None:
        make_tuple(reader)
        made = reader.stack[-1]
        inner = [part for part in made if isinstance(part, tuple)]
        is_deep = any(isinstance(part, tuple) for one in inner for part in one)
        if is_deep or len(made) > _MAX_TUPLE_LENGTH:
            raise portable.FormatError(
                "it holds tuples larger than those of any tensor"
            )

    return load


class _Operations(dict[int, Callable[[Any], None]]):
    """Opcode to what it does."""

    def __missing__(self, code: int) -> None:
        raise portable.FormatError(
            f"operation {bytes([code])!r}, which no dict of tensors needs"
        )


# Python's own implementation; that in C cannot be told what to refuse.
_BASE: Any = pickle._Unpickler


class _StateDictReader(_BASE):
    """A reader of pickles that knows the names of tensors and no other.

    Nor does it make tuples within tuples, a few bytes of which can stand for
    more elements than can ever be hashed.
    """

    def __init__(self, data: bytes, load: Callable[[Any], np.ndarray]) -> None:
        super().__init__(io.BytesIO(data))
        self._load = load

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _KNOWN:
            raise portable.FormatError(
                f"it names {module:.80}.{name:.80}, which is no tensor. Such a "
                "file can run any program; nothing of it was run. Take the "
                "model's model.safetensors"
            )
        return _KNOWN[module, name]

    def persistent_load(self, reference: Any) -> np.ndarray:
        return self._load(reference)

    dispatch = _Operations(
        {code[0]: _BASE.dispatch[code[0]] for code in _OPCODES}
        | {code[0]: _checked(_BASE.dispatch[code[0]]) for code in _TUPLES}
    )
