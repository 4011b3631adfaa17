"""The losses against formulas in float64."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.pretraining import losses

_VOCAB = 7


def _random(shape, scale=2.0, seed=0):
    values = np.random.default_rng(seed).normal(0, scale, shape)
    return values.astype(np.float32)


def _log_softmax(logits):
    logits = logits.astype(np.float64)
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def test_masked_lm_loss_sums_over_used_slots():
    logits = _random((2, 3, _VOCAB))
    ids = np.int32([[1, 6, 0], [3, 0, 0]])
    weights = np.float32([[1, 1, 0], [1, 0, 0]])
    log_probs = _log_softmax(logits)
    expected = -(log_probs[0, 0, 1] + log_probs[0, 1, 6] + log_probs[1, 0, 3])
    found = losses.masked_lm_loss(
        tf.constant(logits), tf.constant(ids), tf.constant(weights)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_replaced_token_loss_of_a_worked_example():
    # Probabilities of "replaced": 0.8, 0.8, 0.5; the last is padding.
    logits = tf.constant([[np.log(4.0), np.log(4.0), 0.0]], tf.float32)
    is_fake = tf.constant([[1, 0, 1]])
    found = losses.replaced_token_loss(
        logits, is_fake, tf.constant([[1.0, 1.0, 0.0]])
    )
    np.testing.assert_allclose(found, -np.log(0.8) - np.log(0.2), rtol=1e-6)
    np.testing.assert_allclose(
        losses.replaced_token_losses(logits, is_fake),
        -np.log([[0.8, 0.2, 0.5]]),
        rtol=1e-6,
    )


def _copying_loss(logits, copy_logit, input_id, original_id):
    return losses.copying_lm_loss(
        tf.reshape(tf.constant(logits), [1, 1, _VOCAB]),
        tf.reshape(tf.cast(copy_logit, tf.float32), [1, 1]),
        tf.constant([[input_id]]),
        tf.constant([[original_id]]),
        tf.ones([1, 1]),
    )


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize(
    "copy_logit", [-200.0, -60.0, -2.0, 0.0, 1.5, 60.0, 200.0]
)
def test_it_is_minus_the_log_of_the_mixture(copy_logit, scale):
    logits = _random(_VOCAB, scale, seed=1)
    log_probs = _log_softmax(logits)
    log_copy = -np.logaddexp(0, -copy_logit)
    log_predict = -np.logaddexp(0, copy_logit)
    for original in range(_VOCAB):
        expected = -(log_predict + log_probs[original])
        if original == 2:
            expected = -np.logaddexp(log_copy, -expected)
        found = float(_copying_loss(logits, copy_logit, 2, original))
        assert found == pytest.approx(expected, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("original", [2, 5])
@pytest.mark.parametrize("copy_logit", [-200.0, -60.0, 0.0, 60.0, 200.0])
def test_its_gradient_is_finite_and_that_of_the_formula(copy_logit, original):
    logits = _random(_VOCAB, 30.0, seed=2)
    inputs = tf.constant(logits), tf.constant(copy_logit)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = _copying_loss(inputs[0], inputs[1], 2, original)
    by_logits, by_copying = (g.numpy() for g in tape.gradient(loss, inputs))
    # Posterior probability that the token was copied, 0 unless it is the same.
    log_probs = _log_softmax(logits)
    log_copy = -np.logaddexp(0, -copy_logit)
    log_predict = log_probs[original] - np.logaddexp(0, copy_logit)
    copied = 0.0
    if original == 2:
        copied = np.exp(log_copy - np.logaddexp(log_copy, log_predict))
    expected = (1 - copied) * (np.exp(log_probs) - np.eye(_VOCAB)[original])
    np.testing.assert_allclose(by_logits, expected, rtol=1e-4, atol=1e-6)
    slope = np.exp(log_copy) - copied
    np.testing.assert_allclose(by_copying, slope, rtol=1e-4, atol=1e-6)


def test_padding_does_not_count():
    logits = tf.constant(_random((1, 2, _VOCAB)))
    copy_logits = tf.constant([[0.3, -0.4]])
    ids = tf.constant([[1, 2]])
    arguments = logits, copy_logits, ids, ids
    both = losses.copying_lm_loss(*arguments, tf.ones([1, 2]))
    first = losses.copying_lm_loss(*arguments, tf.constant([[1.0, 0.0]]))
    alone = _copying_loss(logits[0, 0].numpy(), 0.3, 1, 1)
    np.testing.assert_allclose(first, alone, rtol=1e-6)
    assert both > first
