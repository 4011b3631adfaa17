"""The Gumbel draw and the corrupted input."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.pretraining import run
from electra_tf.pretraining import sampling
from tests import tiny


def test_a_disallowed_token_is_never_drawn():
    logits = tf.constant(np.tile(np.float32([9, 0, 0]), (500, 1)))
    uniform = tf.random.stateless_uniform([500, 3], [1, 2])
    disallow = tf.zeros([500], tf.int32)
    drawn = sampling.sample_from_softmax(logits, uniform, disallow).numpy()
    assert set(drawn) == {1, 2}


@pytest.fixture(scope="module")
def model():
    return run.build_model_and_optimizer(tiny.build_settings(), tiny.VOCABULARY)


def _prepare(model, step=3, is_training=True):
    features = tiny.deal(tiny.build_features())
    return model.prepare(features, tf.constant(step, tf.int64), is_training)


def test_corrupted_text_is_the_original_but_for_samples(model):
    prepared = _prepare(model)
    masked = prepared.masked
    logits = tf.zeros([8, masked.masked_positions.shape[1], 50])
    fake = model._get_fake_data(prepared, logits)
    original = masked.original_ids.numpy()
    expected = original.copy()
    for row in range(8):
        for slot, weight in enumerate(masked.masked_weights[row].numpy()):
            if weight:
                position = masked.masked_positions[row, slot].numpy()
                expected[row, position] = fake.sampled_tokens[row, slot]
    np.testing.assert_array_equal(fake.input_ids, expected)
    np.testing.assert_array_equal(
        fake.is_fake_tokens, (expected != original).astype(int)
    )


def test_masks_and_samples_follow_seed_step_and_stream(model):
    first, again = _prepare(model), _prepare(model)
    later, held_out = _prepare(model, 4), _prepare(model, 3, False)
    for one, two in zip(first.masked, again.masked, strict=True):
        np.testing.assert_array_equal(one, two)
    for other in (later, held_out):
        assert (
            (first.masked.masked_positions != other.masked.masked_positions)
            .numpy()
            .any()
        )
    # Streams 2 and 3 alone, as the second of two replicas has them.
    features = tiny.deal(tiny.build_features())
    half = {name: value[2:] for name, value in features.items()}
    second = model.prepare(half, tf.constant(3, tf.int64), True)
    np.testing.assert_array_equal(
        second.masked.input_ids, first.masked.input_ids[4:]
    )
    np.testing.assert_array_equal(
        model.draw_uniform(second), model.draw_uniform(first)[4:]
    )
