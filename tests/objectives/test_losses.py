"""Losses against formulas in float64."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from electra_tf.formulas import losses

_VOCAB = 7


@pytest.mark.parametrize("original", [2, 5])
@pytest.mark.parametrize("copy_logit", [-200.0, -2.0, 1.5, 200.0])
def test_copying_is_the_log_of_a_mixture_and_its_gradient(copy_logit, original):
    """Where the input is 2; the original may be that, or another."""
    generator = np.random.default_rng(2)
    logits = generator.normal(0, 30, _VOCAB).astype(np.float32)
    inputs = tf.constant(logits), tf.constant(copy_logit)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = -losses.copying_log_likelihoods(
            tf.reshape(inputs[0], [1, 1, _VOCAB]),
            tf.reshape(inputs[1], [1, 1]),
            tf.constant([[2]]),
            tf.constant([[original]]),
        )
    by_logits, by_copying = (g.numpy() for g in tape.gradient(loss, inputs))
    log_probs = special.log_softmax(logits.astype(np.float64))
    log_copy = -np.logaddexp(0, -copy_logit)
    log_predict = log_probs[original] - np.logaddexp(0, copy_logit)
    expected, copied = -log_predict, 0.0
    if original == 2:
        expected = -np.logaddexp(log_copy, log_predict)
        # Posterior probability that the token was copied.
        copied = np.exp(log_copy + expected)
    assert float(loss[0, 0]) == pytest.approx(expected, rel=2e-5, abs=1e-6)
    slopes = (1 - copied) * (np.exp(log_probs) - np.eye(_VOCAB)[original])
    np.testing.assert_allclose(by_logits, slopes, rtol=1e-4, atol=1e-6)
    slope = np.exp(log_copy) - copied
    np.testing.assert_allclose(by_copying, slope, rtol=1e-4, atol=1e-6)


def test_a_cross_entropy_takes_shares_and_leaves_out_unused_slots():
    # Probabilities of "replaced": 0.75 and 0.8; the last is padding.
    loss = losses.replaced_token_loss(
        tf.constant([[np.log(3.0), np.log(4.0), 5.0]], tf.float32),
        tf.constant([[0.4, 1.0, np.exp(-9.0)]], tf.float32),
        tf.constant([[1.0, 1.0, 0.0]]),
    )
    expected = -0.4 * np.log(0.75) - 0.6 * np.log(0.25) - np.log(0.8)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_entropy_of_worked_examples():
    rows = [[0.25] * 4, [0.5, 0.5, 1e-30, 1e-30], [1.0] + [1e-30] * 3]
    log_probs = tf.constant(np.log([rows]), tf.float32)
    for slots, states in (
        ([1, 0, 0], 4), ([0, 1, 0], 2), ([0, 0, 1], 1), ([1, 1, 1], 8),
    ):  # fmt: skip
        weights = tf.constant([slots], tf.float32)
        found = losses.compute_entropy(log_probs, weights)
        np.testing.assert_allclose(found, np.log(states), rtol=1e-6, atol=1e-7)
