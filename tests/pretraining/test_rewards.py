"""The REINFORCE gradient against the exact expectation, and its parts."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.pretraining import losses
from electra_tf.pretraining import sampling

_NUM_SAMPLES, _VOCAB = 32_768, 4
_LOGITS = np.float32([[0.5, -1.0, 0.3, 1.2], [0.0, 1.5, -0.7, 0.2]])
# The reward of each slot after each pair of samples, `[V, V, 2]`: arbitrary,
# of a mean far from 0.
_TABLE = np.random.default_rng(8).uniform(0.5, 3.0, (_VOCAB, _VOCAB, 2))
_TABLE = _TABLE.astype(np.float32)


def _probabilities():
    scores = np.exp(_LOGITS.astype(np.float64))
    return scores / scores.sum(-1, keepdims=True)


def _exact_gradient(table):
    """`E[sum of grad log p(x_t) R_t(x)]` over all pairs of samples."""
    probs = _probabilities()
    total = np.zeros_like(probs)
    for pair in itertools.product(range(_VOCAB), repeat=2):
        weight = probs[0, pair[0]] * probs[1, pair[1]]
        for slot in range(2):
            score = np.eye(_VOCAB)[pair[slot]] - probs[slot]
            total[slot] += weight * table[pair][slot] * score
    return total


def _estimates(table, baselines):
    """REINFORCE estimates of single samples, `[N, 2, V]`."""
    # One row for each sample, so that the gradient of a row is its estimate.
    logits = tf.tile(tf.constant(_LOGITS)[tf.newaxis], [_NUM_SAMPLES, 1, 1])
    seeds = randomness.stream_seeds(
        5, randomness.GENERATOR_SAMPLE, 0, tf.range(1, dtype=tf.int64)
    )
    uniform = randomness.uniform_by_stream(seeds, (_NUM_SAMPLES, 2, _VOCAB))
    samples = sampling.sample_from_softmax(logits, uniform)
    earned = tf.gather_nd(tf.constant(table), samples)
    ones = tf.ones([_NUM_SAMPLES, 2])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        chosen = tf.gather(tf.nn.log_softmax(logits), samples, batch_dims=2)
        loss = losses.policy_gradient_loss(
            chosen, earned, baselines * ones, ones
        )
    # Descending the loss ascends the reward.
    return -tape.gradient(loss, logits).numpy().astype(np.float64)


def _require_mean(estimates, expected):
    error = estimates.std(0) / np.sqrt(_NUM_SAMPLES)
    assert (np.abs(estimates.mean(0) - expected) < 4.5 * error).all()
    # The test can tell: the error is a small part of what is estimated.
    assert np.linalg.norm(error) < 0.1 * np.linalg.norm(expected)


def test_the_mean_of_the_estimates_is_the_exact_gradient():
    _require_mean(_estimates(_TABLE, 0.0), _exact_gradient(_TABLE))


def test_a_baseline_leaves_the_mean_and_lowers_the_variance():
    probs = _probabilities()
    mean_reward = np.einsum("i,j,ijt->t", probs[0], probs[1], _TABLE)
    with_baseline = _estimates(_TABLE, mean_reward.astype(np.float32))
    _require_mean(with_baseline, _exact_gradient(_TABLE))
    without = _estimates(_TABLE, 0.0)
    assert with_baseline.var(0).sum() < 0.4 * without.var(0).sum()


def test_an_unused_slot_has_no_gradient_nor_has_what_it_is_weighed_with():
    inputs = [tf.constant([[-1.0, -2.0]]), tf.ones([1, 2]), tf.zeros([1, 2])]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = losses.policy_gradient_loss(*inputs, tf.constant([[1.0, 0.0]]))
    by_log_probs, by_rewards, by_baselines = tape.gradient(loss, inputs)
    np.testing.assert_array_equal(by_log_probs, [[-1.0, 0.0]])
    assert by_rewards is None
    assert by_baselines is None


def _masked(positions, originals):
    empty = tf.zeros([1, len(originals)], tf.int32)
    return masking.MaskedInputs(
        empty,
        tf.constant([originals]),
        empty,
        empty,
        tf.constant([positions]),
        tf.constant([[originals[p] for p in positions]]),
        tf.ones([1, len(positions)]),
        tf.cast(empty, tf.bool),
    )


def test_rewards_are_the_discriminators_loss_by_the_label():
    # Probability of real: 0.9 at position 1, 0.2 at 2, 0.6 at 3.
    is_real = np.float32([0.5, 0.9, 0.2, 0.6])
    logits = tf.constant([np.log((1 - is_real) / is_real)])
    masked = _masked([3, 1, 2], [2, 10, 11, 12])
    # The sample of position 1 is the original, the others are not.
    fake = sampling.FakeData(
        tf.constant([[2, 10, 20, 21]]),
        tf.constant([[0, 0, 1, 1]]),
        tf.constant([[21, 10, 20]]),
        tf.constant([[0, 1, 1, 1]]),
    )
    with tf.GradientTape() as tape:
        tape.watch(logits)
        earned = losses.compute_rewards(logits, fake, masked)
    expected = [-np.log(1 - 0.6), -np.log(0.9), -np.log(1 - 0.2)]
    np.testing.assert_allclose(earned[0], expected, rtol=1e-5)
    assert tape.gradient(earned, logits) is None


def test_the_baselines_loss_is_a_cross_entropy_over_used_slots():
    loss = losses.baseline_loss(
        tf.constant([[np.log(3.0), 5.0]], tf.float32),
        tf.constant([[-np.log(0.4), 9.0]], tf.float32),
        tf.constant([[1.0, 0.0]]),
    )
    expected = -0.4 * np.log(0.75) - 0.6 * np.log(0.25)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_entropy_of_worked_examples():
    log_probs = np.log(
        [[0.25] * 4, [0.5, 0.5, 1e-30, 1e-30], [1.0] + [1e-30] * 3]
    )
    log_probs = tf.constant(log_probs[np.newaxis], tf.float32)
    for slot, expected in enumerate([np.log(4), np.log(2), 0.0]):
        weights = tf.one_hot([slot], 3)
        entropy = losses.compute_entropy(log_probs, weights)
        np.testing.assert_allclose(entropy, expected, rtol=1e-6, atol=1e-7)
    total = losses.compute_entropy(log_probs, tf.ones([1, 3]))
    np.testing.assert_allclose(total, np.log(8), rtol=1e-6)


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
