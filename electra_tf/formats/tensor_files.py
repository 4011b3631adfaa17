"""Reads the weights of a Hugging Face model; a pickle only as a last resort."""

import math
import pathlib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated

import h5py
import ml_dtypes
import pydantic
import safetensors.numpy

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.formats import portable
from electra_tf.formats.portable import Arrays

SAFETENSORS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
TORCH_FILE = "pytorch_model.bin"
FILES = (SAFETENSORS_FILE, INDEX_FILE, "tf_model.h5", TORCH_FILE)
_NUM_SHOWN = 8
# Bytes for names, heads, and tables that some files repeat.
_EXTRA_BYTES = 1 << 26
# Limits of an HDF5 file; models have about a thousand groups and arrays.
_MAX_MEMBERS, _MAX_NAME = 20_000, 1_000


@schema.frozen
class _Index:
    """The file of each tensor, in the folder of the index."""

    weight_map: dict[str, Annotated[str, pydantic.Field(pattern=r"^[^/\\]+$")]]


def read_tensors(
    folder: pathlib.Path, expected: portable.Shapes
) -> tuple[Arrays, pathlib.Path]:
    """Reads all tensors of a model's folder; returns the file's path too.

    A file that is much larger than the shapes in `expected` is not read.
    """
    path = next((p for p in map(folder.joinpath, FILES) if p.exists()), None)
    if path is None:
        names = sorted(path.name for path in folder.iterdir())[:_NUM_SHOWN]
        raise FileNotFoundError(
            f"Expected {', '.join(FILES)} in {folder}. Received: "
            f"{', '.join(names) or 'nothing'}. Give the complete folder of a "
            "model. transformers writes it: MODEL.save_pretrained(FOLDER); "
            "merge a peft adapter before that: MODEL.merge_and_unload()."
        )
    if path.name != INDEX_FILE:
        require_sizes([path], expected)
        return _read_file(path), path
    content = schema.read_object(path, errors.ModelError)
    parts = portable.build_known(_Index, content, path).weight_map
    files = [folder / name for name in sorted({*parts.values()})]
    require_sizes(files, expected)
    return _read_parts(path, parts), path


def require_sizes(
    paths: Sequence[pathlib.Path], expected: portable.Shapes
) -> None:
    """Raises `ModelError` unless paths are files of about the model's size."""
    room = _EXTRA_BYTES + 8 * sum(map(math.prod, expected.values()))
    for path in paths:
        try:
            room -= storage.require_regular(path, room)
        except (OSError, ValueError) as error:
            raise errors.ModelError(
                f"{path} must be a file of the tensors that the config beside "
                f"it describes. Received: {error}. Copy the files again."
            ) from error


def _read_file(path: pathlib.Path) -> Arrays:
    with path.open("rb") as file:
        if file.read(23) == b"version https://git-lfs":
            raise errors.ModelError(
                f"{path} must hold tensors. Received: a pointer of Git LFS. "
                "Fetch the tensors: git lfs pull."
            )
    try:
        return _READERS[path.suffix](path)
    except ImportError:
        raise
    except Exception as error:
        # The libraries raise many types for damaged files.
        reason = (str(error).splitlines() or [""])[0]
        raise errors.ModelError(
            f"{path} must be a file of tensors of NumPy's types, such as "
            f"float32. Received: {type(error).__name__}: {reason:.300}. If the "
            f"file is damaged, copy it again, or take {SAFETENSORS_FILE}."
        ) from error


def _read_parts(index: pathlib.Path, parts: Mapping[str, str]) -> Arrays:
    tensors: Arrays = {}
    for name in sorted(set(parts.values())):
        part = _read_file(index.parent / name)
        wrong = sorted(part.keys() ^ {n for n in parts if parts[n] == name})
        if wrong:
            raise errors.ModelError(
                f"{index} must list the tensors of its files. Received: only "
                f"one of index and {name} has {', '.join(wrong)}."
            )
        tensors |= part
    return tensors


def _read_keras(path: pathlib.Path) -> Arrays:
    tensors: Arrays = {}
    with h5py.File(path) as file:
        for name, entry in walk(file):
            # The names of layer and model precede electra/encoder/layer_._0/
            *layers, last = name.removesuffix(":0").split("/")[2:]
            value = entry[()].T if last == "kernel" else entry[()]
            kind = "bias" if last in ("bias", "beta") else "weight"
            name = ".".join([*layers, kind]).replace("_._", ".")
            tensors[name] = value
    return tensors


def walk(file: h5py.File) -> Iterator[tuple[str, h5py.Dataset]]:
    """Yields the name and dataset of each array in an HDF5 file.

    Links to other files are skipped. Raises `ValueError` for more groups than
    any model has, and for datasets larger than their stored bytes.
    """
    waiting, num_members = [(file, "")], 0
    while waiting:
        group, before = waiting.pop()
        num_members += len(group)
        is_plain = num_members < _MAX_MEMBERS and len(before) < _MAX_NAME
        schema.require(is_plain, f"{before:.80} has too many groups")
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            entry, path = group[name], f"{before}{name}"
            if isinstance(entry, h5py.Group):
                waiting.append((entry, f"{path}/"))
            elif isinstance(entry, h5py.Dataset):
                is_whole = entry.id.get_storage_size() == entry.nbytes
                is_whole = is_whole and not entry.external
                schema.require(is_whole, f"{path} is compressed or cut off")
                yield path, entry


def _read_torch(path: pathlib.Path) -> Arrays:
    """Reads a pickle; `weights_only` runs none of its code."""
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{path} can only be read with PyTorch. Take the model's "
            f"{SAFETENSORS_FILE}, or pip install 'electra-tf[torch]'."
        ) from error
    # PyTorch itself does not compare the checksums of its archive.
    if zipfile.is_zipfile(path):
        archive = zipfile.ZipFile(path)
        size = sum(member.file_size for member in archive.infolist())
        schema.require(size <= path.stat().st_size, "it is compressed")
        damaged = archive.testzip()
        schema.require(not damaged, f"the checksum of {damaged} differs")
    arrays: Arrays = {}
    state = torch.load(path, map_location="cpu", weights_only=True)
    for name, tensor in state.items():
        if is_bfloat16 := tensor.dtype == torch.bfloat16:
            # PyTorch cannot convert bfloat16 to NumPy.
            tensor = tensor.detach().view(torch.uint16)
        array = tensor.detach().numpy()
        kind = ml_dtypes.bfloat16 if is_bfloat16 else array.dtype
        arrays[str(name)] = array.view(kind)
    return arrays


_READERS: dict[str, Callable[[pathlib.Path], Arrays]] = {
    ".safetensors": safetensors.numpy.load_file,
    ".h5": _read_keras,
    ".bin": _read_torch,
}
