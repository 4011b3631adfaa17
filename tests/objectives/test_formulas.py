"""Counts at masked positions, and losses against formulas in float64."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from electra_tf.formulas import accuracies
from electra_tf.formulas import losses
from electra_tf.inputs import masking

_MASK = 4
_VOCAB_SIZE = 10
# One row, [CLS] a b c d e f [SEP]; all but f are chosen. The model sees
# [MASK] for a, b and c; d is kept, and a random token stands for e.
_ORIGINAL = [2, 5, 6, 7, 8, 9, 5, 3]
_SHOWN = [2, _MASK, _MASK, _MASK, 8, 6, 5, 3]
_POSITIONS = [5, 1, 4, 2, 3, 0]  # the last slot is not used
# Best guesses at these: e wrong, a right, d right, b wrong, c wrong.
_BEST = [6, 5, 8, 9, 5, 2]
# Samples: e right, a right, d wrong, b right, c wrong.
_SAMPLED = [9, 5, 6, 6, 8, 2]


@pytest.fixture
def masked():
    row = {
        "input_ids": _SHOWN, "original_ids": _ORIGINAL, "input_mask": [1] * 8,
        "segment_ids": [0] * 8, "masked_positions": _POSITIONS,
        "masked_ids": [9, 5, 8, 6, 7, 0], "masked_weights": [1.0] * 5 + [0.0],
        "eligible": [False, *[True] * 6, False],
    }  # fmt: skip
    row = {name: tf.constant([value]) for name, value in row.items()}
    return masking.MaskedInputs(**row)


@pytest.fixture
def logits():
    """3 at the best guess and 0 elsewhere."""
    return 3.0 * tf.one_hot([_BEST], _VOCAB_SIZE)


def test_kept_and_swapped_tokens_are_counted_apart(masked, logits):
    _, parts = losses.masked_lm_losses(
        logits, masked.masked_ids, masked.masked_weights
    )
    counts = accuracies.count_predictions(
        masked, logits, parts, _MASK, tf.constant([_SAMPLED])
    )
    divided = set(itertools.chain(*accuracies.GENERATOR_RATIOS.values()))
    assert set(counts) == divided | {"kept_sampled_correct"}
    counts = {name: float(count) for name, count in counts.items()}
    # The normalizer of a row of logits; only the guess for a is right.
    log_sum = np.log(np.exp(3.0) + 9)
    assert counts.pop("masked_loss") == pytest.approx(3 * log_sum - 3, rel=1e-6)
    assert counts == {
        "masked_tokens": 3, "masked_correct": 1, "sampled_correct": 2,
        "kept_tokens": 2, "kept_correct": 1, "kept_sampled_correct": 1,
    }  # fmt: skip


def test_restored_are_wrong_samples_whose_original_is_guessed(masked, logits):
    # The samples are wrong for d and c; of these the guess for d is right.
    sampled, _ = masking.scatter_update(
        masked.original_ids, tf.constant([_SAMPLED]), masked.masked_positions
    )
    seen = masked._replace(input_ids=sampled)
    counts = accuracies.count_restored(seen, logits)
    assert counts == {"replaced_tokens": 2, "restored_tokens": 1}


@pytest.mark.parametrize("original", [2, 5])
@pytest.mark.parametrize("copy_logit", [-200.0, -2.0, 1.5, 200.0])
def test_copying_is_the_log_of_a_mixture_and_its_gradient(copy_logit, original):
    """Where the input is 2; the original may be that, or another."""
    generator = np.random.default_rng(2)
    logits = generator.normal(0, 30, _VOCAB_SIZE).astype(np.float32)
    inputs = tf.constant(logits), tf.constant(copy_logit)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = -losses.copying_log_likelihoods(
            tf.reshape(inputs[0], [1, 1, _VOCAB_SIZE]),
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
    slopes = (1 - copied) * (np.exp(log_probs) - np.eye(_VOCAB_SIZE)[original])
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
