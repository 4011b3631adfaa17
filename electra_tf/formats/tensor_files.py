"""The weights of a Hugging Face model, whichever file holds them.

A pickle is the last choice: it is read where there is no other file.
"""

import pathlib
import zipfile
from typing import Annotated
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pydantic
import safetensors.numpy

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import portable
from electra_tf.formats.portable import Arrays

SAFETENSORS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
KERAS_FILE = "tf_model.h5"
TORCH_FILE = "pytorch_model.bin"
# What Keras calls a layer's weights, and PyTorch.
_KERAS_NAMES = {
    "kernel": "weight",
    "gamma": "weight",
    "embeddings": "weight",
    "beta": "bias",
}

_FileName = Annotated[str, pydantic.Field(pattern=r"^[^/\\]+$")]


@schema.frozen
class _Index:
    """Which file beside the index holds which tensor."""

    weight_map: dict[str, _FileName]


def read(folder: pathlib.Path) -> tuple[Arrays, pathlib.Path]:
    """Reads all tensors of a model's folder."""
    readers = {
        SAFETENSORS_FILE: _read_safetensors,
        INDEX_FILE: _read_parts,
        KERAS_FILE: _read_keras,
        TORCH_FILE: _read_torch,
    }
    for path in map(folder.joinpath, readers):
        if path.is_file():
            return readers[path.name](path), path
    raise FileNotFoundError(
        f"Expected {', '.join(readers)} in {folder}. Received: none of them. "
        "Give the folder of a model, downloaded whole."
    )


def _read_safetensors(path: pathlib.Path) -> Arrays:
    try:
        return safetensors.numpy.load_file(path)
    except Exception as error:
        # A damaged file can make it fail in many ways.
        raise errors.ModelError(
            f"{path} must be a safetensors file of types that numpy has, such "
            f"as float32. Received: {error}. If it is cut off or damaged, "
            "download it again."
        ) from error


def _read_parts(index: pathlib.Path) -> Arrays:
    stated = schema.read_object(index, errors.ModelError)
    parts = portable.build_known(_Index, stated, index).weight_map
    tensors: Arrays = {}
    for name in sorted(set(parts.values())):
        found = _read_safetensors(index.parent / name)
        wrong = sorted(found.keys() ^ {n for n in parts if parts[n] == name})
        if wrong:
            raise errors.ModelError(
                f"{index} must name every tensor of its files. Received: "
                f"others in {name}: {', '.join(wrong)}. Download all files of "
                "the model again."
            )
        tensors |= found
    return tensors


def _read_keras(path: pathlib.Path) -> Arrays:
    """Reads what transformers saved of its models for TensorFlow."""
    tensors: Arrays = {}

    def collect(name: str, entry: Any) -> None:
        if not isinstance(entry, h5py.Dataset):
            return
        require_stored(name, entry)
        # After the layer's name and the model's: electra/encoder/layer_._0/...
        *layers, last = name.removesuffix(":0").split("/")[2:]
        value = entry[()].T if last == "kernel" else entry[()]
        parts = *layers, _KERAS_NAMES.get(last, last)
        tensors[".".join(parts).replace("_._", ".")] = value

    try:
        with h5py.File(path) as file:
            file.visititems(collect)
    except (OSError, RuntimeError, LookupError, ValueError) as error:
        raise errors.ModelError(
            f"{path} must be the HDF5 file that transformers saves. Received: "
            f"{error}. Download it again, or take the model's "
            f"{SAFETENSORS_FILE}."
        ) from error
    return tensors


def require_stored(name: str, entry: h5py.Dataset) -> None:
    """Raises `ValueError` if a few bytes claim to be a large tensor."""
    is_whole = entry.id.get_storage_size() == entry.nbytes
    schema.require(is_whole, f"{name} is compressed or cut off")


def _read_torch(path: pathlib.Path) -> Arrays:
    """Reads what `torch.save` wrote.

    The file is a pickle, which could run any program; `weights_only` refuses
    whatever is not a tensor.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{path} can only be read with PyTorch. Install it with pip "
            "install 'electra-tf[torch]', or take the model's "
            f"{SAFETENSORS_FILE}."
        ) from error
    try:
        # PyTorch itself does not compare the checksums of its archive.
        if zipfile.is_zipfile(path):
            damaged = zipfile.ZipFile(path).testzip()
            schema.require(not damaged, f"the checksum of {damaged} differs")
        found = torch.load(path, map_location="cpu", weights_only=True)
        return {str(n): _to_array(value, torch) for n, value in found.items()}
    except Exception as error:
        # A damaged file can make it fail in any way.
        reason = (str(error).splitlines() or [""])[0]
        raise errors.ModelError(
            f"{path} must hold a dict of tensors, as torch.save writes it. "
            f"Received: {type(error).__name__}: {reason:.300}. Download it "
            f"again, or take the model's {SAFETENSORS_FILE}."
        ) from error


def _to_array(tensor: Any, torch: Any) -> np.ndarray:
    if tensor.dtype == torch.bfloat16:
        # PyTorch makes no arrays of these.
        bits = tensor.detach().contiguous().view(torch.uint16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    return tensor.detach().numpy()
