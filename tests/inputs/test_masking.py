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
# From here on tokens continue a word.
FIRST_CONTINUATION = 50
IS_CONTINUATION = np.arange(100) >= FIRST_CONTINUATION


def _inputs(rows):
    input_ids = tf.cast(rows, tf.int32)
    return {
        "input_ids": input_ids,
        "input_mask": tf.cast(input_ids != PAD, tf.int32),
        "segment_ids": tf.zeros_like(input_ids),
    }


def _uniform(seed, shape):
    seeds = tf.cast(tf.convert_to_tensor(seed), tf.int64)[tf.newaxis]
    return randomness.uniform_by_stream(seeds, shape)


def test_seldom_pieces_are_chosen_in_proportion_to_their_weights():
    counts = np.array([0, 100, 25, 0])
    weights = masking.rareness(counts, power=0.5)
    # Frequencies 0.8 and 0.2: the second is twice as likely, 1 on mean.
    assert weights[2] / weights[1] == pytest.approx(2, rel=1e-5)
    mean = np.average(weights, weights=np.maximum(counts, 1))
    assert mean == pytest.approx(1)
    np.testing.assert_array_equal(masking.rareness(counts, 0.0), 1.0)
    rows = tf.tile(tf.constant([[1, 2, 1]]), [30_000, 1])
    positions, used = masking.draw_positions(
        tf.ones_like(rows, tf.bool), tf.ones([30_000], tf.int32),
        _uniform((3, 4), (30_000, 3)), 2, tf.gather(weights, rows),
    )  # fmt: skip
    assert used.numpy().sum() == 30_000
    shares = np.bincount(positions.numpy()[:, 0], minlength=3) / 30_000
    np.testing.assert_allclose(shares, [0.25, 0.5, 0.25], atol=0.01)
    with pytest.raises(ValueError, match="token counts"):
        masking.rareness(None, 0.5)


def _mask_row(
    row, positions, weights, replace_uniform, random_ids=None, **settings
):
    """One row, masked at given positions."""
    return masking.mask_inputs(
        _inputs([row]), tf.zeros([1, len(row)]), tf.constant([replace_uniform]),
        config.MaskingConfig(mask_prob=0.5, **settings), SPECIAL,
        lambda *_: (tf.constant([positions]), tf.constant([weights])),
        random_ids,
    )  # fmt: skip


def test_a_row_masked_as_in_bert_looks_like_this():
    # Of the numbers .79 shows [MASK], .8 and .89 random tokens, .9 neither.
    row = [CLS, 11, 12, SEP, 13, 14, SEP]
    masked = _mask_row(
        row, [2, 4, 1, 5, 0], [1.0, 1.0, 1.0, 1.0, 0.0],
        [0.8, 0.79, 0.89, 0.9, 0.85], replace_prob=0.8, random_prob=0.1,
        random_ids=tf.constant([[31, 32, 33, 34, 35]]),
    )  # fmt: skip
    np.testing.assert_array_equal(
        masked.input_ids, [[CLS, 33, 31, SEP, MASK, 14, SEP]]
    )
    np.testing.assert_array_equal(masked.masked_ids, [[12, 13, 11, 14, 0]])
    np.testing.assert_array_equal(masked.original_ids, [row])
    np.testing.assert_array_equal(masked.eligible, [[0, 1, 1, 0, 1, 1, 0]])


def test_random_tokens_skip_the_special_ids():
    # Left of 0..7 are 0, 2, 3, 6, 7, each with a fifth of the interval.
    uniform = tf.constant([[0.0, 0.19, 0.2, 0.4, 0.6, 0.79, 0.8, 1 - 2**-23]])
    random_ids = masking.random_tokens(uniform, 8, special_ids=(5, 1, 4))
    np.testing.assert_array_equal(random_ids, [[0, 0, 2, 3, 6, 6, 7, 7]])


def _draw(rows, num, uniform, slots):
    inputs = _inputs(rows)
    eligible = masking.eligible_positions(
        inputs["input_ids"], inputs["input_mask"], SPECIAL
    )
    continues = tf.gather(IS_CONTINUATION, inputs["input_ids"])
    return masking.draw_whole_words(
        continues, eligible, tf.convert_to_tensor(num), uniform, slots
    )


def _random_rows(rng, num_rows, length, continuation_share):
    """Rows of two segments with words of all lengths and some padding."""
    rows = rng.integers(5, FIRST_CONTINUATION, [num_rows, length])
    is_inside = rng.random(rows.shape) < continuation_share
    rows[is_inside] = rng.integers(FIRST_CONTINUATION, 100, is_inside.sum())
    rows[rng.random(rows.shape) < 0.02] = MASK
    rows[rng.random(rows.shape) < 0.02] = UNK
    rows[:, 0] = CLS
    for row in rows:
        end = rng.integers(2, length + 1)
        row[rng.integers(1, end)] = row[end - 1] = SEP
        row[end:] = PAD
    return rows


def _words(row):
    """The rule's words of a row, as lists of positions."""
    words = []
    for position, token in enumerate(row):
        if token in (PAD, *SPECIAL):
            continue
        follows = bool(words) and words[-1][-1] == position - 1
        if follows and token >= FIRST_CONTINUATION:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def _choose_slowly(row, num, keys):
    """The documented rule, word by word."""
    chosen = []
    for word in sorted(_words(row), key=lambda word: -keys[word[0]]):
        if len(chosen) + len(word) <= num:
            chosen += word
    return chosen


def test_pieces_with_two_hashes_continue_a_word():
    tokens = ("[PAD]", "play", "##ing", "#", "a##b")
    table = masking.continuation_table(tokens)
    assert table.tolist() == [False, False, True, False, False]
    with pytest.raises(ValueError, match="Received: 2 tokens without"):
        masking.continuation_table(("play", "#ing"))


@pytest.mark.parametrize("continuation_share", [0.0, 0.2, 0.5, 0.9])
@pytest.mark.parametrize(("length", "slots"), [(9, 3), (64, 10), (128, 64)])
def test_the_rule_is_followed_word_by_word(continuation_share, length, slots):
    rng = np.random.default_rng(length)
    rows = _random_rows(rng, 100, length, continuation_share)
    num = rng.integers(1, slots + 1, 100).astype(np.int32)
    # Distinct keys: between equal ones the rule leaves the order open.
    keys = rng.permuted(np.tile(np.arange(length) / length, [100, 1]), axis=1)
    arguments = tf.constant(rows), num, keys.astype(np.float32), slots
    positions, weights = _draw(*arguments)
    if length == 9:
        compiled = tf.function(_draw, jit_compile=True, autograph=False)(
            *arguments
        )
        np.testing.assert_array_equal(compiled[0], positions)
        np.testing.assert_array_equal(compiled[1], weights)
    for index, row in enumerate(rows):
        expected = _choose_slowly(row, num[index], keys[index])
        used = len(expected)
        padded = expected + [0] * (slots - used)
        assert positions.numpy()[index].tolist() == padded
        is_used = np.arange(slots) < used
        np.testing.assert_array_equal(weights[index], is_used)
