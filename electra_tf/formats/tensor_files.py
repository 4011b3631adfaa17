"""The tensors of a Hugging Face folder, in any of its files.

model.safetensors    or in parts, which model.safetensors.index.json names
pytorch_model.bin    see `torch_files`
"""

import pathlib
from collections.abc import Mapping

import numpy as np
import safetensors.numpy

from electra_tf import json_files
from electra_tf.formats import portable
from electra_tf.formats import torch_files

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
        FormatError: if a file is damaged, or holds more than tensors.
    """
    path = folder / SAFETENSORS_FILE
    if path.is_file():
        return read_safetensors(path), path
    path = folder / INDEX_FILE
    if path.is_file():
        return _read_parts(path), path
    path = folder / TORCH_FILE
    if path.is_file():
        return torch_files.read(path), path
    raise FileNotFoundError(
        f"Expected {SAFETENSORS_FILE}, {INDEX_FILE} or {TORCH_FILE} in "
        f"{folder}. Received: none of them. Give the folder of a model, "
        "downloaded whole."
    )


def read_safetensors(path: pathlib.Path) -> Arrays:
    """All tensors of a safetensors file.

    Raises:
        FormatError: if it is damaged or cut off.
    """
    try:
        with safetensors.safe_open(path, framework="numpy") as stream:
            names = stream.keys()
            return {name: stream.get_tensor(name) for name in names}
    except AttributeError as error:
        raise portable.FormatError(
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
        raise portable.FormatError(
            f"{path} must be a safetensors file. Received: {error}. It is cut "
            "off or damaged: download it again."
        ) from error


def write_safetensors(
    path: pathlib.Path,
    arrays: Mapping[str, np.ndarray],
    metadata: dict[str, str] | None = None,
) -> None:
    """Writes a safetensors file that all may read whom the umask lets.

    Args:
        path: of the file; safetensors itself would let its owner alone.
        arrays: name to array.
        metadata: texts to put into its header.
    """
    path.write_bytes(safetensors.numpy.save(dict(arrays), metadata))


def _read_parts(index: pathlib.Path) -> Arrays:
    stated = json_files.read_object(index, portable.FormatError)
    try:
        parts = stated["weight_map"]
        names = sorted(set(parts.values()))
        is_local = all(pathlib.PurePath(n).name == n for n in names)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise portable.FormatError(
            f"{index} must be an index of safetensors files. Received: {error}."
        ) from error
    missing = [n for n in names if not (index.parent / n).is_file()]
    if missing or not is_local:
        raise portable.FormatError(
            f"{index} must name files beside it. Received: "
            f"{', '.join(missing or names)}, which are not there."
        )
    tensors: Arrays = {}
    for name in names:
        found = read_safetensors(index.parent / name)
        wrong = sorted(found.keys() ^ {n for n in parts if parts[n] == name})
        if wrong:
            raise portable.FormatError(
                f"{index} must name every tensor of its files. Received: "
                f"others in {name}: {', '.join(wrong)}. Download all files of "
                "the model again."
            )
        tensors |= found
    return tensors
