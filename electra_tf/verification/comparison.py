"""How far our arrays are from reference arrays."""

import math
from typing import SupportsFloat

import numpy as np
import numpy.typing as npt

from electra_tf.verification.report import CheckResult


class Comparison:
    """Gathers the errors of named arrays into one line of the report.

    Args:
        kind: part of the reference data.
        case: what is compared within it.
        tolerance: largest error that passes; 0 asks for equality.
    """

    def __init__(self, kind: str, case: str, tolerance: float = 0.0) -> None:
        self.kind = kind
        self.case = case
        self.tolerance = tolerance
        self.errors: dict[str, float] = {}

    def add(self, name: str, error: SupportsFloat) -> None:
        """Notes an error; one that is not a number counts as infinite."""
        number = float(error)
        self.errors[name] = math.inf if math.isnan(number) else number

    def result(self) -> CheckResult:
        """The line; a miss names what is furthest off."""
        worst = max(self.errors, key=self.errors.__getitem__, default="nothing")
        largest = self.errors.get(worst, math.inf)
        case = self.case
        if not largest <= self.tolerance:
            case = f"{case} (worst: {worst})"
        return CheckResult(
            self.kind, case, len(self.errors), largest, self.tolerance
        )


def count_unequal(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> float:
    """Entries that differ; infinite where shapes do."""
    left, right = np.asarray(ours), np.asarray(theirs)
    if left.shape != right.shape:
        return math.inf
    return float(np.sum(left != right))


def compute_error(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> float:
    """Largest `|ours - theirs| / (1 + |theirs|)`.

    At most t exactly if all entries agree to `atol=t, rtol=t`. Equal
    infinities agree.
    """
    difference, expected = _difference(ours, theirs)
    with np.errstate(invalid="ignore"):
        ratio = difference / (1 + np.abs(expected))
    return _largest(np.where(difference == 0, 0.0, ratio))


def compute_relative_error(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> float:
    """Largest `|ours - theirs| / |theirs|`, entry by entry."""
    difference, expected = _difference(ours, theirs)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = difference / np.abs(expected)
    return _largest(np.where(difference == 0, 0.0, ratio))


def compute_scaled_error(ours: npt.ArrayLike, theirs: npt.ArrayLike) -> float:
    """Largest difference as a share of the reference's largest entry."""
    difference, expected = _difference(ours, theirs)
    largest = _largest(difference)
    if largest == 0:
        return 0.0
    scale = _largest(np.abs(expected))
    return largest / scale if scale else math.inf


def _difference(
    ours: npt.ArrayLike, theirs: npt.ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    left = np.asarray(ours, np.float64)
    right = np.asarray(theirs, np.float64)
    if left.shape != right.shape:
        return np.array(math.inf), np.array(1.0)
    with np.errstate(invalid="ignore"):
        difference = np.abs(left - right)
    return np.where(left == right, 0.0, difference), right


def _largest(errors: np.ndarray) -> float:
    if not errors.size:
        return 0.0
    largest = float(np.max(errors))
    return math.inf if math.isnan(largest) else largest
