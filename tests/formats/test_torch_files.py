"""PyTorch files give their tensors, or nothing and the reason."""

import pickle
import sys

import ml_dtypes
import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import tensor_files
from tests.formats import tiny_models

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def torch():
    return pytest.importorskip(
        "torch", reason="pytorch_model.bin needs the extra `torch`"
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pytorch_model.bin"


def test_a_torch_file_gives_its_tensors(torch, path):
    tensor = torch.tensor(ARRAY)
    content = {
        "a": tensor,
        "parameter": torch.nn.Parameter(tensor),
        "transposed": tensor.T,
        "row": tensor[1],
        "half": tensor.half(),
        "brain": tensor.bfloat16().T,
        "position_ids": torch.tensor([[0, 1]]),
    }
    torch.save(content, path)
    found, file = tensor_files.read_folder(path.parent)
    assert file == path
    tiny_models.require_tensors(
        found,
        {
            "a": ARRAY,
            "parameter": ARRAY,
            "transposed": ARRAY.T,
            "row": ARRAY[1],
            "half": ARRAY.astype(np.float16),
            "brain": ARRAY.T.astype(ml_dtypes.bfloat16),
            "position_ids": np.array([[0, 1]]),
        },
    )


def test_a_file_of_the_old_layout_gives_its_tensors(torch, path):
    content = {"a": torch.tensor(ARRAY)}
    torch.save(content, path, _use_new_zipfile_serialization=False)
    tiny_models.require_tensors(tensor_files.read_torch(path), {"a": ARRAY})


def test_a_state_dict_of_a_module_is_read(torch, path):
    torch.save(torch.nn.Linear(2, 3).state_dict(), path)
    found = tensor_files.read_torch(path)
    assert {n: v.shape for n, v in found.items()} == {
        "weight": (3, 2),
        "bias": (3,),
    }


class _Command:
    """Unpickled, it would run a program."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return sys.modules["os"].system, (f"touch {self.mark}",)


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_file_that_would_run_a_program_is_refused(torch, path, is_plain):
    mark = path.with_name("was_run")
    content = {"a": torch.tensor(ARRAY), "b": _Command(mark)}
    if is_plain:
        path.write_bytes(pickle.dumps(content["b"], protocol=2))
    else:
        torch.save(content, path)
    with pytest.raises(errors.ModelError, match=r"pytorch_model\.bin must"):
        tensor_files.read_torch(path)
    assert not mark.exists()


@pytest.mark.parametrize("content", [[1], None, 5, {"a": "b"}, {"a": [1]}])
def test_what_is_no_dict_of_tensors_is_refused(torch, path, content):
    torch.save(content, path)
    with pytest.raises(errors.ModelError, match="a dict of tensors"):
        tensor_files.read_torch(path)


def test_a_torch_file_cut_off_anywhere_is_refused(torch, path):
    torch.save({"a": torch.tensor(ARRAY)}, path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(errors.ModelError, match="Download it again"):
            tensor_files.read_torch(path)


def test_a_changed_byte_of_a_tensor_is_found(torch, path):
    torch.save({"a": torch.tensor(ARRAY)}, path)
    whole = path.read_bytes()
    place = whole.index(ARRAY.tobytes()) + 5
    path.write_bytes(whole[:place] + b"\x77" + whole[place + 1 :])
    with pytest.raises(errors.ModelError, match="checksum of .*/data/0"):
        tensor_files.read_torch(path)


def test_without_pytorch_the_extra_is_named(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    path.write_bytes(b"PK")
    with pytest.raises(ImportError, match=r"electra-tf\[torch\].*safetensors"):
        tensor_files.read_folder(path.parent)
