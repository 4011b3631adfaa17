"""The tensors of a Hugging Face folder, in any of its files.

model.safetensors    or in parts, which model.safetensors.index.json names
pytorch_model.bin    read by PyTorch, which must be installed for it
"""

import pathlib
import zipfile
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import safetensors.numpy

from electra_tf import errors
from electra_tf.config import schema

SAFETENSORS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
TORCH_FILE = "pytorch_model.bin"

Arrays = dict[str, np.ndarray]


def read_folder(folder: pathlib.Path) -> tuple[Arrays, pathlib.Path]:
    """All tensors of a model's folder, and the file that they are from.

    Args:
        folder: with `model.safetensors`, its index and parts, or
            `pytorch_model.bin`.

    Raises:
        FileNotFoundError: if there is none of them.
        ModelError: if a file is damaged, or holds more than tensors.
        ImportError: for `pytorch_model.bin` without PyTorch.
    """
    path = folder / SAFETENSORS_FILE
    if path.is_file():
        return read_safetensors(path), path
    path = folder / INDEX_FILE
    if path.is_file():
        return _read_parts(path), path
    path = folder / TORCH_FILE
    if path.is_file():
        return read_torch(path), path
    raise FileNotFoundError(
        f"Expected {SAFETENSORS_FILE}, {INDEX_FILE} or {TORCH_FILE} in "
        f"{folder}. Received: none of them. Give the folder of a model, "
        "downloaded whole."
    )


def read_safetensors(path: pathlib.Path) -> Arrays:
    """All tensors of a safetensors file.

    Raises:
        ModelError: if it is damaged or cut off.
    """
    try:
        with safetensors.safe_open(path, framework="numpy") as stream:
            names = stream.keys()
            return {name: stream.get_tensor(name) for name in names}
    except AttributeError as error:
        raise errors.ModelError(
            f"{path} must hold tensors of types that numpy has. Received: "
            f"{error}. Take the model in float32, float16 or bfloat16."
        ) from error
    except (
        safetensors.SafetensorError,
        LookupError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        raise errors.ModelError(
            f"{path} must be a safetensors file. Received: {error}. It is cut "
            "off or damaged: download it again."
        ) from error


def read_torch(path: pathlib.Path) -> Arrays:
    """All tensors of a file that `torch.save` wrote.

    The file is a pickle, which could run any program; `weights_only` refuses
    whatever is not a tensor.

    Raises:
        ModelError: if it is damaged, or holds anything but tensors.
        ImportError: if PyTorch is not installed.
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
        _require_checksums(path)
        found = torch.load(path, map_location="cpu", weights_only=True)
        return {str(name): _to_array(found[name]) for name in found}
    except Exception as error:
        # A damaged file can make PyTorch fail in any way.
        reason = (str(error).splitlines() or [""])[0]
        raise errors.ModelError(
            f"{path} must hold a dict of tensors, as torch.save writes it. "
            f"Received: {type(error).__name__}: {reason:.300}. Download it "
            f"again, or take the model's {SAFETENSORS_FILE}."
        ) from error


def _require_checksums(path: pathlib.Path) -> None:
    """PyTorch itself does not compare the checksums of its archive."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
        if damaged:
            raise ValueError(f"the checksum of {damaged} differs")


def _to_array(tensor: Any) -> np.ndarray:
    import torch

    if tensor.dtype == torch.bfloat16:
        # PyTorch makes no arrays of these.
        bits = tensor.detach().contiguous().view(torch.uint16).numpy()
        return bits.view(ml_dtypes.bfloat16)
    return tensor.detach().numpy()


def write_safetensors(
    path: pathlib.Path,
    arrays: Mapping[str, np.ndarray],
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes a safetensors file with permissions from the umask.

    safetensors itself would let only the owner read it.

    Args:
        path: of the file.
        arrays: name to array.
        metadata: texts to put into its header.
    """
    path.write_bytes(safetensors.numpy.save(dict(arrays), metadata))


def _read_parts(index: pathlib.Path) -> Arrays:
    stated = schema.read_object(index, errors.ModelError)
    try:
        parts = stated["weight_map"]
        names = sorted(set(parts.values()))
        is_local = all(pathlib.PurePath(n).name == n for n in names)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise errors.ModelError(
            f"{index} must be an index of safetensors files. Received: {error}."
        ) from error
    missing = [n for n in names if not (index.parent / n).is_file()]
    if missing or not is_local:
        raise errors.ModelError(
            f"{index} must name files beside it. Received: "
            f"{', '.join(missing or names)}, which are not there."
        )
    tensors: Arrays = {}
    for name in names:
        found = read_safetensors(index.parent / name)
        wrong = sorted(found.keys() ^ {n for n in parts if parts[n] == name})
        if wrong:
            raise errors.ModelError(
                f"{index} must name every tensor of its files. Received: "
                f"others in {name}: {', '.join(wrong)}. Download all files of "
                "the model again."
            )
        tensors |= found
    return tensors
