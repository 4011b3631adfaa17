"""How often masking chooses what, against theory and the reference."""

import collections
import itertools

import numpy as np
import scipy.stats
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.inputs import randomness


def _uniform(seed, shape):
    seeds = tf.cast(tf.convert_to_tensor(seed), tf.int64)[tf.newaxis]
    return randomness.uniform_by_stream(seeds, shape)


# Beyond the vocabulary of the reference's rows, to tell random tokens by.
_RANDOM_FROM = 40_000


def _repeated_draws(
    golden,
    num_batches=200,
    draw_fn=masking.draw_positions,
    replace_prob=0.85,
    random_prob=0.0,
):
    """Masks the reference's input rows many times with our own numbers.

    Returns the `[batches, rows, ...]` results of one large call.
    """
    sample = np.load(golden / "masking" / "sample.npz")
    input_ids, input_mask = sample["input_ids"], sample["input_mask"]
    num_rows, length = input_ids.shape
    inputs = {
        "input_ids": tf.tile(input_ids, [num_batches, 1]),
        "input_mask": tf.tile(input_mask, [num_batches, 1]),
        "segment_ids": tf.zeros([num_batches * num_rows, length], tf.int32),
    }
    slots = sample["masked_lm_positions"].shape[-1]
    count = num_batches * num_rows
    random_ids = tf.fill([count, slots], _RANDOM_FROM) if random_prob else None
    masked = masking.mask_inputs(
        inputs,
        _uniform([1, 0], (count, length)),
        _uniform([2, 0], (count, slots)),
        special_ids=(101, 102, 103),
        mask_id=103,
        mask_prob=0.15,
        replace_prob=replace_prob,
        draw_fn=draw_fn,
        random_prob=random_prob,
        random_ids=random_ids,
    )
    fields = {
        name: value.numpy().reshape(num_batches, num_rows, -1)
        for name, value in masked._asdict().items()
    }
    return sample, fields


def test_random_tokens_are_uniform_over_what_is_not_special():
    uniform = _uniform([5, 6], (300, 200))
    random_ids = masking.random_tokens(uniform, 103, (0, 1, 100, 101, 102))
    counts = np.bincount(random_ids.numpy().ravel(), minlength=103)
    assert not counts[[0, 1, 100, 101, 102]].any()
    assert scipy.stats.chisquare(counts[2:100]).pvalue > 1e-3


def test_bert_shows_80_percent_mask_10_percent_random_10_percent_original(
    golden,
):
    _, fields = _repeated_draws(
        golden, num_batches=100, replace_prob=0.8, random_prob=0.1
    )
    batch, row, slot = np.nonzero(fields["masked_weights"])
    chosen = fields["masked_positions"][batch, row, slot]
    shown = fields["input_ids"][batch, row, chosen]
    is_original = shown == fields["original_ids"][batch, row, chosen]
    is_random = shown >= _RANDOM_FROM
    observed = [(shown == 103).sum(), is_random.sum(), is_original.sum()]
    assert sum(observed) == len(shown)
    expected = np.array([0.8, 0.1, 0.1]) * len(shown)
    assert scipy.stats.chisquare(observed, expected).pvalue > 1e-3


def test_all_subsets_of_candidates_are_equally_likely():
    num_rows = 6000
    eligible = tf.tile([[False, True, True, True, True, True]], [num_rows, 1])
    uniform = _uniform([3, 4], (num_rows, 6))
    positions, _ = masking.draw_positions(
        eligible, tf.fill([num_rows], 2), uniform, 2
    )
    counts = collections.Counter(map(tuple, positions.numpy().tolist()))
    ordered_pairs = list(itertools.permutations(range(1, 6), 2))
    assert set(counts) == set(ordered_pairs)
    observed = [counts[pair] for pair in ordered_pairs]
    assert scipy.stats.chisquare(observed).pvalue > 1e-3
