"""Tables of names go both ways; foreign tensors are taken whole or refused."""

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
