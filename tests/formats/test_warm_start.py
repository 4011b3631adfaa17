"""The weights of one run start another, every one accounted for."""

import re

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import model_dir as model_dir_lib
from electra_tf.training import warm_start
from tests import tiny

POSITIONS = "electra/embeddings/position_embeddings"


def _variables(num_positions, value):
    """A table of positions and a kernel, rows counted from a value."""
    rows = value + np.arange(num_positions, dtype=np.float32)
    return {
        POSITIONS: tf.Variable(np.tile(rows[:, None], [1, 3])),
        "electra/kernel": tf.Variable(np.full([2, 2], value, np.float32)),
    }


@pytest.fixture
def finished(tmp_path):
    """A run that saved 16 positions twice; also what is no weight."""
    tiny.VOCABULARY.save(tmp_path)
    for step, value in ((10, 50.0), (20, 100.0)):
        weights = {
            f"model/{name}": variable
            for name, variable in _variables(16, value).items()
        }
        others = {"optimizer/count": tf.Variable(7)}
        checkpoints.save(tmp_path, step, weights | others, {}, keep=2)
    return tmp_path


def _start(finished, variables, vocabulary=tiny.VOCABULARY):
    return warm_start.warm_start(finished, variables, vocabulary)


def test_the_newest_weights_are_taken_and_counted(finished):
    variables = _variables(16, 0.0)
    report = _start(finished, variables)
    for name, variable in _variables(16, 100.0).items():
        np.testing.assert_array_equal(variables[name], variable)
    newest = finished / "checkpoints" / "step-00000020"
    assert report == f"restored 2 of 2 variables from {newest}"


def test_a_longer_position_table_keeps_the_first_rows(finished):
    variables = _variables(32, 0.0)
    report = _start(finished, variables)
    rows = variables[POSITIONS].numpy()[:, 0].tolist()
    assert rows == [*range(100, 116), *range(16, 32)]
    assert report.endswith(f"; {POSITIONS}: 16 rows became 32")


def test_a_shorter_position_table_takes_the_first_rows(finished):
    variables = _variables(4, 0.0)
    assert _start(finished, variables).endswith("16 rows became 4")
    rows = variables[POSITIONS].numpy()[:, 0].tolist()
    assert rows == [100, 101, 102, 103]


def test_misfits_are_listed_and_nothing_is_changed(finished):
    variables = _variables(32, 0.0)
    variables["electra/kernel"] = tf.Variable(np.zeros([2, 5], np.float32))
    variables["electra/bias"] = tf.Variable([0.0])
    message = (
        "missing electra/bias; electra/kernel is (2, 2), expected (2, 5) "
        "(2 in all)"
    )
    with pytest.raises(checkpoints.CheckpointError, match=re.escape(message)):
        _start(finished, variables)
    assert variables[POSITIONS].numpy()[0, 0] == 0.0


def test_a_table_of_another_width_does_not_fit(finished):
    variables = _variables(32, 0.0)
    variables[POSITIONS] = tf.Variable(np.zeros([32, 5], np.float32))
    with pytest.raises(checkpoints.CheckpointError, match=POSITIONS):
        _start(finished, variables)


def test_a_variable_that_the_new_model_lacks_is_listed(finished):
    variables = _variables(16, 0.0)
    del variables["electra/kernel"]
    message = "unknown electra/kernel"
    with pytest.raises(checkpoints.CheckpointError, match=message):
        _start(finished, variables)


def test_a_run_with_another_vocabulary_is_refused(finished):
    words = list(tiny.VOCABULARY.tokens)
    words[-2:] = reversed(words[-2:])
    other = vocabulary_lib.Vocabulary(tuple(words))
    variables = _variables(16, 0.0)
    with pytest.raises(model_dir_lib.ModelDirError, match="vocabulary"):
        _start(finished, variables, other)
    assert variables[POSITIONS].numpy()[0, 0] == 0.0


def test_a_folder_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(checkpoints.CheckpointError, match="found none"):
        _start(tmp_path / "absent", _variables(16, 0.0))
