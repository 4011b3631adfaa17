"""The weights of a Hugging Face model; a pickle where nothing else is."""

import pathlib
import zipfile
from collections.abc import Callable
from typing import Annotated, Any

import h5py
import ml_dtypes
import pydantic
import safetensors.numpy

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import portable
from electra_tf.formats.portable import Arrays

SAFETENSORS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
TORCH_FILE = "pytorch_model.bin"
_FILES = (SAFETENSORS_FILE, INDEX_FILE, "tf_model.h5", TORCH_FILE)


@schema.frozen
class _Index:
    """Which file beside the index holds which tensor."""

    weight_map: dict[str, Annotated[str, pydantic.Field(pattern=r"^[^/\\]+$")]]


def read_tensors(folder: pathlib.Path) -> tuple[Arrays, pathlib.Path]:
    """Reads all tensors of a model's folder."""
    for path in map(folder.joinpath, _FILES):
        if path.is_file():
            is_index = path.name == INDEX_FILE
            return (_read_parts if is_index else _read_file)(path), path
    raise FileNotFoundError(
        f"Expected {', '.join(_FILES)} in {folder}. Received: none of them. "
        "Give the folder of a model, downloaded whole."
    )


def _read_file(path: pathlib.Path) -> Arrays:
    try:
        return _READERS[path.suffix](path)
    except ImportError:
        raise
    except Exception as error:
        # A damaged file can make any of the libraries fail in any way.
        reason = (str(error).splitlines() or [""])[0]
        raise errors.ModelError(
            f"{path} must be a file of tensors of types that numpy has, as "
            f"float32. Received: {type(error).__name__}: {reason:.300}. If it "
            f"is damaged, take it again, or the model's {SAFETENSORS_FILE}."
        ) from error


def _read_parts(index: pathlib.Path) -> Arrays:
    stated = schema.read_object(index, errors.ModelError)
    parts = portable.build_known(_Index, stated, index).weight_map
    tensors: Arrays = {}
    for name in sorted(set(parts.values())):
        part = _read_file(index.parent / name)
        wrong = sorted(part.keys() ^ {n for n in parts if parts[n] == name})
        if wrong:
            raise errors.ModelError(
                f"{index} must name every tensor of its files. Received: "
                f"others in {name}: {', '.join(wrong)}. Download all files of "
                "the model again."
            )
        tensors |= part
    return tensors


def _read_keras(path: pathlib.Path) -> Arrays:
    """Reads what transformers saved of its models for TensorFlow."""
    tensors: Arrays = {}

    def collect(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Group):
            return
        require_stored(name, entry)
        # After the layer's name and the model's: electra/encoder/layer_._0/...
        *layers, last = name.removesuffix(":0").split("/")[2:]
        value = entry[()].T if last == "kernel" else entry[()]
        kind = "bias" if last in ("bias", "beta") else "weight"
        tensors[".".join([*layers, kind]).replace("_._", ".")] = value

    with h5py.File(path) as file:
        file.visititems(collect)
    return tensors


def require_stored(name: str, entry: h5py.Dataset) -> None:
    """Raises `ValueError` if a few bytes claim to be a large tensor."""
    is_whole = entry.id.get_storage_size() == entry.nbytes
    is_whole = is_whole and not entry.external
    schema.require(is_whole, f"{name} is compressed or cut off")


def _read_torch(path: pathlib.Path) -> Arrays:
    """Reads a pickle, of which `weights_only` runs nothing."""
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
            # PyTorch makes no arrays of these.
            tensor = tensor.detach().contiguous().view(torch.uint16)
        array = tensor.detach().numpy()
        arrays[str(name)] = (
            array.view(ml_dtypes.bfloat16) if is_bfloat16 else array
        )
    return arrays


_READERS: dict[str, Callable[[pathlib.Path], Arrays]] = {
    ".safetensors": safetensors.numpy.load_file,
    ".h5": _read_keras,
    ".bin": _read_torch,
}
