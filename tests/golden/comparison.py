"""Errors of our arrays against reference arrays, and the table of them."""

import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

Measure = Callable[[Any, Any], float]


class Line:
    """One line of the table: named errors, and the largest that passes.

    A line without errors is a miss, and so is an error that is not a number.

    Args:
        case: what is compared.
        tolerance: largest error that passes; 0 asks for equality.
        skipped: why nothing is compared; the line is then no miss.

    Attributes:
        kind: part of the reference data; the runner sets it.
    """

    def __init__(
        self, case: str, tolerance: float = 0.0, skipped: str = ""
    ) -> None:
        self.case = case
        self.tolerance = tolerance
        self.skipped = skipped
        self.kind = ""
        self.errors: dict[str, float] = {}

    def add(self, name: str, error: Any) -> None:
        """Notes an error; True counts as 1, not a number as infinity."""
        number = float(error)
        self.errors[name] = math.inf if math.isnan(number) else number

    def compare(
        self, name: str, ours: Any, theirs: Any, measure: Measure | None = None
    ) -> None:
        """Notes the error of an array.

        Args:
            name: of the array.
            ours: array or number.
            theirs: the reference's.
            measure: None counts unequal entries where the tolerance is 0, and
                else measures as `numpy.allclose` does.
        """
        if measure is None:
            measure = allclose_error if self.tolerance else count_unequal
        self.add(name, measure(ours, theirs))

    def compare_all(
        self,
        ours: Mapping[str, Any],
        theirs: Mapping[str, Any],
        measure: Measure | None = None,
    ) -> None:
        """Notes the error of every array; one on one side only is a miss."""
        for name in sorted({*ours, *theirs}):
            if name in ours and name in theirs:
                self.compare(name, ours[name], theirs[name], measure)
            else:
                self.add(f"{name} on one side only", math.inf)

    @property
    def largest_error(self) -> float:
        """The worst of the errors; infinite where there is none."""
        return max(self.errors.values(), default=math.inf)

    @property
    def passed(self) -> bool:
        """False if something was compared and missed."""
        return bool(self.skipped) or self.largest_error <= self.tolerance

    @property
    def title(self) -> str:
        """Kind and case; of a miss also what is furthest off."""
        title = f"{self.kind}: {self.case}"
        if self.passed or not self.errors:
            return title
        worst = max(self.errors, key=self.errors.__getitem__)
        return f"{title} (worst: {worst})"


def guard(case: str, check: Callable[[], Iterable[Line]]) -> Iterator[Line]:
    """The lines of a check; if it fails, a miss says how.

    Whatever goes wrong in one case is the miss of this case; its message names
    the file, and the other cases still have to be seen.
    """
    try:
        yield from check()
    except Exception as error:
        first_line = str(error).strip().split("\n")[0]
        yield Line(f"{case}: {type(error).__name__}: {first_line}")


def format_table(lines: Sequence[Line]) -> str:
    """An aligned table in plain text, the heading first."""
    rows = [("what", "cases", "largest error", "tolerance", "verdict")]
    for line in lines:
        cells = (
            str(len(line.errors)),
            f"{line.largest_error:.2g}",
            f"{line.tolerance:.2g}",
            "pass" if line.passed else "MISS",
        )
        if line.skipped:
            cells = ("-", "-", "-", f"skipped: {line.skipped}")
        rows.append((line.title, *cells))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(row[i].rjust(widths[i]) for i in (1, 2, 3)),
                row[4],
            ]
        )
        for row in rows
    )


def count_unequal(ours: Any, theirs: Any) -> float:
    """Entries that differ; infinite where shapes do."""
    left, right = np.asarray(ours), np.asarray(theirs)
    if left.shape != right.shape:
        return math.inf
    return float(np.sum(left != right))


def allclose_error(ours: Any, theirs: Any) -> float:
    """Largest `|ours - theirs| / (1 + |theirs|)`.

    At most t exactly if all entries agree to `atol=t, rtol=t`. Equal
    infinities agree.
    """
    difference, expected = _difference(ours, theirs)
    return _largest(difference, 1 + np.abs(expected))


def absolute_error(ours: Any, theirs: Any) -> float:
    """Largest `|ours - theirs|`."""
    difference, _ = _difference(ours, theirs)
    return _largest(difference, 1.0)


def relative_error(ours: Any, theirs: Any) -> float:
    """Largest `|ours - theirs| / |theirs|`, entry by entry."""
    difference, expected = _difference(ours, theirs)
    return _largest(difference, np.abs(expected))


def scaled_error(ours: Any, theirs: Any) -> float:
    """Largest difference as a share of the reference's largest entry."""
    difference, expected = _difference(ours, theirs)
    return _largest(difference, np.max(np.abs(expected), initial=0.0))


def _difference(ours: Any, theirs: Any) -> tuple[np.ndarray, np.ndarray]:
    left = np.asarray(ours, np.float64)
    right = np.asarray(theirs, np.float64)
    if left.shape != right.shape:
        return np.array(math.inf), np.array(1.0)
    with np.errstate(invalid="ignore"):
        difference = np.abs(left - right)
    return np.where(left == right, 0.0, difference), right


def _largest(differences: np.ndarray, unit: Any) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = np.where(differences == 0, 0.0, differences / unit)
    largest = float(np.max(errors, initial=0.0))
    return math.inf if math.isnan(largest) else largest
