"""Files of tensors give their tensors, or nothing and the reason."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from electra_tf import errors
from electra_tf.formats import tensor_files
from tests.formats import tiny_models

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -0.0], np.float32),
}


def _write_safetensors(folder, tensors=None, name="model.safetensors"):
    path = folder / name
    safetensors.numpy.save_file(tensors or TENSORS, path)
    return path


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float64, np.int64, ml_dtypes.bfloat16]
)
def test_safetensors_come_back_to_the_bit(tmp_path, dtype):
    tensors = {name: value.astype(dtype) for name, value in TENSORS.items()}
    _write_safetensors(tmp_path, tensors)
    found, path = tensor_files.read_folder(tmp_path)
    tiny_models.require_tensors(found, tensors)
    assert path == tmp_path / "model.safetensors"


@pytest.mark.parametrize("length", [0, 4, 8, 30, -1])
def test_safetensors_that_are_cut_off_are_refused(tmp_path, length):
    path = _write_safetensors(tmp_path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(errors.ModelError, match="model.safetensors must"):
        tensor_files.read_folder(tmp_path)


def test_any_bit_of_the_header_counts(tmp_path):
    path = _write_safetensors(tmp_path)
    whole = path.read_bytes()
    length = 8 + struct.unpack("<Q", whole[:8])[0]
    for place in range(length):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        try:
            found = tensor_files.read_safetensors(path)
        except errors.ModelError:
            continue
        # A changed name is found out by who looks for it, a blank says nothing.
        is_renamed = found.keys() != TENSORS.keys()
        is_blank = whole[place : place + 1] == b" "
        changed = [n for n in found if n in TENSORS and (
            found[n].dtype, found[n].shape) != (
            TENSORS[n].dtype, TENSORS[n].shape)]  # fmt: skip
        assert is_renamed or is_blank or changed, place


def _write_parts(folder):
    _write_safetensors(folder, {"a": TENSORS["a"]}, "part-1.safetensors")
    _write_safetensors(folder, {"b": TENSORS["b"]}, "part-2.safetensors")
    return {"a": "part-1.safetensors", "b": "part-2.safetensors"}


def _write_index(folder, content):
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(content))


def test_parts_are_put_together(tmp_path):
    _write_index(tmp_path, {"weight_map": _write_parts(tmp_path)})
    tiny_models.require_tensors(tensor_files.read_folder(tmp_path)[0], TENSORS)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": "part-3.safetensors"}, "part-3.safetensors, which are not"),
        ({"c": "part-1.safetensors"}, "others in part-1.safetensors: c"),
        ({"b": "part-1.safetensors"}, "others in part-1.safetensors: b"),
        ({"b": "../part-2.safetensors"}, "name files beside it"),
        ({"b": ["part-2.safetensors"]}, "an index of safetensors files"),
        ({"b": 5}, "an index of safetensors files"),
    ],
)
def test_an_index_that_does_not_fit_its_parts_is_refused(
    tmp_path, changes, message
):
    folder = tmp_path / "model"
    folder.mkdir()
    _write_safetensors(tmp_path, name="part-2.safetensors")
    _write_index(folder, {"weight_map": _write_parts(folder) | changes})
    with pytest.raises(errors.ModelError, match=message):
        tensor_files.read_folder(folder)


@pytest.mark.parametrize("content", [[], {}, {"weight_map": 5}, "x"])
def test_an_index_that_is_none_is_refused(tmp_path, content):
    _write_index(tmp_path, content)
    with pytest.raises(errors.ModelError, match=r"index\.json must"):
        tensor_files.read_folder(tmp_path)


def test_a_folder_without_tensors_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"pytorch_model\.bin"):
        tensor_files.read_folder(tmp_path)


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E8M0", "F4"])
def test_types_that_numpy_lacks_are_refused_with_the_file(tmp_path, dtype):
    size = 1 if dtype == "F4" else 2
    header = json.dumps(
        {"a": {"dtype": dtype, "shape": [2], "data_offsets": [0, size]}}
    ).encode()
    path = tmp_path / "model.safetensors"
    data = len(header).to_bytes(8, "little") + header + bytes(size)
    path.write_bytes(data)
    with pytest.raises(errors.ModelError, match=r"model\.safetensors must"):
        tensor_files.read_safetensors(path)
