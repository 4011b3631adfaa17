"""Counts at masked positions that show [MASK], and at the others."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.formulas import accuracies
from electra_tf.formulas import losses
from electra_tf.inputs import masking
from electra_tf.modeling import networks

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
        "input_ids": _SHOWN,
        "original_ids": _ORIGINAL,
        "input_mask": [1] * 8,
        "segment_ids": [0] * 8,
        "masked_positions": _POSITIONS,
        "masked_ids": [9, 5, 8, 6, 7, 0],
        "masked_weights": [1.0] * 5 + [0.0],
        "eligible": [False, *[True] * 6, False],
    }
    row = {name: tf.constant([value]) for name, value in row.items()}
    return masking.MaskedInputs(**row)


@pytest.fixture
def logits():
    """3 at the best guess and 0 elsewhere."""
    return 3.0 * tf.one_hot([_BEST], _VOCAB_SIZE)


def _count(masked, generated):
    _, parts = losses.masked_lm_losses(
        generated.prediction_logits, masked.masked_ids, masked.masked_weights
    )
    counts = accuracies.count_predictions(
        masked, generated.logits, parts, _MASK, tf.constant([_SAMPLED])
    )
    divided = set(itertools.chain(*accuracies.GENERATOR_RATIOS.values()))
    assert set(counts) == divided | {"kept_sampled_correct"}
    return {name: float(count) for name, count in counts.items()}


def test_kept_and_swapped_tokens_are_counted_apart(masked, logits):
    generated = networks.GeneratorOutput(logits, logits, (object(),))
    counts = _count(masked, generated)
    # The normalizer of a row of logits; only the guess for a is right.
    log_sum = np.log(np.exp(3.0) + 9)
    assert counts.pop("masked_loss") == pytest.approx(3 * log_sum - 3, rel=1e-6)
    assert counts == {
        "masked_tokens": 3, "masked_correct": 1, "sampled_correct": 2,
        "kept_tokens": 2, "kept_correct": 1, "kept_sampled_correct": 1,
    }  # fmt: skip


def test_a_fixed_generator_is_scored_by_what_its_loss_reads(masked):
    # Nothing that [MASK] hides occurs in the corpus: never sampled, but dear.
    seen = np.eye(_VOCAB_SIZE)[8] * 50
    generator = networks.FixedGenerator(_VOCAB_SIZE, seen)
    counts = _count(masked, generator(masked))
    # Half an occurrence of 50, and nine such beside the one token.
    assert counts["masked_loss"] == pytest.approx(3 * np.log(100 * 1.09))


def test_restored_are_wrong_samples_whose_original_is_guessed(masked, logits):
    # The samples are wrong for d and c; of these the guess for d is right.
    sampled, _ = masking.scatter_update(
        masked.original_ids, tf.constant([_SAMPLED]), masked.masked_positions
    )
    seen = masked._replace(input_ids=sampled)
    counts = accuracies.count_restored(seen, logits)
    assert counts == {"replaced_tokens": 2, "restored_tokens": 1}
