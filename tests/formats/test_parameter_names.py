"""Tables of names go both ways; foreign tensors are taken whole or refused."""

import ml_dtypes
import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import parameter_names

_BLOCK = "electra/encoder/layer_0/attention/self"
_QKV = f"{_BLOCK}/qkv/kernel"
_NAMES = [f"{_BLOCK}/{name}/kernel" for name in ("query", "key", "value")]


def _take(tensors):
    table = parameter_names.ORIGINAL
    return parameter_names.take(tensors, {_QKV: (2, 6)}, table, "file")


@pytest.fixture
def tensors():
    return {name: np.ones([2, 2], np.float32) for name in _NAMES}


@pytest.mark.parametrize("is_turned", [False, True])
def test_the_fused_kernel_is_query_key_value_side_by_side(is_turned):
    table = parameter_names.NameTable(has_transposed_kernels=is_turned)
    value = np.arange(12.0).reshape(2, 6)
    parts = table.split(_QKV, value)
    assert list(parts) == _NAMES
    key = np.array([[2, 3], [8, 9]])
    np.testing.assert_array_equal(parts[_NAMES[1]], key.T if is_turned else key)
    np.testing.assert_array_equal(table.join(_QKV, parts), value)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_parts_of_other_precisions_are_joined(tensors, dtype):
    tensors[_NAMES[1]] = np.full([2, 2], 0.5, dtype)
    (found,) = _take(tensors).values()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[1, 1, 0.5, 0.5, 1, 1]] * 2)


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
def test_a_part_that_is_no_weight_is_refused(tensors, value, message):
    for name in _NAMES:
        with pytest.raises(errors.ModelError, match=f"file.*{name} {message}"):
            _take(tensors | {name: value})
