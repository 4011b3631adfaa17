"""Which tokens the generator must fill: choice, [MASK], gather and scatter.

Dynamic masking as in the original's `pretrain/pretrain_helpers.py` (paper,
section 3.1), but positions are drawn without replacement: in the original
one position can fill several slots, and its sampled tokens are averaged to
an id that nobody sampled (`draw_positions_with_replacement` does the same).

Shapes: B rows of all streams on a replica, S tokens, P slots of a row. A
slot that a short row does not need has weight 0, position 0 and id 0;
position 0 holds [CLS] and is never chosen nor written. All shapes are
static and all functions compile under XLA.
"""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

# What `draw_positions` takes and gives; `word_masking.py` has another.
DrawFn = Callable[
    [tf.Tensor, tf.Tensor, tf.Tensor, int], tuple[tf.Tensor, tf.Tensor]
]


class MaskedInputs(NamedTuple):
    """Rows with [MASK] put in, and what the generator must predict."""

    input_ids: tf.Tensor  # [B, S] int32, with [MASK]
    original_ids: tf.Tensor  # [B, S] int32, before masking
    input_mask: tf.Tensor  # [B, S] int32, 1 at tokens and 0 at padding
    segment_ids: tf.Tensor  # [B, S] int32
    masked_positions: tf.Tensor  # [B, P] int32, 0 in unused slots
    masked_ids: tf.Tensor  # [B, P] int32, original ids, 0 in unused slots
    masked_weights: tf.Tensor  # [B, P] float32, 1 in used slots, else 0
    eligible: tf.Tensor  # [B, S] bool, positions that may be chosen


def max_predictions_per_seq(mask_prob: float, max_seq_length: int) -> int:
    """Slots of a row, P: `int((mask_prob + 0.005) * max_seq_length)`.

    That is 19 for 0.15 of 128 tokens, and 79 for 0.15 of 512.
    """
    num_slots = int((mask_prob + 0.005) * max_seq_length)
    if num_slots < 1:
        raise ValueError(
            "Masking needs at least one slot in a row, and "
            "int((mask_prob + 0.005) * max_seq_length) is 0. Received: "
            f"mask_prob={mask_prob}, max_seq_length={max_seq_length}. Raise "
            "one of them."
        )
    return num_slots


def num_predictions(
    lengths: tf.Tensor, mask_prob: float, max_predictions: int
) -> tf.Tensor:
    """The number of positions to choose in each row, `[B]` int32.

    It is 1 to P. `lengths` `[B]` counts [CLS] and [SEP]; the product of
    length and share rounds half to even, as in the original.
    """
    wanted = tf.round(tf.cast(lengths, tf.float32) * mask_prob)
    bounded = tf.minimum(max_predictions, tf.cast(wanted, tf.int32))
    return tf.maximum(1, bounded)


def eligible_positions(
    input_ids: tf.Tensor, input_mask: tf.Tensor, special_ids: Sequence[int]
) -> tf.Tensor:
    """Marks the positions that may be chosen, `[B, S]` bool.

    `special_ids` are those of [CLS], [SEP] and [MASK]; like the original, it
    lets [UNK] be chosen.
    """
    eligible = tf.cast(input_mask, tf.bool)
    for special_id in special_ids:
        eligible = tf.logical_and(eligible, input_ids != special_id)
    return eligible


def draw_positions(
    eligible: tf.Tensor,
    num: tf.Tensor,
    uniform: tf.Tensor,
    max_predictions: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses positions `[B, P]` uniformly without replacement, and weights.

    Every position gets a random key and the largest keys win, which makes all
    subsets and all orders equally likely. Of the `[B, S]` `eligible` ones
    `num` are chosen, or all if there are fewer.
    """
    keys = tf.where(eligible, uniform, -1.0)
    largest, positions = tf.math.top_k(keys, max_predictions)
    is_used = tf.logical_and(largest >= 0, _first_slots(num, max_predictions))
    weights = tf.cast(is_used, tf.float32)
    return positions * tf.cast(is_used, tf.int32), weights


def draw_positions_with_replacement(
    eligible: tf.Tensor,
    num: tf.Tensor,
    uniform: tf.Tensor,
    max_predictions: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses positions as the original does: one may be drawn repeatedly.

    It takes and gives what `draw_positions` does; the first P uniform numbers
    count. A row without candidates fills no slot; the original fails there.
    """
    ranks_up_to = tf.cumsum(tf.cast(eligible, tf.int32), axis=1)
    num_candidates = ranks_up_to[:, -1:]
    draws = uniform[:, :max_predictions]
    ranks = tf.cast(draws * tf.cast(num_candidates, tf.float32), tf.int32)
    # Rounding up to C itself must not point behind the last candidate.
    ranks = tf.minimum(ranks, num_candidates - 1)
    positions = tf.searchsorted(ranks_up_to, ranks + 1, side="left")
    is_used = tf.logical_and(
        num_candidates > 0, _first_slots(num, max_predictions)
    )
    weights = tf.cast(is_used, tf.float32)
    return positions * tf.cast(is_used, tf.int32), weights


def _first_slots(num: tf.Tensor, max_predictions: int) -> tf.Tensor:
    return tf.range(max_predictions)[tf.newaxis, :] < num[:, tf.newaxis]


def random_tokens(
    uniform: tf.Tensor, vocab_size: int, special_ids: Sequence[int]
) -> tf.Tensor:
    """Random entries of the vocabulary, `[B, P]` int32, all but special ones.

    BERT draws special tokens too; we do not, since a [SEP] inside a sentence
    says nothing about words.
    """
    excluded = sorted(set(special_ids))
    num_left = vocab_size - len(excluded)
    # The product may round up to the number of entries itself.
    ranks = tf.cast(uniform * num_left, tf.int32)
    token_ids = tf.minimum(ranks, num_left - 1)
    for special_id in excluded:  # ascending, so each step skips one id
        token_ids += tf.cast(token_ids >= special_id, tf.int32)
    return token_ids


def mask_inputs(
    inputs: Mapping[str, tf.Tensor],
    position_uniform: tf.Tensor,
    replace_uniform: tf.Tensor,
    *,
    special_ids: Sequence[int],
    mask_id: int,
    mask_prob: float,
    replace_prob: float = 0.85,
    draw_fn: DrawFn = draw_positions,
    random_prob: float = 0.0,
    random_ids: tf.Tensor | None = None,
) -> MaskedInputs:
    """Chooses positions of every row, and puts [MASK] at most of them.

    Args:
        inputs: `input_ids`, `input_mask`, `segment_ids`, each `[B, S]` int32.
        position_uniform: `[B, S]` float32 in `[0, 1)`, decides the positions.
        replace_uniform: `[B, P]` float32 in `[0, 1)`; a slot below
            `replace_prob` shows [MASK], from there to `replace_prob +
            random_prob` one of `random_ids`, any other keeps its token.
        special_ids: ids never to choose ([CLS], [SEP], [MASK]).
        mask_id: id of [MASK].
        mask_prob: fraction of the tokens to choose, 0-1.
        replace_prob: fraction of the chosen tokens to replace, 0-1.
        draw_fn: `draw_positions` or a function with its signature.
        random_prob: 0.1 in BERT, 0 in the original.
        random_ids: `[B, P]` int32 from `random_tokens`, for `random_prob`.
    """
    num_slots = replace_uniform.shape[1]
    original_ids, input_mask = inputs["input_ids"], inputs["input_mask"]
    eligible = eligible_positions(original_ids, input_mask, special_ids)
    lengths = tf.reduce_sum(input_mask, axis=1)
    num = num_predictions(lengths, mask_prob, num_slots)
    positions, weights = draw_fn(eligible, num, position_uniform, num_slots)
    is_masked = replace_uniform < replace_prob
    is_replaced = is_masked
    shown_ids = tf.fill(tf.shape(positions), mask_id)
    if random_ids is not None:
        shown_ids = tf.where(is_masked, shown_ids, random_ids)
        is_replaced = replace_uniform < replace_prob + random_prob
    writes = weights * tf.cast(is_replaced, tf.float32)
    input_ids, _ = scatter_update(original_ids, shown_ids, positions, writes)
    chosen_ids = tf.gather(original_ids, positions, batch_dims=1)
    return MaskedInputs(
        input_ids=input_ids,
        original_ids=original_ids,
        input_mask=input_mask,
        segment_ids=inputs["segment_ids"],
        masked_positions=positions,
        masked_ids=chosen_ids * tf.cast(weights, tf.int32),
        masked_weights=weights,
        eligible=eligible,
    )


def gather_positions(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Picks the vectors at `[B, P]` positions of `[B, S, D]`: `[B, P, D]`."""
    return tf.gather(sequence, positions, batch_dims=1)


def scatter_update(
    sequence: tf.Tensor,
    updates: tf.Tensor,
    positions: tf.Tensor,
    weights: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes ids `[B, P]` to positions of `[B, S]`, never to position 0.

    A position that several slots name receives the mean of their ids, rounded
    down, as in the original. Slots of weight 0 do not write. Returns the ids
    after writing and an indicator, both `[B, S]` int32, that is 1 where
    something was written.
    """
    is_writing = positions > 0
    if weights is not None:
        is_writing = tf.logical_and(is_writing, weights > 0)
    writes = tf.cast(is_writing, tf.int32)
    # Sums of integers do not depend on the order in which a GPU adds them.
    totals = sum_by_position(updates * writes, positions, sequence)
    counts = sum_by_position(writes, positions, sequence)
    is_written = counts > 0
    means = totals // tf.maximum(counts, 1)
    updated = tf.where(is_written, means, sequence)
    return updated, tf.cast(is_written, tf.int32)


def sum_by_position(
    values: tf.Tensor, positions: tf.Tensor, sequence: tf.Tensor
) -> tf.Tensor:
    """Adds `[B, N]` values up at their positions in rows `[B, S]`."""
    num_rows, length = sequence.shape
    if num_rows is None:
        num_rows = tf.shape(sequence)[0]
    rows = tf.range(num_rows)[:, tf.newaxis]
    sums = tf.math.unsorted_segment_sum(
        values, rows * length + positions, num_rows * length
    )
    return tf.reshape(sums, tf.shape(sequence))
