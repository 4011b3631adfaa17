"""Errors of our arrays against reference arrays, and the table of them."""

import itertools
import math

import numpy as np


class Line:
    """One line of the table: named errors, and the largest that passes.

    A line without errors is a miss, and so is an error that is not a number.
    `measure` makes an error of our and their array: by default the number of
    unequal entries if the tolerance is 0, else `allclose_error`. `skipped`
    says why nothing is compared; the line is then no miss.
    """

    def __init__(self, case, tolerance=0.0, measure=None, skipped=""):
        self.kind = ""  # the folder that it comes from; set by the runner
        self.case = case
        self.tolerance = tolerance
        default = allclose_error if tolerance else count_unequal
        self.measure = measure or default
        self.skipped = skipped
        self.errors = {}

    def add(self, name, error):
        """Notes an error; True counts as 1, not a number as infinity."""
        number = float(error)
        self.errors[name] = math.inf if math.isnan(number) else number

    def compare(self, name, ours, theirs):
        """Notes the error of an array or number."""
        self.add(name, self.measure(ours, theirs))

    def compare_all(self, ours, theirs, prefix=""):
        """Compares arrays by name; one on one side only is a miss."""
        for name in sorted({*ours, *theirs}):
            if name in ours and name in theirs:
                self.compare(prefix + name, ours[name], theirs[name])
            else:
                self.add(f"{prefix}{name} on one side only", math.inf)

    @property
    def largest_error(self):
        return max(self.errors.values(), default=math.inf)

    @property
    def passed(self):
        return bool(self.skipped) or self.largest_error <= self.tolerance

    def cells(self):
        """A row of the table; of a miss with the array that is furthest off."""
        title = f"{self.kind}: {self.case}"
        if self.skipped:
            return title, "-", "-", "-", f"skipped: {self.skipped}"
        if self.errors and not self.passed:
            worst = max(self.errors, key=self.errors.__getitem__)
            title += f" (worst: {worst})"
        return (
            title,
            str(len(self.errors)),
            f"{self.largest_error:.2g}",
            f"{self.tolerance:.2g}",
            "pass" if self.passed else "MISS",
        )


def compare(case, entries, tolerance=0.0, measure=None):
    """A line of entries: name, ours, theirs."""
    line = Line(case, tolerance, measure)
    for entry in entries:
        line.compare(*entry)
    return line


def guard(case, check, *arguments):
    """The lines of a check; whatever goes wrong in it is a miss of its case."""
    try:
        yield from check(*arguments)
    except Exception as error:
        first_line = str(error).strip().split("\n")[0]
        yield Line(f"{case}: {type(error).__name__}: {first_line}")


def format_table(lines):
    """An aligned table in plain text, the heading first."""
    rows = [("what", "cases", "largest error", "tolerance", "verdict")]
    rows += [line.cells() for line in lines]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    style = "{:<{}}  {:>{}}  {:>{}}  {:>{}}  {}"
    return "\n".join(
        style.format(*itertools.chain(*zip(row, widths, strict=True)))
        for row in rows
    )


def count_unequal(ours, theirs):
    left, right = np.asarray(ours), np.asarray(theirs)
    return np.sum(left != right) if left.shape == right.shape else math.inf


def _largest_error(unit):
    """Measures by a unit; other shapes and NaN are infinitely far off."""

    def measure(ours, theirs):
        left, right = np.asarray(ours, float), np.asarray(theirs, float)
        if left.shape != right.shape:
            return math.inf
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.abs(left - right) / unit(np.abs(right))
        # Equal infinities agree.
        errors = np.where(left == right, 0.0, errors)
        largest = float(np.max(errors, initial=0.0))
        return math.inf if math.isnan(largest) else largest

    return measure


# At most t exactly if all entries agree to `atol=t, rtol=t`.
allclose_error = _largest_error(lambda expected: 1 + expected)
absolute_error = _largest_error(np.ones_like)
relative_error = _largest_error(lambda expected: expected)
# As a share of the reference's largest entry.
scaled_error = _largest_error(lambda e: np.max(e, initial=0.0))
