"""Tests of the choice of positions, [MASK], gather and scatter."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.inputs import randomness

# Ids of the worked examples.
PAD, UNK, CLS, SEP, MASK = 0, 1, 2, 3, 4
SPECIAL = (CLS, SEP, MASK)


def _inputs(rows):
    input_ids = tf.constant(rows, tf.int32)
    return {
        "input_ids": input_ids,
        "input_mask": tf.cast(input_ids != PAD, tf.int32),
        "segment_ids": tf.zeros_like(input_ids),
    }


def _uniform(seed, shape):
    seeds = tf.cast(tf.convert_to_tensor(seed), tf.int64)[tf.newaxis]
    return randomness.uniform_by_stream(seeds, shape)


def test_rows_too_short_for_a_slot_are_refused():
    with pytest.raises(ValueError, match="max_seq_length=5"):
        masking.max_predictions_per_seq(0.15, 5)


def test_the_largest_eligible_keys_are_chosen():
    eligible = tf.constant([[False, True, True, True, False, True]])
    uniform = tf.constant([[0.99, 0.2, 0.7, 0.1, 0.98, 0.5]])
    positions, weights = masking.draw_positions(
        eligible, tf.constant([2]), uniform, 3
    )
    np.testing.assert_array_equal(positions, [[2, 5, 0]])
    np.testing.assert_array_equal(weights, [[1, 1, 0]])


@pytest.mark.parametrize("num_candidates", [0, 1, 2])
@pytest.mark.parametrize(
    "draw_fn",
    [masking.draw_positions, masking.draw_positions_with_replacement],
)
def test_rows_with_few_candidates_leave_slots_unused(draw_fn, num_candidates):
    eligible = tf.constant([[False] + [True] * num_candidates + [False] * 5])
    eligible = eligible[:, :6]
    positions, weights = draw_fn(
        eligible, tf.constant([4]), tf.zeros([1, 6]), 5
    )
    used = weights.numpy()[0].astype(bool)
    if draw_fn is masking.draw_positions:
        assert used.sum() == num_candidates
    else:
        assert used.sum() == (4 if num_candidates else 0)
    assert not positions.numpy()[0][~used].any()
    assert np.isin(positions.numpy()[0][used], [1, 2]).all()


def test_draws_with_replacement_pick_the_candidate_of_their_rank():
    eligible = tf.constant([[False, True, False, True, True, False]])
    uniform = tf.constant([[0.0, 0.34, 0.999999, 0.33, 0.5]])
    positions, weights = masking.draw_positions_with_replacement(
        eligible, tf.constant([4]), uniform, 5
    )
    np.testing.assert_array_equal(positions, [[1, 3, 4, 1, 0]])
    np.testing.assert_array_equal(weights, [[1, 1, 1, 1, 0]])


def _mask_row(
    row, positions, weights, replace_uniform, random_ids=None, **settings
):
    """One row, masked at given positions."""
    return masking.mask_inputs(
        _inputs([row]),
        tf.zeros([1, len(row)]),
        tf.constant([replace_uniform]),
        config.MaskingConfig(mask_prob=0.5, **settings),
        SPECIAL,
        lambda *_: (tf.constant([positions]), tf.constant([weights])),
        random_ids,
    )


def test_a_masked_row_looks_like_this():
    # [CLS] a b [SEP] c [SEP]: b and c are chosen, only c's number is below .85.
    row = [CLS, 11, 12, SEP, 13, SEP, PAD, PAD]
    masked = _mask_row(row, [2, 4, 0], [1.0, 1.0, 0.0], [0.85, 0.84, 0.0])
    np.testing.assert_array_equal(
        masked.input_ids, [[CLS, 11, 12, SEP, MASK, SEP, PAD, PAD]]
    )
    np.testing.assert_array_equal(masked.masked_ids, [[12, 13, 0]])
    np.testing.assert_array_equal(masked.original_ids, [row])
    np.testing.assert_array_equal(masked.eligible, [[0, 1, 1, 0, 1, 0, 0, 0]])


def test_a_row_masked_as_in_bert_looks_like_this():
    # Of the numbers .79 shows [MASK], .8 and .89 random tokens, .9 neither.
    row = [CLS, 11, 12, SEP, 13, 14, SEP]
    masked = _mask_row(
        row,
        [2, 4, 1, 5, 0],
        [1.0, 1.0, 1.0, 1.0, 0.0],
        [0.8, 0.79, 0.89, 0.9, 0.85],
        replace_prob=0.8,
        random_prob=0.1,
        random_ids=tf.constant([[31, 32, 33, 34, 35]]),
    )
    np.testing.assert_array_equal(
        masked.input_ids, [[CLS, 33, 31, SEP, MASK, 14, SEP]]
    )
    np.testing.assert_array_equal(masked.masked_ids, [[12, 13, 11, 14, 0]])
    np.testing.assert_array_equal(masked.original_ids, [row])


def test_random_tokens_skip_the_special_ids():
    # Left of 0..7 are 0, 2, 3, 6, 7, each with a fifth of the interval.
    uniform = tf.constant([[0.0, 0.19, 0.2, 0.4, 0.6, 0.79, 0.8, 1 - 2**-23]])
    random_ids = masking.random_tokens(uniform, 8, special_ids=(5, 1, 4))
    np.testing.assert_array_equal(random_ids, [[0, 0, 2, 3, 6, 6, 7, 7]])


def test_scatter_writes_where_weights_allow_and_never_to_position_zero():
    updated, is_updated = masking.scatter_update(
        tf.constant([[10, 11, 12, 13], [20, 21, 22, 23]]),
        updates=tf.constant([[91, 92, 93], [94, 95, 96]]),
        positions=tf.constant([[3, 1, 0], [2, 3, 0]]),
        weights=tf.constant([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]]),
    )
    np.testing.assert_array_equal(updated, [[10, 92, 12, 91], [20, 21, 94, 23]])
    np.testing.assert_array_equal(is_updated, [[0, 1, 0, 1], [0, 0, 1, 0]])


def test_several_writes_to_one_position_average_as_in_the_original():
    updated, is_updated = masking.scatter_update(
        tf.constant([[10, 11, 12]]),
        updates=tf.constant([[7, 8, 5]]),
        positions=tf.constant([[1, 1, 2]]),
    )
    np.testing.assert_array_equal(updated, [[10, 7, 5]])
    np.testing.assert_array_equal(is_updated, [[0, 1, 1]])


def test_the_whole_of_masking_compiles_and_gives_the_eager_result():
    inputs = _inputs(
        [
            [CLS, 11, 12, UNK, SEP, 14, 15, SEP],
            [CLS, 21, MASK, SEP, PAD, PAD, PAD, PAD],
            [PAD] * 8,
        ]
    )

    def run(rows, seed, draw_fn):
        masked = masking.mask_inputs(
            rows,
            _uniform(seed, (3, 8)),
            _uniform(seed + 1, (3, 4)),
            config.MaskingConfig(mask_prob=0.4),
            SPECIAL,
            draw_fn,
        )
        sequence = tf.cast(masked.input_ids, tf.float32)[..., tf.newaxis]
        return (
            *masked,
            *masking.scatter_update(
                rows["input_ids"], masked.masked_ids + 1,
                masked.masked_positions, masked.masked_weights,
            ),
            masking.gather_positions(sequence, masked.masked_positions),
        )  # fmt: skip

    for draw_fn in (
        masking.draw_positions,
        masking.draw_positions_with_replacement,
    ):
        seed = tf.constant([8, 9], tf.int64)
        eager = run(inputs, seed, draw_fn)
        compiled = tf.function(run, jit_compile=True)(inputs, seed, draw_fn)
        for ours, theirs in zip(eager, compiled, strict=True):
            assert theirs.shape.is_fully_defined()
            np.testing.assert_array_equal(ours, theirs)
        # The empty row, as evaluation fills batches up with, weighs nothing.
        assert not eager[6].numpy()[2].any()
