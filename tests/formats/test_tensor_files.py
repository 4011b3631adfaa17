"""Files of tensors give all of them, or nothing and the reason."""

import json
import pickle
import sys

import h5py
import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from electra_tf import errors
from electra_tf.formats import parameter_names
from electra_tf.formats import tensor_files
from tests.formats import tiny_models

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -0.0], np.float32),
}


def _read(path):
    return tensor_files.read_tensors(path.parent, {})[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": "part-3.safetensors"}, "part-3.safetensors must be"),
        ({"b": "part-1.safetensors"}, "part-1.safetensors has b"),
        ({"b": "../part-2.safetensors"}, "weight_map.b` "),
    ],
)
def test_parts_are_put_together_or_refused(tmp_path, changes, message):
    folder, names = tmp_path / "model", {}
    folder.mkdir()
    index = folder / "model.safetensors.index.json"
    safetensors.numpy.save_file(TENSORS, tmp_path / "part-2.safetensors")
    for number, (name, value) in enumerate(TENSORS.items(), start=1):
        names[name] = f"part-{number}.safetensors"
        safetensors.numpy.save_file({name: value}, folder / names[name])
    index.write_text(json.dumps({"weight_map": names | changes}))
    with pytest.raises(errors.ModelError, match=message):
        tensor_files.read_tensors(folder, {})
    index.write_text(json.dumps({"weight_map": names}))
    tiny_models.require_tensors(_read(folder / "x"), TENSORS)


def test_a_pointer_of_git_is_told(tmp_path):
    path = tmp_path / "pytorch_model.bin"
    path.write_text("version https://git-lfs.github.com/spec/v1\nsize 9\n")
    with pytest.raises(errors.ModelError, match=r"model\.bin .*: git lfs pull"):
        _read(path)


needs_torch = pytest.mark.extra("torch")


@pytest.fixture
def torch():
    import torch

    return torch


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pytorch_model.bin"


@needs_torch
def test_a_torch_file_gives_its_tensors(torch, path):
    tensor = torch.tensor(TENSORS["a"])
    content = {
        "parameter": (torch.nn.Parameter(tensor), TENSORS["a"]),
        "transposed": (tensor.T, TENSORS["a"].T),
        "row": (tensor[1], TENSORS["a"][1]),
        "half": (tensor.half(), TENSORS["a"].astype(np.float16)),
        "brain": (tensor.bfloat16(), TENSORS["a"].astype(ml_dtypes.bfloat16)),
        "position_ids": (torch.tensor([[0, 1]]), np.array([[0, 1]])),
    }
    torch.save({name: pair[0] for name, pair in content.items()}, path)
    expected = {name: pair[1] for name, pair in content.items()}
    tiny_models.require_tensors(_read(path), expected)


class _Command:
    """Unpickled, it would run a program."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return sys.modules["os"].system, (f"touch {self.mark}",)


@needs_torch
@pytest.mark.parametrize("is_plain", [False, True])
def test_a_file_that_would_run_a_program_is_refused(torch, path, is_plain):
    mark = path.with_name("was_run")
    content = {"a": torch.tensor(TENSORS["a"]), "b": _Command(mark)}
    if is_plain:
        path.write_bytes(pickle.dumps(content["b"], protocol=2))
    else:
        torch.save(content, path)
    with pytest.raises(errors.ModelError, match=r"pytorch_model\.bin must"):
        _read(path)
    assert not mark.exists()


@needs_torch
def test_what_is_no_dict_of_tensors_or_damaged_is_refused(torch, path):
    for content in ([1], {"a": "b"}):
        torch.save(content, path)
        with pytest.raises(errors.ModelError, match="a file of tensors"):
            _read(path)
    torch.save({"a": torch.tensor(TENSORS["a"])}, path)
    whole = path.read_bytes()
    place = whole.index(TENSORS["a"].tobytes()) + 5
    path.write_bytes(whole[:place] + b"\x77" + whole[place + 1 :])
    with pytest.raises(errors.ModelError, match="checksum of .*/data/0"):
        _read(path)


def test_without_pytorch_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    path.write_bytes(b"PK")
    with pytest.raises(ImportError, match=r"safetensors, or .*-tf\[torch\]"):
        _read(path)


def test_files_for_tensorflow_have_the_names_of_pytorch(tmp_path):
    names = {
        "encoder/layer_._0/query/bias": "encoder.layer.0.query.bias",
        "embeddings/LayerNorm/gamma": "embeddings.LayerNorm.weight",
        "embeddings/LayerNorm/beta": "embeddings.LayerNorm.bias",
        "embeddings/words/weight": "embeddings.words.weight",
        "embeddings/positions/embeddings": "embeddings.positions.weight",
        "encoder/layer_._0/query/kernel": "encoder.layer.0.query.weight",
    }
    before, value = "electra/tf_electra_model_1/electra", TENSORS["a"]
    path = tmp_path / "tf_model.h5"
    with h5py.File(path, "w") as file:
        for name in names:
            file[f"{before}/{name}:0"] = value
    expected = {f"electra.{name}": value for name in names.values()}
    expected["electra.encoder.layer.0.query.weight"] = value.T
    tiny_models.require_tensors(_read(path), expected)
    # A pickle is not opened where there is another file.
    (tmp_path / "pytorch_model.bin").write_bytes(b"no pickle")
    assert _read(path).keys() == expected.keys()


_BLOCK = "electra/encoder/layer_0/attention/self"
_QKV = f"{_BLOCK}/qkv/kernel"
_NAMES = [f"{_BLOCK}/{name}/kernel" for name in ("query", "key", "value")]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        # Joined, its numbers would become floating point ones.
        (np.ones([2, 2], np.int64), "holds int64"),
        (np.full([2, 2], b"abc"), r"holds \|S3"),
        (np.ones([2, 3]), r"\(2, 3\) should be \(2, 2\)"),
        (np.ones(4), r"\(4,\) should be \(2, 2\)"),
        (np.full([2, 2], np.nan), "holds NaN"),
        (np.full([2, 2], 1e300), "holds NaN or infinity"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_part_that_is_no_weight_is_refused(value, message):
    tensors = {name: np.ones([2, 2], np.float32) for name in _NAMES}
    given = {_QKV: (2, 6)}, parameter_names.ORIGINAL, "file"
    for name in _NAMES:
        with pytest.raises(errors.ModelError, match=f"file.*{name} {message}"):
            parameter_names.take(tensors | {name: value}, *given)
