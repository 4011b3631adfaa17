"""Masking: counts and rules exactly, our own draws statistically.

For the statistics every row is masked in as many batches as the reference
was, and deviations are in standard errors. Notation: K batches, B rows, S
positions, P slots; C candidates, n positions to choose, r the share of slots
that become [MASK].
"""

import math
import re
import types

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from tests.golden import comparison
from tests.golden import loading

_STANDARD_ERRORS = 4.0
_SEED = 1
# Counts of less variance are too far from normal to be judged one by one.
_MIN_VARIANCE = 10.0


def list_cases(folder):
    yield "counts", _check_counts, folder
    yield "recorded draws", _check_recorded_draws, folder
    yield "own draws", _check_without_replacement, folder
    yield "original's draws", _check_with_replacement, folder


def _load(folder):
    """Rows, the draws that were recorded, and what our rules say of them."""
    vocabulary = loading.load_vocabulary(folder)
    statistics = loading.read_json(folder / "statistics.json")
    sample = loading.read_arrays(folder / "sample.npz")
    special_ids = (vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id)
    lengths = sample["input_mask"].sum(axis=1)
    rows = (tf.constant(sample[name]) for name in ("input_ids", "input_mask"))
    eligible = masking.eligible_positions(*rows, special_ids).numpy()
    slots = sample["masked_lm_positions"].shape[-1]
    num = masking.num_predictions(
        tf.constant(lengths), statistics["mask_prob"], slots
    )
    return types.SimpleNamespace(
        statistics=statistics,
        sample=sample,
        special_ids=special_ids,
        lengths=lengths,
        eligible=eligible,  # [B, S], candidates
        candidates=eligible.sum(1),  # [B], C
        num=num.numpy(),  # [B], n
        rate=statistics["replace_probability"],  # r
    )


def _check_counts(folder):
    """How many tokens are masked, for every length of several settings."""
    line = comparison.Line("predictions by length")
    tables = loading.read_json(folder / "statistics.json")["predictions_table"]
    for name, table in tables.items():
        match = re.fullmatch(r"mask_prob_(.+)_max_seq_length_(\d+)", name)
        mask_prob, length = float(match[1]), int(match[2])
        slots = masking.max_predictions_per_seq(mask_prob, length)
        expected = table["predictions_for_length_1_to_max"]
        lengths = tf.range(1, len(expected) + 1)
        ours = masking.num_predictions(lengths, mask_prob, slots)
        line.compare(f"{name}, N", slots, table["max_predictions_per_seq"])
        line.compare(name, ours, expected)
    yield line


def _check_recorded_draws(folder):
    """Our rules applied to the original's own draws."""
    recorded = _load(folder)
    sample, rows = recorded.sample, recorded.statistics["rows"]
    positions, ids = sample["masked_lm_positions"], sample["input_ids"]
    is_used = np.arange(positions.shape[-1]) < recorded.num[:, np.newaxis]
    is_used = np.broadcast_to(is_used, positions.shape)
    is_chosen = _count_slots(positions, is_used, ids.shape[-1]) > 0
    masked_ids = sample["masked_input_ids"]
    is_mask = masked_ids == recorded.special_ids[2]
    drawn = ids[np.arange(len(ids))[:, np.newaxis], positions] * is_used
    forbidden = np.sum(is_chosen & ~recorded.eligible)
    otherwise = np.sum((masked_ids != ids) & ~(is_chosen & is_mask))
    entries = (
        ("masked_lm_weights", is_used, sample["masked_lm_weights"]),
        ("masked_lm_ids", drawn, sample["masked_lm_ids"]),
        ("length", recorded.lengths, [row["length"] for row in rows]),
        ("candidates", recorded.candidates, [r["candidates"] for r in rows]),
        ("predictions", recorded.num, [row["predictions"] for row in rows]),
        ("forbidden positions", forbidden, 0),
        ("changed otherwise", otherwise, 0),
    )
    yield comparison.compare("rules on recorded draws", entries)


def _check_without_replacement(folder):
    """Our way: n different candidates, all equally likely, r of them [MASK]."""
    title, recorded = "without replacement", _load(folder)
    counts, is_changed = _draw(recorded, masking.draw_positions)
    is_chosen = counts > 0
    chosen = np.minimum(recorded.num, recorded.candidates)
    entries = (
        ("forbidden", is_chosen & ~recorded.eligible, False),
        ("repeated", counts > 1, False),
        ("another number", is_chosen.sum(axis=2), chosen),
    )
    yield comparison.compare(f"{title}, positions", entries, measure=_count)
    # Of C candidates n are left out or chosen together: the counts of single
    # positions vary less, and depend on each other.
    share = chosen / np.maximum(recorded.candidates, 1)
    yield _check_uniformity(title, recorded, counts, share)
    trials = is_chosen.sum(axis=(0, 2))
    changed = (is_changed & is_chosen).sum(axis=(0, 2))
    title = f"{title}, share of [MASK]"
    yield _compare_binomial(title, changed, trials, recorded.rate)


def _check_with_replacement(folder):
    """The original's way, against its expectations and its own statistics."""
    title, recorded = "with replacement", _load(folder)
    draw_fn = masking.draw_positions_with_replacement
    counts, is_changed = _draw(recorded, draw_fn)
    entries = (
        ("forbidden", (counts > 0) & ~recorded.eligible, False),
        ("another number", counts.sum(axis=2), recorded.num),
    )
    yield comparison.compare(f"{title}, positions", entries, measure=_count)
    no_share = np.zeros(len(recorded.num))
    yield _check_uniformity(title, recorded, counts, no_share)
    yield _check_occupancy(title, recorded, counts > 0, "distinct", 1.0)
    yield _check_occupancy(
        title, recorded, is_changed, "changed", recorded.rate
    )
    # A position in k slots keeps its token with probability (1 - r) ** k.
    multiplicities = np.arange(1, int(counts.max()) + 1)
    trials = np.array([np.sum(counts == k) for k in multiplicities])
    kept = [np.sum((counts == k) & ~is_changed) for k in multiplicities]
    title = f"{title}, [MASK] by multiplicity"
    share = (1 - recorded.rate) ** multiplicities
    yield _compare_binomial(title, kept, trials, share)


def _count(ours, theirs):
    """Unequal entries of an array and what is expected everywhere."""
    return np.sum(ours != theirs)


def _draw(recorded, draw_fn):
    """Masks the rows with random numbers of our own."""
    statistics, sample = recorded.statistics, recorded.sample
    batches, (rows, length) = statistics["batches"], recorded.eligible.shape
    inputs = {
        name: tf.tile(tf.constant(sample[name]), [batches, 1])
        for name in ("input_ids", "input_mask")
    }
    slots = sample["masked_lm_positions"].shape[-1]
    masked = masking.mask_inputs(
        inputs | {"segment_ids": tf.zeros_like(inputs["input_ids"])},
        tf.random.stateless_uniform([batches * rows, length], [_SEED, 0]),
        tf.random.stateless_uniform([batches * rows, slots], [_SEED, 1]),
        config.MaskingConfig(
            mask_prob=statistics["mask_prob"], replace_prob=recorded.rate
        ),
        recorded.special_ids,
        draw_fn,
    )
    slots = masked.masked_positions.numpy(), masked.masked_weights.numpy()
    is_changed = (masked.input_ids != masked.original_ids).numpy()
    shape = (batches, rows, length)
    counts = _count_slots(*slots, length).reshape(shape)
    return counts, is_changed.reshape(shape)


def _count_slots(positions, is_used, length):
    """In how many used slots each position stands, `[..., P]` to `[..., S]`."""
    flat = positions.reshape(-1, positions.shape[-1])
    rows = np.arange(len(flat))[:, np.newaxis]
    counts = np.zeros([len(flat), length], np.int64)
    np.add.at(counts, (rows, flat), is_used.reshape(flat.shape).astype(int))
    return counts.reshape(*positions.shape[:-1], length)


def _check_uniformity(title, recorded, counts, share):
    """Chi-square of the counts `[K, B, S]` of each candidate, over all rows.

    `share` `[B]` is n / C when drawn without replacement, else 0: then a
    count's variance is that of a Poisson count, times 1 - n / C.
    """
    total, freedom = 0.0, 0
    for row, eligible in enumerate(recorded.eligible):
        draws = counts[:, row].sum(axis=0)[eligible]
        if len(draws) < 2 or share[row] == 1.0:
            continue
        square = np.sum((draws - draws.mean()) ** 2) / draws.mean()
        if share[row] > 0:
            square *= (len(draws) - 1) / len(draws) / (1 - share[row])
        total += square
        freedom += len(draws) - 1
    line = comparison.Line(f"{title}, uniformity", _STANDARD_ERRORS)
    if freedom:
        # As a z-score, by Wilson and Hilferty.
        variance = 2 / (9 * freedom)
        root = (total / freedom) ** (1 / 3)
        line.add("chi-square", abs(root - 1 + variance) / math.sqrt(variance))
    return line


def _check_occupancy(title, recorded, is_hit, what, rate):
    """Mean number of positions hit by n draws, each of which counts with r.

    A position escapes all draws with probability `(1 - r / C) ** n`, two of
    them with `(1 - 2 r / C) ** n`; mean and variance follow. Compared with
    both the expectation and the reference's mean.
    """
    batches, means = len(is_hit), is_hit.sum(axis=2).mean(axis=0)
    count = np.maximum(recorded.candidates, 1).astype(float)
    escape = (1 - rate / count) ** recorded.num
    both = np.maximum(1 - 2 * rate / count, 0) ** recorded.num
    expected, left = count * (1 - escape), count * escape
    variance = count * (count - 1) * both + left - left**2
    theirs = [row[f"mean_{what}"] for row in recorded.statistics["rows"]]
    return _compare_counts(
        f"{title}, {what} positions",
        np.concatenate([means - expected, means - theirs]) * batches,
        np.concatenate([variance, 2 * variance]) * batches,
    )


def _compare_binomial(title, counts, trials, probability):
    variances = trials * probability * (1 - probability)
    return _compare_counts(title, counts - trials * probability, variances)


def _compare_counts(title, deviations, variances):
    """Deviations of counts, those of small variance taken together."""
    line = comparison.Line(title, _STANDARD_ERRORS)
    is_large = variances >= _MIN_VARIANCE
    errors = np.abs(deviations[is_large]) / np.sqrt(variances[is_large])
    for number, error in enumerate(errors):
        line.add(f"number {number} of large variance", error)
    variance = variances[~is_large].sum()
    deviation = abs(deviations[~is_large].sum())
    if variance > 0:
        line.add("the others together", deviation / math.sqrt(variance))
    elif deviation > 1e-6:
        line.add("certain counts", math.inf)
    return line
