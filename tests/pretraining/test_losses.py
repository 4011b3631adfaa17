"""Draw, losses and rewards against formulas in float64."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inputs import randomness
from electra_tf.pretraining import losses
from electra_tf.pretraining import sampling

_VOCAB = 7


def _random(shape, scale=2.0, seed=0):
    values = np.random.default_rng(seed).normal(0, scale, shape)
    return values.astype(np.float32)


def _log_softmax(logits):
    logits = logits.astype(np.float64)
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def test_replaced_token_loss_of_a_worked_example():
    # Probabilities of "replaced": 0.8, 0.8, 0.5; the last is padding.
    logits = tf.constant([[np.log(4.0), np.log(4.0), 0.0]], tf.float32)
    found = losses.replaced_token_loss(
        logits, tf.constant([[1, 0, 1]]), tf.constant([[1.0, 1.0, 0.0]])
    )
    np.testing.assert_allclose(found, -np.log(0.8) - np.log(0.2), rtol=1e-6)


@pytest.mark.parametrize("original", [2, 5])
@pytest.mark.parametrize(
    "copy_logit", [-200.0, -60.0, -2.0, 0.0, 1.5, 60.0, 200.0]
)
def test_copying_is_the_log_of_a_mixture_and_its_gradient(copy_logit, original):
    """Where the input is 2; the original may be that, or another."""
    logits = _random(_VOCAB, 30.0, seed=2)
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
    log_probs = _log_softmax(logits)
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


_NUM_SAMPLES, _SMALL = 32_768, 4
_LOGITS = np.float32([[0.5, -1.0, 0.3, 1.2], [0.0, 1.5, -0.7, 0.2]])
# The reward of each slot after each pair of samples, `[V, V, 2]`: arbitrary,
# of a mean far from 0.
_TABLE = np.random.default_rng(8).uniform(0.5, 3.0, (_SMALL, _SMALL, 2))
_TABLE = _TABLE.astype(np.float32)
_PROBS = np.exp(_log_softmax(_LOGITS))


def _exact_gradient():
    """`E[sum of grad log p(x_t) R_t(x)]` over all pairs of samples."""
    total = np.zeros_like(_PROBS)
    for pair in itertools.product(range(_SMALL), repeat=2):
        weight = _PROBS[0, pair[0]] * _PROBS[1, pair[1]]
        for slot in range(2):
            score = np.eye(_SMALL)[pair[slot]] - _PROBS[slot]
            total[slot] += weight * _TABLE[pair][slot] * score
    return total


def _estimates(baselines):
    """REINFORCE estimates of single samples, `[N, 2, V]`."""
    # One row for each sample, so that the gradient of a row is its estimate.
    logits = tf.tile(tf.constant(_LOGITS)[tf.newaxis], [_NUM_SAMPLES, 1, 1])
    seeds = randomness.stream_seeds(
        5, randomness.GENERATOR_SAMPLE, 0, tf.range(1, dtype=tf.int64)
    )
    uniform = randomness.uniform_by_stream(seeds, (_NUM_SAMPLES, 2, _SMALL))
    samples = sampling.sample_from_softmax(logits, uniform)
    earned = tf.gather_nd(tf.constant(_TABLE), samples)
    ones = tf.ones([_NUM_SAMPLES, 2])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        chosen = tf.gather(tf.nn.log_softmax(logits), samples, batch_dims=2)
        loss = losses.policy_gradient_loss(
            chosen, earned, baselines * ones, ones
        )
    # Descending the loss ascends the reward.
    return -tape.gradient(loss, logits).numpy().astype(np.float64)


def test_estimates_have_the_exact_mean_and_a_baseline_less_variance():
    mean_reward = np.einsum("i,j,ijt->t", _PROBS[0], _PROBS[1], _TABLE)
    exact, variances = _exact_gradient(), []
    for baselines in (0.0, mean_reward.astype(np.float32)):
        estimates = _estimates(baselines)
        variances.append(estimates.var(0).sum())
        error = estimates.std(0) / np.sqrt(_NUM_SAMPLES)
        assert (np.abs(estimates.mean(0) - exact) < 4.5 * error).all()
        # The test can tell: the error is a small part of what is estimated.
        assert np.linalg.norm(error) < 0.1 * np.linalg.norm(exact)
    assert variances[1] < 0.4 * variances[0]


def test_an_unused_slot_and_the_rewards_have_no_gradient():
    inputs = [tf.constant([[-1.0, -2.0]]), tf.ones([1, 2]), tf.zeros([1, 2])]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = losses.policy_gradient_loss(*inputs, tf.constant([[1.0, 0.0]]))
    by_log_probs, *others = tape.gradient(loss, inputs)
    np.testing.assert_array_equal(by_log_probs, [[-1.0, 0.0]])
    assert others == [None, None]


def test_a_cross_entropy_takes_shares_and_leaves_out_unused_slots():
    loss = losses.replaced_token_loss(
        tf.constant([[np.log(3.0), 5.0]], tf.float32),
        tf.constant([[0.4, np.exp(-9.0)]], tf.float32),
        tf.constant([[1.0, 0.0]]),
    )
    expected = -0.4 * np.log(0.75) - 0.6 * np.log(0.25)
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


@pytest.mark.parametrize("factor", [0.0, 0.25])
def test_a_reversed_gradient_changes_sign_and_size_only(factor):
    inputs = tf.constant([1.5, -2.0, 1e-8])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = losses.reverse_gradient(inputs, tf.constant(factor))
        loss = tf.reduce_sum(outputs * [2.0, 3.0, 4.0])
    np.testing.assert_array_equal(outputs, inputs)
    np.testing.assert_allclose(
        tape.gradient(loss, inputs), -factor * np.float32([2, 3, 4])
    )
