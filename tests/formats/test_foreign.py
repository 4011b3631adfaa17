"""Foreign tensors are taken whole, as floating point numbers, or refused."""

import ml_dtypes
import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import foreign
from electra_tf.formats import parameter_names

_BLOCK = "electra/encoder/layer_0/attention/self"
_NAMES = [f"{_BLOCK}/{name}/kernel" for name in ("query", "key", "value")]
_EXPECTED = {f"{_BLOCK}/qkv/kernel": (2, 6)}


def _take(tensors, expected=_EXPECTED):
    return foreign.ForeignTensors(
        tensors, parameter_names.ORIGINAL_RULES, "file"
    ).take(expected)


@pytest.fixture
def tensors():
    return {name: np.ones([2, 2], np.float32) for name in _NAMES}


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, object,
                                   "S3", np.complex64])  # fmt: skip
def test_no_part_of_a_fused_tensor_is_of_another_type(tensors, name, dtype):
    """Joined, its numbers would become floating point ones."""
    tensors[name] = np.ones([2, 2]).astype(dtype)
    with pytest.raises(
        errors.ModelError, match=f"{name} holds {tensors[name].dtype}"
    ):
        _take(tensors)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_parts_of_other_precisions_are_joined(tensors, dtype):
    tensors[_NAMES[1]] = np.full([2, 2], 0.5, dtype)
    (found,) = _take(tensors).values()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[1, 1, 0.5, 0.5, 1, 1]] * 2)


@pytest.mark.parametrize("value", [np.float32(1), np.int64(1), np.asarray("a")])
@pytest.mark.parametrize("names", [_NAMES, _NAMES[:1]])
def test_single_numbers_and_texts_are_no_weights(tensors, value, names):
    tensors |= dict.fromkeys(names, np.asarray(value))
    for expected in (_EXPECTED, dict.fromkeys(_EXPECTED, ())):
        with pytest.raises(errors.ModelError, match=names[0]):
            _take(tensors, expected)


def test_a_scalar_that_is_expected_as_the_file_has_it_is_refused():
    name = "task_specific/mnli/dense/kernel"
    with pytest.raises(errors.ModelError, match=rf"{name} \(\) should"):
        _take({name: np.asarray(np.float32(1))}, {name: ()})


def test_long_names_are_not_shown_whole(tensors):
    tensors["x" * 10**6] = np.ones([2], np.float32)
    with pytest.raises(errors.ModelError, match="xxx... .1000000 cha.*not"):
        _take(tensors)
    with pytest.raises(errors.ModelError) as error:
        _take(tensors)
    assert len(str(error.value)) < 1000
