"""The table that a run prints: one line per log, one column per metric.

          step/total      left    loss    gen masked   disc   auc    grad
    train 1000/9000    2:13:05  37.174  3.919  0.029 0.6651 0.508   39.62
    valid 1000/9000    2:13:05  36.902  3.871  0.031 0.6592 0.513

The heading comes again every so many lines. In a terminal, columns that it
has no room for are left out, the least important first; `metrics.jsonl` has
all of them.
"""

import dataclasses
import shutil
import sys
from collections.abc import Iterable
from collections.abc import Mapping

from electra_tf.processes import progress

_LINES_PER_HEADING = 20
_LABELS = {"train": "train", "validation": "valid"}


@dataclasses.dataclass(frozen=True)
class Column:
    """One metric of the table.

    Attributes:
        name: of the metric.
        label: heading.
        width: of the widest usual number.
        style: how the number is formatted, as in an f-string.
        rank: from 1, the most important; the last ones are left out first.
        factor: the number is multiplied by it.
    """

    name: str
    label: str
    width: int
    style: str
    rank: int
    factor: float = 1.0


COLUMNS = (
    Column("loss", "loss", 7, ".3f", 1),
    Column("score", "score", 6, ".2f", 2),
    Column("mlm_loss", "mlm", 6, ".3f", 3),
    Column("mlm_masked_loss", "maskloss", 8, ".3f", 7),
    Column("mlm_accuracy", "mlmacc", 6, ".3f", 5),
    Column("mlm_kept_accuracy", "kept", 5, ".3f", 15),
    Column("restored_accuracy", "restored", 8, ".3f", 5),
    Column("all_loss", "all", 6, ".3f", 3),
    Column("gen_loss", "gen", 6, ".3f", 3),
    Column("masked_loss", "maskloss", 8, ".3f", 7),
    Column("masked_accuracy", "masked", 6, ".3f", 5),
    Column("kept_accuracy", "kept", 5, ".3f", 15),
    Column("sampled_accuracy", "sampled", 7, ".3f", 11),
    Column("disc_loss", "disc", 6, ".4f", 4),
    Column("disc_accuracy", "acc", 5, ".3f", 9),
    Column("majority_share", "major", 5, ".3f", 9),
    Column("disc_precision", "prec", 5, ".3f", 13),
    Column("disc_recall", "rec", 5, ".3f", 14),
    Column("disc_auc", "auc", 5, ".3f", 6),
    Column("replaced_fraction", "fake", 5, ".3f", 12),
    Column("generator_entropy", "entropy", 7, ".3f", 10),
    Column("reward", "reward", 6, ".3f", 10),
    Column("gradient_norm", "grad", 7, ".2f", 7),
    Column("learning_rate", "lr", 8, ".2e", 8),
    Column("loss_scale", "scale", 7, ".0f", 16),
    Column("skipped_steps", "skipped", 7, ".0f", 15),
    Column("tokens_per_second", "tok/s", 9, ",.0f", 2),
    Column("rows_per_second", "rows/s", 7, ",.1f", 2),
    Column("share_of_peak", "% peak", 6, ".1f", 10, 100.0),
)
"""In the order in which they are printed."""


class Table:
    """Formats a run's metrics as lines of equal columns.

    Args:
        total_steps: last step, for the width of the first column.
        names: metrics that the run reports; others get no column.
        num_characters: room in a line; None takes all columns.
    """

    def __init__(
        self,
        total_steps: int,
        names: set[str],
        num_characters: int | None = None,
    ) -> None:
        self.names = frozenset(names)
        self._total = str(total_steps)
        self._num_lines = 0
        # Split, step/total, time left.
        used = 6 + 2 * len(self._total) + 1 + 10
        known = [column for column in COLUMNS if column.name in names]
        kept = set()
        for column in sorted(known, key=lambda column: column.rank):
            used += column.width + 1
            if num_characters is not None and used > num_characters:
                break
            kept.add(column.name)
        self._columns = [column for column in known if column.name in kept]

    def heading(self) -> str:
        """The line of labels."""
        step = "step/total".rjust(2 * len(self._total) + 7)
        labels = "".join(f" {c.label:>{c.width}}" for c in self._columns)
        return f"{step} {'left':>9}{labels}"

    def lines(
        self,
        split: str,
        step: int,
        seconds_left: float | None,
        metrics: Mapping[str, float],
    ) -> list[str]:
        """The line of some metrics; before it the heading where it is due.

        Args:
            split: `train` or `validation`.
            step: updates made so far.
            seconds_left: to the end of the run; None if not known.
            metrics: name to number; a column without one stays blank.
        """
        numbers = "".join(
            _format(c, metrics.get(c.name)) for c in self._columns
        )
        line = (
            f"{_LABELS[split]} {step:>{len(self._total)}}/{self._total} "
            f"{progress.format_time(seconds_left):>9}{numbers}"
        ).rstrip()
        is_due = self._num_lines % _LINES_PER_HEADING == 0
        self._num_lines += 1
        return [self.heading(), line] if is_due else [line]


def names_with_column(names: Iterable[str]) -> set[str]:
    """Those of some metrics that the table has a column for."""
    return {column.name for column in COLUMNS}.intersection(names)


def _format(column: Column, number: float | None) -> str:
    if number is None:
        return " " * (column.width + 1)
    text = f"{column.factor * number:{column.style}}"
    if len(text) > column.width:
        text = f"{column.factor * number:.1e}"
    return f" {text:>{column.width}}"


def terminal_width() -> int | None:
    """Characters in a line of the terminal; None where there is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
