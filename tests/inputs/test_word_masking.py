"""Whole-word masking: worked examples, and the rule in Python."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inputs import masking

# Ids of the worked examples; from 50 on tokens continue a word.
PAD, UNK, CLS, SEP, MASK = 0, 1, 2, 3, 4
SPECIAL = (CLS, SEP, MASK)
FIRST_CONTINUATION = 50
IS_CONTINUATION = np.arange(100) >= FIRST_CONTINUATION


def _eligible(input_ids):
    input_ids = tf.cast(input_ids, tf.int32)
    input_mask = tf.cast(input_ids != PAD, tf.int32)
    return masking.eligible_positions(input_ids, input_mask, SPECIAL)


def _draw(input_ids, num, uniform, slots):
    input_ids = tf.cast(input_ids, tf.int32)
    eligible = _eligible(input_ids)
    continues = tf.gather(IS_CONTINUATION, input_ids)
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


def test_a_vocabulary_without_continuations_is_refused():
    with pytest.raises(ValueError, match="Received: 2 tokens, none of which"):
        masking.continuation_table(("play", "#ing"))


def test_words_start_like_this():
    # [CLS] ##a b ##c ##d [MASK] ##e f [UNK] ##g [SEP] ##h [SEP] [PAD]
    row = [CLS, 51, 12, 53, 54, MASK, 55, 16, UNK, 57, SEP, 58, SEP, PAD]
    eligible = _eligible([row])
    starts = masking.word_starts(eligible, IS_CONTINUATION[np.array([row])])
    np.testing.assert_array_equal(
        starts, [[0, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0]]
    )


def test_a_word_that_does_not_fit_is_skipped_for_one_that_does():
    # Words by key: b (2 pieces), d (3, does not fit), a (1), c (1, too late).
    row = [CLS, 11, 12, 61, 13, 14, 62, 63, SEP]
    uniform = [[0.99, 0.5, 0.9, 0.0, 0.1, 0.7, 0.98, 0.97, 0.99]]
    positions, weights = _draw([row], [3], uniform, 4)
    np.testing.assert_array_equal(positions, [[2, 3, 1, 0]])
    np.testing.assert_array_equal(weights, [[1, 1, 1, 0]])


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
        compiled = tf.function(_draw, jit_compile=True)(*arguments)
        np.testing.assert_array_equal(compiled[0], positions)
        np.testing.assert_array_equal(compiled[1], weights)
    for index, row in enumerate(rows):
        expected = _choose_slowly(row, num[index], keys[index])
        used = len(expected)
        padded = expected + [0] * (slots - used)
        assert positions.numpy()[index].tolist() == padded
        assert weights.numpy()[index].tolist() == [1] * used + [0] * (
            slots - used
        )
