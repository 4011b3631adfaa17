"""Our random masking against what drawing should give, and against records.

Every row is masked in as many batches as the reference was. Deviations are in
standard errors. Notation: C candidates, n positions to choose, r the share of
slots that become [MASK].
"""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from electra_tf.inputs import masking as masking_lib
from electra_tf.verification import comparison
from electra_tf.verification import masking
from electra_tf.verification.report import CheckResult

STANDARD_ERRORS = 4.0
_SEED = 1
# Counts of less variance are too far from normal to be judged one by one.
_MIN_VARIANCE = 10.0


class Draws(NamedTuple):
    """What masking did to B rows in K batches.

    Attributes:
        counts: `[K, B, S]` integer, in how many slots a position stood.
        is_changed: `[K, B, S]` bool, whether it became [MASK].
    """

    counts: np.ndarray
    is_changed: np.ndarray


def check_without_replacement(folder: Path) -> list[CheckResult]:
    """Our way: n different candidates, all equally likely, r of them [MASK]."""
    recorded = masking.load(folder)
    draws = draw(recorded, masking_lib.draw_positions)
    title = "without replacement"
    is_chosen = draws.counts > 0
    num_chosen = np.minimum(recorded.num, recorded.eligible.sum(axis=1))
    exact = comparison.Comparison(masking.KIND, f"{title}, positions")
    exact.add("forbidden", np.sum(is_chosen & ~recorded.eligible))
    exact.add("repeated", np.sum(draws.counts > 1))
    missing = is_chosen.sum(axis=2) != num_chosen
    exact.add("another number", np.sum(missing))
    # Of C candidates n are left out or chosen together: the counts of single
    # positions vary less, and depend on each other.
    share = num_chosen / np.maximum(recorded.eligible.sum(axis=1), 1)
    lines = [exact.result(), _check_uniformity(title, recorded, draws, share)]
    changed = (draws.is_changed & is_chosen).sum(axis=(0, 2))
    trials = is_chosen.sum(axis=(0, 2))
    rate = recorded.statistics["replace_probability"]
    return [
        *lines,
        _line(
            f"{title}, share of [MASK]",
            changed - trials * rate,
            trials * rate * (1 - rate),
        ),
    ]


def check_with_replacement(folder: Path) -> list[CheckResult]:
    """The original's way, against its expectations and its own statistics."""
    recorded = masking.load(folder)
    draws = draw(recorded, masking_lib.draw_positions_with_replacement)
    title = "with replacement"
    rate = recorded.statistics["replace_probability"]
    is_chosen = draws.counts > 0
    exact = comparison.Comparison(masking.KIND, f"{title}, positions")
    exact.add("forbidden", np.sum(is_chosen & ~recorded.eligible))
    slots = draws.counts.sum(axis=2)
    exact.add("another number", np.sum(slots != recorded.num))
    no_share = np.zeros(len(recorded.num))
    return [
        exact.result(),
        _check_uniformity(title, recorded, draws, no_share),
        _check_occupancy(title, recorded, is_chosen, "distinct", 1.0),
        _check_occupancy(title, recorded, draws.is_changed, "changed", rate),
        _check_multiplicity(title, draws, rate),
    ]


def draw(
    recorded: masking.MaskingReference, draw_fn: masking_lib.DrawFn
) -> Draws:
    """Masks the reference's rows as often as the reference did.

    Args:
        recorded: rows, settings, number of batches.
        draw_fn: how positions are chosen.
    """
    statistics, sample = recorded.statistics, recorded.sample
    batches = statistics["batches"]
    shape = (batches, *recorded.eligible.shape)
    rows, length = batches * shape[1], shape[2]
    inputs = {
        name: tf.tile(tf.constant(sample[name]), [batches, 1])
        for name in ("input_ids", "input_mask")
    }
    inputs["segment_ids"] = tf.zeros_like(inputs["input_ids"])
    masked = masking_lib.mask_inputs(
        inputs,
        tf.random.stateless_uniform([rows, length], [_SEED, 0]),
        tf.random.stateless_uniform([rows, recorded.num_slots], [_SEED, 1]),
        special_ids=recorded.special_ids,
        mask_id=recorded.mask_id,
        mask_prob=statistics["mask_prob"],
        replace_prob=statistics["replace_probability"],
        draw_fn=draw_fn,
    )
    counts = masking.count_slots(
        masked.masked_positions.numpy(), masked.masked_weights.numpy(), length
    )
    is_changed = (masked.input_ids != masked.original_ids).numpy()
    return Draws(counts.reshape(shape), is_changed.reshape(shape))


def _check_uniformity(
    title: str,
    recorded: masking.MaskingReference,
    draws: Draws,
    share: np.ndarray,
) -> CheckResult:
    """Chi-square of the counts of each candidate, over all rows together.

    Args:
        title: of the line.
        recorded: says which positions are candidates.
        draws: what happened.
        share: `[B]`, n / C when drawn without replacement, else 0: then a
            count's variance is that of a Poisson count, times 1 - n / C.
    """
    total, freedom = 0.0, 0
    for row, eligible in enumerate(recorded.eligible):
        counts = draws.counts[:, row].sum(axis=0)[eligible]
        if len(counts) < 2 or share[row] == 1.0:
            continue
        expected = counts.mean()
        square = np.sum((counts - expected) ** 2) / expected
        if share[row] > 0:
            square *= (len(counts) - 1) / len(counts) / (1 - share[row])
        total += square
        freedom += len(counts) - 1
    line = comparison.Comparison(
        masking.KIND, f"{title}, uniformity", STANDARD_ERRORS
    )
    if freedom:
        line.add("chi-square", abs(_normal_of_chi_square(total, freedom)))
    return line.result()


def _normal_of_chi_square(value: float, freedom: int) -> float:
    """The equally unlikely normal deviate (Wilson and Hilferty)."""
    variance = 2 / (9 * freedom)
    return ((value / freedom) ** (1 / 3) - (1 - variance)) / math.sqrt(variance)


def _check_occupancy(
    title: str,
    recorded: masking.MaskingReference,
    is_hit: np.ndarray,
    what: str,
    rate: float,
) -> CheckResult:
    """Mean number of positions hit by n draws, each of which counts with r.

    A position escapes all draws with probability `(1 - r / C) ** n`, two of
    them with `(1 - 2 r / C) ** n`; mean and variance follow. Compared with
    both the expectation and the reference's mean.
    """
    batches = len(is_hit)
    means = is_hit.sum(axis=2).mean(axis=0)
    candidates = np.maximum(recorded.eligible.sum(axis=1), 1).astype(float)
    escape = (1 - rate / candidates) ** recorded.num
    both = np.maximum(1 - 2 * rate / candidates, 0) ** recorded.num
    expected = candidates * (1 - escape)
    variance = (
        candidates * (candidates - 1) * both
        + candidates * escape
        - (candidates * escape) ** 2
    )
    theirs = [row[f"mean_{what}"] for row in recorded.statistics["rows"]]
    differences = np.concatenate([means - expected, means - theirs]) * batches
    variances = np.concatenate([variance, 2 * variance]) * batches
    return _line(f"{title}, {what} positions", differences, variances)


def _check_multiplicity(title: str, draws: Draws, rate: float) -> CheckResult:
    """A position in k slots keeps its token with probability (1 - r) ** k."""
    differences, variances = [], []
    for slots in range(1, int(draws.counts.max()) + 1):
        is_meant = draws.counts == slots
        kept = np.sum(is_meant & ~draws.is_changed)
        probability = (1 - rate) ** slots
        trials = np.sum(is_meant)
        differences.append(kept - trials * probability)
        variances.append(trials * probability * (1 - probability))
    return _line(f"{title}, [MASK] by multiplicity", differences, variances)


def _line(
    title: str, differences: npt.ArrayLike, variances: npt.ArrayLike
) -> CheckResult:
    """Largest deviation of counts, those of small variance taken together."""
    deviations = np.asarray(differences, float)
    spreads = np.asarray(variances, float)
    is_large = spreads >= _MIN_VARIANCE
    errors = np.abs(deviations[is_large]) / np.sqrt(spreads[is_large])
    line = comparison.Comparison(masking.KIND, title, STANDARD_ERRORS)
    for number, error in enumerate(errors):
        line.add(f"number {number} of large variance", error)
    rest = spreads[~is_large].sum()
    difference = abs(deviations[~is_large].sum())
    if rest > 0:
        line.add("the others together", difference / math.sqrt(rest))
    elif difference > 1e-6:
        line.add("certain counts", math.inf)
    return line.result()
