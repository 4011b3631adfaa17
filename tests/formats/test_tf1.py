"""The original's checkpoints, read into our variables."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.formats import tf1
from electra_tf.training import optimizers

QKV = "electra/encoder/layer_0/attention/self/qkv/kernel"
NAMES = ["query", "key", "value"]


@pytest.fixture
def variables():
    """A fused kernel and a bias, at their paths."""
    found = []
    for path, shape in ((QKV, (2, 6)), ("electra/dense/bias", (3,))):
        *scopes, name = path.split("/")
        with contextlib.ExitStack() as stack:
            for scope in scopes:
                stack.enter_context(keras.name_scope(scope))
            found.append(keras.Variable(np.zeros(shape, np.float32), name=name))
    assert [variable.path for variable in found] == [QKV, "electra/dense/bias"]
    return found


@pytest.fixture
def tensors():
    prefix = "electra/encoder/layer_0/attention/self"
    return {
        **{
            f"{prefix}/{name}/kernel": np.full([2, 2], i + 1.0, np.float32)
            for i, name in enumerate(NAMES)
        },
        "electra/dense/bias": np.array([7, 8, 9], np.float32),
    }


def _write(tmp_path, tensors, name="model.ckpt-3"):
    """Saves tensors under plain names, as TensorFlow 1 does."""
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / name),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    return tmp_path / name


def test_weights_are_assigned_and_fused(tmp_path, variables, tensors):
    checkpoint = tf1.read_checkpoint(_write(tmp_path, tensors))
    tf1.assign_variables(variables, checkpoint)
    np.testing.assert_array_equal(
        variables[0].numpy(), [[1, 1, 2, 2, 3, 3]] * 2
    )
    np.testing.assert_array_equal(variables[1].numpy(), [7, 8, 9])
    assert checkpoint.global_step is None


def test_a_folder_with_one_checkpoint_names_it(tmp_path, tensors):
    prefix = _write(tmp_path, tensors)
    assert tf1.read_checkpoint(tmp_path).path == str(prefix)


def test_moments_and_step_go_to_the_optimizer(tmp_path, variables, tensors):
    moments = {f"{name}/adam_m": 2 * value for name, value in tensors.items()}
    moments |= {f"{name}/adam_v": 3 * value for name, value in tensors.items()}
    step = {"global_step": np.int64(41)}
    checkpoint = tf1.read_checkpoint(_write(tmp_path, tensors | moments | step))
    optimizer = optimizers.AdamWeightDecay()
    optimizer.build(variables)
    tf1.assign_variables(variables, checkpoint)
    tf1.assign_optimizer(optimizer, variables, checkpoint)
    np.testing.assert_array_equal(
        optimizer.first_moments[0].numpy(), [[2, 2, 4, 4, 6, 6]] * 2
    )
    np.testing.assert_array_equal(
        optimizer.second_moments[1].numpy(), [21, 24, 27]
    )
    assert int(optimizer.iterations.numpy()) == 41


def test_missing_tensors_are_all_named(tmp_path, variables, tensors):
    prefix = "electra/encoder/layer_0/attention/self"
    del tensors[f"{prefix}/key/kernel"], tensors["electra/dense/bias"]
    checkpoint = tf1.read_checkpoint(_write(tmp_path, tensors))
    with pytest.raises(ValueError, match="self/key/kernel.*dense/bias"):
        tf1.assign_variables(variables, checkpoint)


def test_unused_tensors_are_named_and_nothing_is_assigned(
    tmp_path, variables, tensors
):
    tensors["generator/extra"] = np.zeros([1], np.float32)
    checkpoint = tf1.read_checkpoint(_write(tmp_path, tensors))
    with pytest.raises(ValueError, match="generator/extra"):
        tf1.assign_variables(variables, checkpoint)
    assert not variables[1].numpy().any()
    tf1.assign_variables(variables, checkpoint, may_be_unused=["^generator/"])
    assert variables[1].numpy().any()


def test_another_shape_is_named_with_both_shapes(tmp_path, variables, tensors):
    tensors["electra/dense/bias"] = np.zeros([4], np.float32)
    checkpoint = tf1.read_checkpoint(_write(tmp_path, tensors))
    with pytest.raises(ValueError, match=r"dense/bias \(4,\) should .* \(3,\)"):
        tf1.assign_variables(variables, checkpoint)


def test_missing_moments_are_an_error(tmp_path, variables, tensors):
    checkpoint = tf1.read_checkpoint(_write(tmp_path, tensors))
    optimizer = optimizers.AdamWeightDecay()
    optimizer.build(variables)
    with pytest.raises(ValueError, match="/adam_m.*dense/bias is miss"):
        tf1.assign_optimizer(optimizer, variables, checkpoint)


def test_no_checkpoint_and_several_are_errors(tmp_path, tensors):
    with pytest.raises(FileNotFoundError, match="no model.ckpt.index"):
        tf1.read_checkpoint(tmp_path / "model.ckpt")
    for name in ("model.ckpt-1", "model.ckpt-2"):
        _write(tmp_path, tensors, name)
    with pytest.raises(FileNotFoundError, match="model.ckpt-2.index"):
        tf1.read_checkpoint(tmp_path)


def test_a_truncated_checkpoint_is_an_error_with_its_path(tmp_path, tensors):
    prefix = _write(tmp_path, tensors)
    data = prefix.with_name("model.ckpt-3.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[:10])
    with pytest.raises(ValueError, match="model.ckpt-3"):
        tf1.read_checkpoint(prefix)


@pytest.mark.parametrize(
    "step",
    [
        np.array([3, 4]),
        np.array([3]),
        np.float32(3),
        np.float64("inf"),
        np.float64("nan"),
        np.int64(-1),
        np.uint64(2**63),
        np.bool_(True),
        b"3",
    ],
)
def test_a_step_that_is_no_number_of_updates_is_refused(
    tmp_path, tensors, step
):
    prefix = _write(tmp_path, tensors | {"global_step": step})
    with pytest.raises(errors.ModelError, match=r"global_step.*model\.ckpt"):
        tf1.read_checkpoint(prefix)
