"""What a comparison with reference numbers says, and the table of it."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """One line of the report: a set of numbers compared with its reference.

    Attributes:
        kind: part of the reference data, the name of its folder.
        case: what was compared within it.
        num_cases: how many things were compared (lines, arrays, steps).
        largest_error: the worst of them, in the unit of the tolerance.
        tolerance: the largest error that passes; 0 asks for equality.
        skipped_reason: why nothing was compared, or None.
    """

    kind: str
    case: str
    num_cases: int
    largest_error: float
    tolerance: float
    skipped_reason: str | None = None

    @classmethod
    def skipped(cls, kind: str, case: str, reason: str) -> "CheckResult":
        """A line that says what was not compared, and why."""
        return cls(kind, case, 0, 0.0, 0.0, reason)

    @property
    def passed(self) -> bool:
        """False if something was compared and missed; NaN is a miss."""
        if self.skipped_reason is not None:
            return True
        return self.num_cases > 0 and self.largest_error <= self.tolerance


def format_table(results: Sequence[CheckResult]) -> str:
    """An aligned plain-text table: what, cases, largest error, tolerance.

    Args:
        results: lines in the order in which they are printed.

    Returns:
        The lines, joined by newlines, the heading first.
    """
    rows = [("what", "cases", "largest error", "tolerance", "verdict")]
    rows += [_row(result) for result in results]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(
                    cell.rjust(w)
                    for cell, w in zip(row[1:4], widths[1:4], strict=True)
                ),
                row[4],
            ]
        )
        for row in rows
    )


def _row(result: CheckResult) -> tuple[str, str, str, str, str]:
    what = f"{result.kind}: {result.case}"
    if result.skipped_reason is not None:
        return what, "-", "-", "-", f"skipped: {result.skipped_reason}"
    return (
        what,
        str(result.num_cases),
        f"{result.largest_error:.2g}",
        f"{result.tolerance:.2g}",
        "pass" if result.passed else "MISS",
    )
