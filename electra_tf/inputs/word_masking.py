"""Whole-word masking: all pieces of a word are chosen together, or none.

A word is a maximal run of eligible positions of which all but the first hold
a continuation piece (`##...`). The rule is BERT's
(`create_pretraining_data.py`, flag `do_whole_word_mask`): words are taken in
random order; one with more pieces than positions are left of
`masking.num_predictions` is skipped, and the next ones are still tried.

One departure: a continuation piece behind [CLS] or [SEP] begins a word of its
own; BERT joins it to the last word before that token.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf.inputs import masking

# How pieces that continue a word begin in a WordPiece vocabulary.
_CONTINUATION_PREFIX = "##"


def continuation_table(tokens: Sequence[str]) -> np.ndarray:
    """Marks the entries of `vocabulary.tokens` that continue a word, `[V]`."""
    table = np.array(
        [token.startswith(_CONTINUATION_PREFIX) for token in tokens], np.bool_
    )
    if not table.any():
        raise ValueError(
            "Whole-word masking needs a vocabulary whose continuation pieces "
            f"begin with {_CONTINUATION_PREFIX!r}. Received: {len(tokens)} "
            "tokens, none of which does. Use a WordPiece vocabulary, or set "
            "masking.whole_word to false."
        )
    return table


def word_starts(
    input_ids: tf.Tensor, eligible: tf.Tensor, is_continuation: tf.Tensor
) -> tf.Tensor:
    """Marks the first position of every word that may be chosen, `[B, S]` bool.

    A word goes on up to the next start, or to the next position that is not
    eligible.
    """
    continues = tf.gather(tf.convert_to_tensor(is_continuation), input_ids)
    is_previous_eligible = tf.pad(eligible[:, :-1], [[0, 0], [1, 0]])
    is_inside = tf.logical_and(continues, is_previous_eligible)
    return tf.logical_and(eligible, tf.logical_not(is_inside))


def whole_word_draw_fn(starts_word: tf.Tensor) -> masking.DrawFn:
    """Makes a function like `masking.draw_positions` that never splits a word.

    Words are in the order of their random keys, the pieces of a word in
    consecutive slots in the order of the text; used slots come first.
    """

    def draw(
        eligible: tf.Tensor,
        num: tf.Tensor,
        uniform: tf.Tensor,
        max_predictions: int,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        # From here on, rank r is the place of a word in the random order.
        keys = tf.where(starts_word, uniform, -1.0)
        _, first_positions = tf.math.top_k(keys, keys.shape[1])
        sizes = tf.gather(
            _word_sizes(starts_word, eligible), first_positions, batch_dims=1
        )
        sizes = _fitting_sizes(sizes, tf.minimum(num, max_predictions))
        return _fill_slots(first_positions, sizes, max_predictions)

    return draw


def _word_sizes(starts_word: tf.Tensor, eligible: tf.Tensor) -> tf.Tensor:
    """Pieces of the word that starts at a position, else 0: `[B, S]`."""
    numbers = tf.cumsum(tf.cast(starts_word, tf.int32), axis=1) - 1
    # Positions before the first word have number -1 and are not eligible.
    numbers = tf.maximum(numbers, 0)
    sizes_by_number = masking.sum_by_position(
        tf.cast(eligible, tf.int32), numbers, starts_word
    )
    sizes = tf.gather(sizes_by_number, numbers, batch_dims=1)
    return sizes * tf.cast(starts_word, tf.int32)


def _fitting_sizes(sizes: tf.Tensor, num: tf.Tensor) -> tf.Tensor:
    """Keeps the sizes `[B, R]` of words that the rule takes, sets others to 0.

    Each round takes words up to the first that does not fit, then drops all
    that are larger than what is left: they will not fit later. A handful of
    rounds does for text; S rounds of one word each would be slow.
    """

    def fitting(sizes: tf.Tensor, left: tf.Tensor) -> tf.Tensor:
        return tf.where(sizes <= left, sizes, 0)

    def is_any_waiting(
        taken: tf.Tensor, waiting: tf.Tensor, left: tf.Tensor
    ) -> tf.Tensor:
        del taken, left
        return tf.reduce_any(waiting > 0)

    def take_round(
        taken: tf.Tensor, waiting: tf.Tensor, left: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        # The first waiting word always fits, so every round gets on.
        totals = tf.cumsum(waiting, axis=1)
        new = tf.where(totals <= left, waiting, 0)
        left -= tf.reduce_sum(new, axis=1, keepdims=True)
        return taken + new, fitting(waiting - new, left), left

    left = num[:, tf.newaxis]
    state = (tf.zeros_like(sizes), fitting(sizes, left), left)
    taken, _, _ = tf.while_loop(is_any_waiting, take_round, state)
    return taken


def _fill_slots(
    first_positions: tf.Tensor, sizes: tf.Tensor, max_predictions: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Lays `[B, R]` chosen words out in slots, `[B, P]`."""
    ends = tf.cumsum(sizes, axis=1)
    slots = tf.zeros_like(ends[:, :1]) + tf.range(max_predictions)
    # The word of slot p is the first one whose pieces reach beyond p.
    ranks = tf.searchsorted(ends, slots + 1, side="left")
    ranks = tf.minimum(ranks, ends.shape[1] - 1)
    first_slots = tf.gather(ends - sizes, ranks, batch_dims=1)
    positions = tf.gather(first_positions, ranks, batch_dims=1)
    positions += slots - first_slots
    is_used = slots < ends[:, -1:]
    return positions * tf.cast(is_used, tf.int32), tf.cast(is_used, tf.float32)
