"""The head of question answering."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.modeling import task_heads

BATCH, LENGTH, WIDTH = 3, 12, 6
LENGTHS = np.array([12, 9, 7])


def _build(**options):
    head = task_heads.QuestionAnsweringHead(seed=3, name="squad2", **options)
    head.build((None, None, WIDTH))
    for number, variable in enumerate(head.weights):
        if variable.name == "bias":
            variable.assign(0.1 + number * np.ones(variable.shape))
    return head


@pytest.fixture
def hidden():
    return tf.random.stateless_normal([BATCH, LENGTH, WIDTH], [1, 2])


@pytest.fixture
def features():
    places = np.arange(LENGTH)
    mask = places < LENGTHS[:, np.newaxis]
    columns = {
        "input_mask": mask,
        "segment_ids": mask & (places >= 4),
        "start_position": np.array([5, 0, 4]),
        "end_position": np.array([7, 0, 4]),
        "is_impossible": np.array([0, 1, 0]),
    }
    return {name: tf.constant(c, tf.int32) for name, c in columns.items()}


def test_every_start_of_the_beam_has_the_ends_it_would_have_alone(
    hidden, features
):
    head = _build(beam_size=4)
    outputs = head.predict(hidden, features)
    assert outputs["end_top_index"].shape == (BATCH, 4, 4)
    for k in range(4):
        starts = outputs["start_top_index"][:, k]
        logits = head.compute_end_logits(hidden, features, starts)
        values, indices = tf.math.top_k(tf.nn.log_softmax(logits), 4)
        np.testing.assert_allclose(
            outputs["end_top_log_probs"][:, k], values, atol=1e-5
        )
        np.testing.assert_array_equal(outputs["end_top_index"][:, k], indices)


@pytest.mark.parametrize("is_joint", [True, False])
def test_padding_changes_nothing(hidden, features, is_joint):
    head = _build(joint_prediction=is_joint, beam_size=3)
    longer = tf.pad(hidden, [[0, 0], [0, 5], [0, 0]], constant_values=2.0)
    padded = {
        name: tf.pad(x, [[0, 0], [0, 5]]) if len(x.shape) == 2 else x
        for name, x in features.items()
    }
    np.testing.assert_allclose(
        head.compute_losses(longer, padded, None),
        head.compute_losses(hidden, features, None),
        atol=1e-5,
    )
    outputs = head.predict(hidden, features)
    for name, tensor in head.predict(longer, padded).items():
        if name in head.padded_outputs:
            tensor = tensor[:, :LENGTH]
        np.testing.assert_allclose(tensor, outputs[name], atol=1e-5)
