"""Dynamic masking: chooses positions and puts [MASK] there (paper, section 2).

Every batch is masked anew, as in the original's `pretrain/pretrain_helpers.py`.
A row has S tokens and P slots for masked positions. Slots that a short row does
not use have weight, position and id 0; position 0 holds [CLS] and is never
masked. XLA can compile all functions.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.acceleration import operations
from electra_tf.inputs import randomness
from electra_tf.text import vocabulary as vocabulary_lib

# A function with the arguments and results of `draw_positions`.
DrawFn = Callable[
    [tf.Tensor, tf.Tensor, tf.Tensor, int], tuple[tf.Tensor, tf.Tensor]
]


class MaskedInputs(NamedTuple):
    """Masked rows, and the tokens that the generator must predict."""

    input_ids: tf.Tensor  # [B, S] int32, with [MASK]
    original_ids: tf.Tensor  # [B, S] int32, before masking
    input_mask: tf.Tensor  # [B, S] int32, 1 at tokens and 0 at padding
    segment_ids: tf.Tensor  # [B, S] int32
    masked_positions: tf.Tensor  # [B, P] int32, 0 in unused slots
    masked_ids: tf.Tensor  # [B, P] int32, original ids, 0 in unused slots
    masked_weights: tf.Tensor  # [B, P] float32, 1 in used slots, else 0
    eligible: tf.Tensor  # [B, S] bool, positions that may be chosen


class DynamicMasking:
    """Masks batches by a config, with random numbers of step and stream."""

    def __init__(
        self,
        settings: config.MaskingConfig,
        vocabulary: vocabulary_lib.Vocabulary,
        run_seed: int,
        token_counts: np.ndarray | None = None,
    ) -> None:
        self.settings, self.vocabulary = settings, vocabulary
        self.run_seed = run_seed
        # [PAD] and [UNK] are left out: [UNK] may be masked.
        self.special_ids = vocabulary.special_ids[2:]
        if settings.whole_word:
            self._is_continuation = continuation_table(vocabulary.tokens)
        if settings.frequency_power:
            self._rareness = rareness(token_counts, settings.frequency_power)

    def seeds(
        self,
        purpose: int,
        step: tf.Tensor,
        stream_ids: tf.Tensor,
        is_training: bool,
    ) -> tf.Tensor:
        """Returns the streams' seeds, `[n, 2]` int64, for masks or samples."""
        if not is_training:
            purpose += randomness.EVALUATION
        return randomness.stream_seeds(self.run_seed, purpose, step, stream_ids)

    def __call__(
        self,
        features: Mapping[str, tf.Tensor],
        step: tf.Tensor,
        is_training: bool,
        mask_prob: float | tf.Tensor | None = None,
    ) -> MaskedInputs:
        """Masks `[n, k, S]` features of n streams; B is n * k."""
        settings, streams = self.settings, features["stream_ids"]
        _, rows, length = features["input_ids"].shape
        slots = max_predictions_per_seq(settings.largest_mask_prob, length)

        def draw(purpose: int, width: int) -> tf.Tensor:
            seeds = self.seeds(purpose, step, streams, is_training)
            return randomness.uniform_by_stream(seeds, (rows, width))

        inputs = {
            name: tf.reshape(features[name], [-1, length])
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        random_ids = None
        if settings.random_prob:
            random_ids = random_tokens(
                draw(randomness.MASK_RANDOM_TOKEN, slots),
                self.vocabulary.size,
                self.vocabulary.special_ids,
            )
        return mask_inputs(
            inputs,
            draw(randomness.MASK_POSITIONS, length),
            draw(randomness.MASK_REPLACEMENT, slots),
            settings,
            self.special_ids,
            self._draw_fn(inputs["input_ids"]),
            random_ids,
            mask_prob,
        )

    def _draw_fn(self, input_ids: tf.Tensor) -> DrawFn:
        if self.settings.whole_word:
            continues = tf.gather(self._is_continuation, input_ids)
            return functools.partial(draw_whole_words, continues)
        if self.settings.draw_with_replacement:
            return draw_positions_with_replacement
        if self.settings.frequency_power:
            return functools.partial(
                draw_positions, weights=tf.gather(self._rareness, input_ids)
            )
        return draw_positions


def max_predictions_per_seq(mask_prob: float, max_seq_length: int) -> int:
    """Computes P, the slots of a row: 19 for 0.15 and 128 tokens."""
    num_slots = int((mask_prob + 0.005) * max_seq_length)
    if num_slots < 1:
        raise ValueError(
            "(mask_prob + 0.005) * max_seq_length must be at least 1. "
            f"Received: {mask_prob=}, {max_seq_length=}. Raise one of them."
        )
    return num_slots


def rareness(token_counts: np.ndarray | None, power: float) -> np.ndarray:
    """Computes `[V]` float32 weights, frequency ** -power, mean 1 in the text.

    An entry that does not occur counts as one occurrence.
    """
    if token_counts is None:
        raise ValueError(
            "`masking.frequency_power` needs the token counts of a dataset. "
            "Received: none. Pass `token_counts`."
        )
    counts = np.maximum(np.asarray(token_counts, np.float64), 1.0)
    weights = (counts / counts.sum()) ** -power
    weights /= np.average(weights, weights=counts)
    return np.asarray(weights, np.float32)


def num_predictions(
    lengths: tf.Tensor, mask_prob: float | tf.Tensor, max_predictions: int
) -> tf.Tensor:
    """Computes how many positions each row gets masked, `[B]` int32, 1 to P.

    `lengths` `[B]` counts [CLS] and [SEP]; halves round to even.
    """
    num = tf.round(tf.cast(lengths, tf.float32) * mask_prob)
    return tf.clip_by_value(tf.cast(num, tf.int32), 1, max_predictions)


def eligible_positions(
    input_ids: tf.Tensor, input_mask: tf.Tensor, special_ids: Sequence[int]
) -> tf.Tensor:
    """Marks the positions that may be masked, `[B, S]` bool."""
    eligible = tf.cast(input_mask, tf.bool)
    for special_id in special_ids:
        eligible &= input_ids != special_id
    return eligible


def draw_positions(
    eligible: tf.Tensor,
    num: tf.Tensor,
    uniform: tf.Tensor,
    max_predictions: int,
    weights: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses positions without replacement; returns them with their weights.

    Every eligible position gets a key from `uniform` (all are `[B, S]`), and
    the `num` `[B]` largest keys win, so all subsets and orders are equally
    likely. With `weights` each draw takes a position with a probability in
    proportion to its weight, by keys `u ** (1 / w)` (Efraimidis and Spirakis,
    2006): the original's `proposal_distribution`. Both results are `[B, P]`.
    """
    if weights is not None:
        # Logarithms, because keys can underflow; 2**-24 replaces a 0.
        uniform = tf.math.log(tf.maximum(uniform, 2.0**-24)) / weights
    keys = tf.where(eligible, uniform, -math.inf)
    largest, positions = tf.math.top_k(keys, max_predictions)
    return _use_slots(positions, largest > -math.inf, num)


def draw_positions_with_replacement(
    eligible: tf.Tensor,
    num: tf.Tensor,
    uniform: tf.Tensor,
    max_predictions: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses positions as the original does, perhaps some of them twice.

    `scatter_update` writes the mean of the ids that such a position receives.
    """
    ranks_up_to = tf.cumsum(tf.cast(eligible, tf.int32), axis=1)
    num_candidates = ranks_up_to[:, -1:]
    ranks = uniform[:, :max_predictions] * tf.cast(num_candidates, tf.float32)
    ranks = tf.cast(ranks, tf.int32)
    # The product may round up to the number of candidates.
    ranks = tf.minimum(ranks, num_candidates - 1)
    positions = tf.searchsorted(ranks_up_to, ranks + 1, side="left")
    return _use_slots(positions, num_candidates > 0, num)


def _use_slots(
    positions: tf.Tensor, is_eligible: tf.Tensor | bool, num: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns positions and weights, with zeros behind the first `num`."""
    is_used = tf.range(positions.shape[1]) < num[:, tf.newaxis]
    is_used = tf.logical_and(is_used, is_eligible)
    return positions * tf.cast(is_used, tf.int32), tf.cast(is_used, tf.float32)


def continuation_table(tokens: Sequence[str]) -> np.ndarray:
    """Marks the tokens that continue a word, `[V]` bool."""
    table = np.char.startswith(tokens, "##")
    if not table.any():
        raise ValueError(
            "Whole-word masking needs tokens that begin with '##'. Received: "
            f"{len(tokens)} tokens without '##'. Use a WordPiece vocabulary, "
            "or set masking.whole_word to false."
        )
    return table


def draw_whole_words(
    continues: tf.Tensor,
    eligible: tf.Tensor,
    num: tf.Tensor,
    uniform: tf.Tensor,
    max_predictions: int,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Chooses positions so that all tokens of a word are chosen, or none.

    As in BERT's `do_whole_word_mask`, words are tried in random order, and a
    word with more tokens than are left of `num` is skipped. A word is an
    eligible token and the eligible tokens behind it that continue a word
    (`continues`, `[B, S]` bool). Unlike in BERT, a "##" token behind [CLS] or
    [SEP] begins a word. `draw_positions` explains the other arguments.
    """
    is_previous_eligible = tf.pad(eligible[:, :-1], [[0, 0], [1, 0]])
    starts = eligible & ~(continues & is_previous_eligible)
    # The rank of a word is its index in the random order.
    keys = tf.where(starts, uniform, -1.0)
    _, first_positions = tf.math.top_k(keys, keys.shape[1])
    sizes = _word_sizes(starts, eligible)
    sizes = tf.gather(sizes, first_positions, batch_dims=1)
    sizes = _fitting_sizes(sizes, tf.minimum(num, max_predictions))
    ends = tf.cumsum(sizes, axis=1)
    slots = tf.zeros_like(ends[:, :1]) + tf.range(max_predictions)
    # Slot p belongs to the first word that ends behind p.
    ranks = tf.searchsorted(ends, slots + 1, side="left")
    ranks = tf.minimum(ranks, ends.shape[1] - 1)
    first_slots = tf.gather(ends - sizes, ranks, batch_dims=1)
    positions = tf.gather(first_positions, ranks, batch_dims=1)
    return _use_slots(positions + slots - first_slots, True, ends[:, -1])


def _word_sizes(starts: tf.Tensor, eligible: tf.Tensor) -> tf.Tensor:
    """Counts the tokens of words, `[B, S]`, at their first positions."""
    # Positions before the first word have number -1 and are not eligible.
    starts = tf.cast(starts, tf.int32)
    numbers = tf.maximum(tf.cumsum(starts, axis=1) - 1, 0)
    sizes = sum_by_position(tf.cast(eligible, tf.int32), numbers, starts)
    return tf.gather(sizes, numbers, batch_dims=1) * starts


def _fitting_sizes(sizes: tf.Tensor, num: tf.Tensor) -> tf.Tensor:
    """Keeps the `[B, R]` sizes of the words to choose, sets others to 0.

    Each round chooses words up to the first that does not fit, then drops all
    words that are larger than the number of slots left.
    """

    def take_round(
        taken: tf.Tensor, waiting: tf.Tensor, left: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        # The first waiting word always fits, so the loop ends.
        new = tf.where(tf.cumsum(waiting, axis=1) <= left, waiting, 0)
        left -= tf.reduce_sum(new, axis=1, keepdims=True)
        waiting -= new
        return taken + new, tf.where(waiting <= left, waiting, 0), left

    left = num[:, tf.newaxis]
    waiting = tf.where(sizes <= left, sizes, 0)
    taken, _, _ = tf.while_loop(
        lambda taken, waiting, left: tf.reduce_any(waiting > 0),
        take_round,
        (tf.zeros_like(sizes), waiting, left),
    )
    return taken


def random_tokens(
    uniform: tf.Tensor, vocab_size: int, special_ids: Sequence[int]
) -> tf.Tensor:
    """Maps numbers in `[0, 1)` to ids that are not special, `[B, P]` int32."""
    excluded = sorted(set(special_ids))
    num_left = vocab_size - len(excluded)
    # The product may round up to the number of entries itself.
    token_ids = tf.minimum(tf.cast(uniform * num_left, tf.int32), num_left - 1)
    for special_id in excluded:  # ascending, so each step skips one id
        token_ids += tf.cast(token_ids >= special_id, tf.int32)
    return token_ids


def mask_inputs(
    inputs: Mapping[str, tf.Tensor],
    position_uniform: tf.Tensor,
    replace_uniform: tf.Tensor,
    settings: config.MaskingConfig,
    special_ids: Sequence[int],
    draw_fn: DrawFn = draw_positions,
    random_ids: tf.Tensor | None = None,
    mask_prob: float | tf.Tensor | None = None,
) -> MaskedInputs:
    """Chooses positions of every row, and puts [MASK] at most of them.

    Args:
        inputs: `input_ids`, `input_mask`, `segment_ids`, `[B, S]` int32 each.
        position_uniform: `[B, S]` in `[0, 1)`, for the choice of positions.
        replace_uniform: `[B, P]` in `[0, 1)`. Below `replace_prob` a slot shows
            [MASK], below `replace_prob + random_prob` a random token.
        settings: the section `masking` of a config.
        special_ids: never masked; the last is [MASK].
        draw_fn: chooses the positions.
        random_ids: `[B, P]` int32, the random tokens.
        mask_prob: the rate of this step; None takes `settings.mask_prob`.
    """
    num_slots = replace_uniform.shape[1]
    original_ids, input_mask = inputs["input_ids"], inputs["input_mask"]
    eligible = eligible_positions(original_ids, input_mask, special_ids)
    lengths = tf.reduce_sum(input_mask, axis=1)
    rate = settings.mask_prob if mask_prob is None else mask_prob
    num = num_predictions(lengths, rate, num_slots)
    positions, weights = draw_fn(eligible, num, position_uniform, num_slots)
    is_replaced = replace_uniform < settings.replace_prob
    shown_ids = tf.fill(tf.shape(positions), special_ids[-1])
    if random_ids is not None:
        shown_ids = tf.where(is_replaced, shown_ids, random_ids)
        share = settings.replace_prob + settings.random_prob
        is_replaced = replace_uniform < share
    writes = weights * tf.cast(is_replaced, tf.float32)
    input_ids, _ = scatter_update(original_ids, shown_ids, positions, writes)
    chosen_ids = gather_positions(original_ids, positions)
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
    """Gathers `[B, P, ...]` entries of `[B, S, ...]` at `[B, P]` positions."""
    return operations.look_up_in_rows(sequence, positions)


def scatter_update(
    sequence: tf.Tensor,
    updates: tf.Tensor,
    positions: tf.Tensor,
    weights: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Writes `[B, P]` ids at their positions in `[B, S]`, except position 0.

    Several ids for one position are replaced by their mean, rounded down, as
    in the original. Slots of weight 0 write nothing.

    Returns:
        The new ids, and 1 where an id was written; `[B, S]` int32 each.
    """
    is_writing = positions > 0
    if weights is not None:
        is_writing &= weights > 0
    writes = tf.cast(is_writing, tf.int32)
    # Integers, since sums of floats depend on a GPU's order of additions.
    totals = sum_by_position(updates * writes, positions, sequence)
    counts = sum_by_position(writes, positions, sequence)
    is_written = counts > 0
    updated = tf.where(is_written, totals // tf.maximum(counts, 1), sequence)
    return updated, tf.cast(is_written, tf.int32)


def sum_by_position(
    values: tf.Tensor, positions: tf.Tensor, sequence: tf.Tensor
) -> tf.Tensor:
    """Sums `[B, N]` values at their positions in rows of S: `[B, S]`."""
    num_rows, length = sequence.shape
    if num_rows is None:
        num_rows = tf.shape(sequence)[0]
    indices = tf.range(num_rows)[:, tf.newaxis] * length + positions
    sums = tf.math.unsorted_segment_sum(values, indices, num_rows * length)
    return tf.reshape(sums, tf.shape(sequence))
