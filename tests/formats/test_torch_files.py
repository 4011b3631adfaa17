"""PyTorch files give their tensors, or nothing and the reason."""

import collections
import pickle
import struct
import sys
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

from electra_tf.formats import portable
from electra_tf.formats import tensor_files
from electra_tf.formats import torch_files
from tests.formats import tiny_models

TENSORS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -0.0], np.float32),
}


class _Named:
    """Pickled as the name of a class or function, wherever it is."""

    def __init__(self, module, name):
        self.place = module, name

    def __reduce__(self):
        raise AssertionError("only names are written")


class _Storage:
    """Pickled as a persistent reference."""

    def __init__(self, key, kind, size):
        self.reference = ("storage", _Named("torch", kind), key, "cpu", size)


class _Call:
    """Pickled as a call of a name, and what is set on its result."""

    def __init__(self, module, name, *args, state=None):
        self.function, self.args = _Named(module, name), args
        self.state = state


class _State:
    """Pickled as a name on which attributes are set."""

    def __init__(self, module, name, state):
        self.named, self.state = _Named(module, name), state


class _Pickler(pickle._Pickler):
    """Writes the marks above; Python's own, which can be told to."""

    def persistent_id(self, obj):
        return obj.reference if isinstance(obj, _Storage) else None

    def save(self, obj, save_persistent_id=True):
        if isinstance(obj, _Named):
            self.write(pickle.GLOBAL + "{}\n{}\n".format(*obj.place).encode())
        elif isinstance(obj, _Call):
            self.save(obj.function)
            self.save(obj.args)
            self.write(pickle.REDUCE)
            if obj.state is not None:
                self.save(obj.state)
                self.write(pickle.BUILD)
        elif isinstance(obj, _State):
            self.save(obj.named)
            self.save(obj.state)
            self.write(pickle.BUILD)
        else:
            super().save(obj, save_persistent_id)


def _rebuild(key="0", kind="FloatStorage", size=6, offset=0, shape=(2, 3),
             stride=(3, 1)):  # fmt: skip
    return _Call(
        "torch._utils",
        "_rebuild_tensor_v2",
        *(_Storage(key, kind, size), offset, shape, stride, False),
        _Call("collections", "OrderedDict"),
    )


def _write_torch(
    path, content, storages=None, compression=zipfile.ZIP_STORED, protocol=2,
    **files,
):  # fmt: skip
    """An archive as torch.save makes it."""
    storages = storages or {"0": TENSORS["a"].tobytes()}
    with open(path.with_name("data.pkl"), "wb") as stream:
        _Pickler(stream, protocol).dump(content)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.write(path.with_name("data.pkl"), "archive/data.pkl")
        for key, data in storages.items():
            archive.writestr(f"archive/data/{key}", data)
        for name, data in files.items():
            archive.writestr(f"archive/{name}", data)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "pytorch_model.bin"


def test_a_torch_file_gives_its_tensors(path):
    parameter = _Call("torch._utils", "_rebuild_parameter", _rebuild(), True)
    transposed = _rebuild(shape=(3, 2), stride=(1, 3))
    content = {
        "a": _rebuild(),
        "parameter": parameter,
        "transposed": transposed,
        "row": _rebuild(offset=3, shape=(3,), stride=(1,)),
        "empty": _rebuild(shape=(0, 3)),
        "scalar": _rebuild(offset=5, shape=(), stride=()),
        "half": _rebuild("1", "HalfStorage", 2, 0, (2,), (1,)),
        "position_ids": _rebuild("2", "LongStorage", 2, 0, (1, 2), (2, 1)),
    }
    storages = {
        "0": TENSORS["a"].tobytes(),
        "1": np.array([1, 2], np.float16).tobytes(),
        "2": np.array([0, 1]).tobytes(),
    }
    _write_torch(path, content, storages, byteorder="little", version="3")
    found, _ = tensor_files.read_folder(path.parent)
    tiny_models.require_tensors(
        found,
        {
            "a": TENSORS["a"],
            "parameter": TENSORS["a"],
            "transposed": np.ascontiguousarray(TENSORS["a"].T),
            "row": TENSORS["a"][1],
            "empty": np.zeros([0, 3], np.float32),
            "scalar": np.float32(5)[...],
            "half": np.array([1, 2], np.float16),
            "position_ids": np.array([[0, 1]]),
        },
    )


def test_an_ordered_dict_with_metadata_is_a_dict(path):
    """What `model.state_dict()` is."""
    content = _Call(
        "collections", "OrderedDict", [["a", _rebuild()]],
        state={"_metadata": {"": {"version": 1}}},
    )  # fmt: skip
    tiny_models.require_tensors(
        torch_files.read(_write_torch(path, content)),
        {"a": TENSORS["a"]},
    )


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("posix", "system"),
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("torch.nn.modules.linear", "Linear"),
        ("torch", "load"),
        ("torch._utils", "_rebuild_sparse_tensor"),
        ("collections", "OrderedDict.fromkeys"),
        ("numpy", "ndarray"),
    ],
)
def test_a_pickle_that_names_anything_else_is_refused_and_not_run(
    path, module, name
):
    mark = path.with_name("was_run")
    content = {"a": _rebuild(), "b": _Call(module, name, f"touch {mark}")}
    _write_torch(path, content)
    with pytest.raises(portable.FormatError, match=f"names {module}.{name}"):
        torch_files.read(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("named", "state"),
    [
        (("torch", "FloatStorage"), {"dtype": "float64"}),
        (("torch", "FloatStorage"), (None, {"dtype": "float64"})),
        (("torch._utils", "_rebuild_parameter"), (None, {"_call": 5})),
        (("torch._utils", "_rebuild_tensor_v2"), (None, {"__defaults__": ()})),
        (("collections", "OrderedDict"), (None, {"get": 5})),
        (("collections", "OrderedDict"), {"get": 5}),
    ],
)
def test_a_pickle_cannot_change_how_the_next_file_is_read(path, named, state):
    _write_torch(path, {"a": _State(*named, state)})
    with pytest.raises(portable.FormatError, match="changes what its names"):
        torch_files.read(path)
    _write_torch(path, {"a": _rebuild()})
    found = torch_files.read(path)
    tiny_models.require_tensors(found, {"a": TENSORS["a"]})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_rebuild(size=7), "holds 6 numbers, expected 7"),
        (_rebuild(size=5), "holds 6 numbers, expected 5"),
        (_rebuild(kind="DoubleStorage"), "holds 3 numbers, expected 6"),
        (_rebuild(key="9"), "archive/data/9"),
        (_rebuild(key="../data.pkl"), "data.pkl"),
        (_rebuild(offset=1), "outside"),
        (_rebuild(offset=-1, shape=(1,), stride=(1,)), "outside"),
        (_rebuild(offset=6, shape=(1,), stride=(1,)), "outside"),
        (_rebuild(offset=6, shape=(), stride=()), "outside"),
        (_rebuild(stride=(4, 1)), "outside"),
        (_rebuild(shape=(2,), stride=(-1,), offset=3), "outside"),
        (_rebuild(shape=(2, 4)), "larger than its storage"),
        (_rebuild(shape=(10**12,), stride=(0,)), "larger than its storage"),
        (_rebuild(shape=(-2, -3)), "shape is negative"),
        (_rebuild(shape=(2, 3, 1)), "ValueError"),
        (_rebuild(shape=(2.0, 3)), "not in integers"),
        (_rebuild(shape=((1, 2), 10**12)), "larger than those"),
        (_rebuild(shape=("ab", 10**12)), "not in integers"),
        (_rebuild(stride=("x", 1)), "not in integers"),
        (_rebuild(offset=False), "not in integers"),
        (_rebuild(key=("0",)), "reference of str, _Known, tuple, str, int"),
        (_rebuild(size=6.0), "reference of str, _Known, str, str, float"),
        (_rebuild(shape=(1,) * 33, stride=(0,) * 33), "larger than those"),
        (
            _Call("torch._utils", "_rebuild_parameter", "x"),
            "of something but a tensor",
        ),
        (_rebuild(kind="OrderedDict"), "names torch.OrderedDict"),
        (_Call("torch", "FloatStorage", 5), "makes a storage"),
        (5, "expected names and tensors"),
        (_Storage("0", "FloatStorage", 6), None),
    ],
)
def test_a_tensor_outside_of_its_storage_is_refused(path, content, message):
    _write_torch(path, {"a": content})
    if message is None:
        # A storage itself is a tensor of one dimension, which does no harm.
        assert torch_files.read(path)["a"].shape == (6,)
        return
    with pytest.raises(portable.FormatError, match=message) as error:
        torch_files.read(path)
    assert str(path) in str(error.value)


def test_an_array_is_no_storage(path):
    """One of 0 bytes may be as long as it likes: memory could be read."""
    long_and_empty = _rebuild(shape=(10**9, 0), stride=(1, 1))
    content = _Call(
        "torch._utils", "_rebuild_tensor_v2", long_and_empty,
        *(10**6, (4,), (1,), False, None),
    )  # fmt: skip
    _write_torch(path, {"a": content})
    with pytest.raises(portable.FormatError, match="something but a storage"):
        torch_files.read(path)
    content.args = (
        _Call("collections", "OrderedDict", state={"itemsize": 4}),
        *content.args[1:],
    )
    _write_torch(path, {"a": content})
    with pytest.raises(portable.FormatError, match="something but a storage"):
        torch_files.read(path)


@pytest.mark.parametrize(
    "content", [[_rebuild()], _rebuild(), None, {5: _rebuild()}, {"a": "b"}]
)
def test_what_is_no_dict_of_tensors_is_refused(path, content):
    _write_torch(path, content)
    with pytest.raises(portable.FormatError, match="expected"):
        torch_files.read(path)


def test_a_compressed_storage_is_not_unpacked(path):
    storages = {"0": bytes(2**20)}
    content = {"a": _rebuild(size=2**18)}
    _write_torch(path, content, storages, zipfile.ZIP_DEFLATED)
    with pytest.raises(portable.FormatError, match="is compressed"):
        torch_files.read(path)


def test_tensors_of_the_other_byte_order_are_refused(path):
    _write_torch(path, {"a": _rebuild()}, byteorder="big")
    with pytest.raises(portable.FormatError, match="little-endian"):
        torch_files.read(path)


def test_a_huge_pickle_is_not_read(path, monkeypatch):
    monkeypatch.setattr(torch_files, "_MAX_PICKLE_BYTES", 10)
    _write_torch(path, {"a": _rebuild()})
    with pytest.raises(portable.FormatError, match="too large"):
        torch_files.read(path)


def test_an_archive_of_anything_else_is_refused(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other/readme", "")
    with pytest.raises(portable.FormatError, match="one data.pkl"):
        torch_files.read(path)


def test_a_torch_file_cut_off_anywhere_is_refused(path):
    whole = _write_torch(path, {"a": _rebuild()}).read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(portable.FormatError, match="Download it again"):
            torch_files.read(path)


def test_an_archive_of_several_disks_is_refused(path):
    whole = _write_torch(path, {"a": _rebuild()}).read_bytes()
    place = whole.rindex(b"PK\5\6")
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 2)
    path.write_bytes(whole[:place] + locator + whole[place:])
    with pytest.raises(portable.FormatError, match=r"pytorch_model\.bin must"):
        torch_files.read(path)


def test_a_changed_byte_of_a_storage_is_found(path):
    whole = _write_torch(path, {"a": _rebuild()}).read_bytes()
    place = whole.index(TENSORS["a"].tobytes()) + 5
    path.write_bytes(whole[:place] + b"\x77" + whole[place + 1 :])
    with pytest.raises(portable.FormatError, match="CRC"):
        torch_files.read(path)


def test_a_plain_pickle_is_not_run(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    mark = path.with_name("was_run")
    with open(path, "wb") as stream:
        _Pickler(stream, 2).dump(_Call("os", "system", f"touch {mark}"))
    with pytest.raises(ImportError, match="pip install torch.*safetensors"):
        torch_files.read(path)
    assert not mark.exists()


def test_what_was_crafted_here_would_run_elsewhere(path):
    """The tests above refuse real programs."""
    mark = path.with_name("was_run")
    with open(path, "wb") as stream:
        _Pickler(stream, 2).dump(_Call("os", "system", f"touch {mark}"))
    with open(path, "rb") as stream:
        pickle.load(stream)
    assert mark.exists()


def test_ordered_dicts_are_what_they_were():
    """No test above has left its mark on the class."""
    assert collections.OrderedDict(a=1).get("a") == 1


def _write_pickle(path, data):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)


def test_a_number_to_remember_beyond_the_pickle_takes_no_memory(path):
    # Python's reader in C makes room for as many as the number says.
    data = b"\x80\x02}r" + (150_000_000).to_bytes(4, "little") + b"."
    _write_pickle(path, data)
    tracemalloc.start()
    assert torch_files.read(path) == {}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


_NESTED = b")" + b"q\x00h\x00\x86" * 60


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"}" + _NESTED + b"Ns.", id="key"),
        pytest.param(_NESTED + b"Q.", id="reference"),
        pytest.param(b"(X\x01\0\0\0s" + _NESTED + b"NNNtQ.", id="in_reference"),
        pytest.param(b"}" + b")" + b"\x85" * 10**6 + b"Ns.", id="deep"),
    ],
)
def test_tuples_in_tuples_are_refused_at_once(path, data):
    """Hashed or shown, they take longer than the age of the world."""
    _write_pickle(path, b"\x80\x02" + data)
    begin = time.monotonic()
    with pytest.raises(portable.FormatError, match="tuples larger"):
        torch_files.read(path)
    assert time.monotonic() - begin < 1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"](" + b"K\x01" * 3 + b"\x91.", id="frozenset"),
        pytest.param(b"]0.", id="pop"),
        pytest.param(b"}I5\nNs.", id="text_number"),
        pytest.param(
            b"\x96" + (2**40).to_bytes(8, "little") + b".", id="bytearray"
        ),
    ],
)
def test_operations_that_no_dict_of_tensors_needs_are_refused(path, data):
    _write_pickle(path, b"\x80\x02" + data)
    with pytest.raises(portable.FormatError, match="no dict of tensors needs"):
        torch_files.read(path)


def test_names_that_are_none_are_not_shown_without_end(path):
    content = {"a": _rebuild(), ("x" * 10**6,): _rebuild()}
    _write_torch(path, content)
    with pytest.raises(portable.FormatError, match="a tuple") as error:
        torch_files.read(path)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_that_torch_writes_is_read(path, protocol):
    _write_torch(path, {"a": _rebuild()}, protocol=protocol)
    tiny_models.require_tensors(torch_files.read(path), {"a": TENSORS["a"]})


def test_a_large_byte_order_is_not_read(path):
    _write_torch(path, {"a": _rebuild()}, byteorder="l" * 1000)
    with pytest.raises(portable.FormatError, match="byteorder is too large"):
        torch_files.read(path)
