"""Reports a run's metrics: a table, JSON lines, TensorBoard, and a picture.

A line of `metrics.jsonl` holds `step`, `split` (`train` or `validation`) and
the metrics. Speeds stand apart, under `timing`: all else is the same whether a
run was killed and resumed or not.
"""

import contextlib
import itertools
import json
import math
import pathlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf
from absl import logging

from electra_tf import figures
from electra_tf import storage
from electra_tf.processes import atomic
from electra_tf.processes import progress

_LINES_PER_HEADING = 20
_LABELS = {"train": "train", "validation": "valid"}


class Column(NamedTuple):
    """One metric of the printed table."""

    name: str
    label: str
    width: int  # of the widest usual number
    style: str  # the format of the number
    rank: int  # from 1, the most important
    factor: float = 1.0  # multiplies the number


# In the order of the printed table.
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
    Column("order_loss", "order", 6, ".3f", 4),
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


class Table:
    """Formats a run's metrics as lines of equal columns.

              step/total      left    loss    gen masked   disc   auc    grad
        train 1000/9000    2:13:05  37.174  3.919  0.029 0.6651 0.508   39.62
        valid 1000/9000    2:13:05  36.902  3.871  0.031 0.6592 0.513

    If a line has no room for all columns, the least important are left out.
    """

    def __init__(
        self, total_steps: int, names: set[str], width: float = math.inf
    ) -> None:
        self.names = names
        self._total = str(total_steps)
        self._num_lines = 0
        # The line begins with split, step/total and the time left.
        room = width - 2 * len(self._total) - 17
        columns = [column for column in COLUMNS if column.name in names]
        by_rank = sorted(columns, key=lambda column: column.rank)
        ends = itertools.accumulate(column.width + 1 for column in by_rank)
        num_kept = sum(end <= room for end in ends)
        self._columns = [c for c in columns if c in by_rank[:num_kept]]

    def lines(
        self,
        split: str,
        step: int,
        seconds_left: float | None,
        metrics: Mapping[str, float],
    ) -> list[str]:
        """Formats metrics as a line, and every 20 lines a heading before it."""
        total, left = self._total, progress.format_time(seconds_left)
        heading = f"{'step/total':>{2 * len(total) + 7}} {'left':>9}"
        line = f"{_LABELS[split]} {step:>{len(total)}}/{total} {left:>9}"
        for column in self._columns:
            text, width = "", column.width
            if (number := metrics.get(column.name)) is not None:
                text = f"{column.factor * number:{column.style}}"
                if len(text) > width:
                    text = f"{column.factor * number:.1e}"
            heading += f" {column.label:>{width}}"
            line += f" {text:>{width}}"
        is_due = self._num_lines % _LINES_PER_HEADING == 0
        self._num_lines += 1
        return [heading] * is_due + [line.rstrip()]


class RunReport(contextlib.AbstractContextManager):
    """Writes a run's metrics; leaving the `with` block flushes them.

    Lines of later steps than `first_step`, which a killed run left, and damaged
    lines are removed.

    Args:
        model_dir: the folder to write to. None, on hosts other than the chief,
            writes and prints nothing.
        first_step: the step of the checkpoint that the run resumes from.
        total_steps: the last step of the run.
        title: the title of the progress bar.
        is_brief: whether to print a line now and then instead of a table.
        work_until: returns the work of the first n steps, for the time left.
        owes_evaluation: also removes held-out metrics of `first_step`.
    """

    def __init__(
        self,
        model_dir: pathlib.Path | None,
        first_step: int,
        total_steps: int,
        title: str = "Training",
        is_brief: bool = False,
        work_until: Callable[[int], float] = float,
        owes_evaluation: bool = False,
    ) -> None:
        self._is_brief, self._work_until = is_brief, work_until
        self._time_left = progress.TimeLeft(work_until(total_steps))
        seconds = 30.0 if is_brief else math.inf
        self._bar = progress.ProgressBar(title, seconds, False, True)
        self._start = time.monotonic()
        self._next_early, self._gap = 0.0, 5.0  # see `advance`
        self._latest: dict[str, float] = {}
        self._table = Table(total_steps, set())
        self._total_steps = total_steps
        self._path: pathlib.Path | None = None
        self._writers: dict[str, tf.summary.SummaryWriter] = {}
        if model_dir is not None:
            self._path = path = model_dir / "metrics.jsonl"
            last = first_step, "train" if owes_evaluation else "validation"
            lines = [
                f"{json.dumps(line)}\n"
                for line in read_lines(path)
                if (line["step"], line["split"]) <= last
            ]
            if path.exists():
                with naming_file(path):
                    atomic.write_text(path, "".join(lines))
            for split in _LABELS:
                folder = model_dir / "tensorboard" / split
                with naming_file(folder):
                    folder.mkdir(parents=True, exist_ok=True)
                    writer = tf.summary.create_file_writer(str(folder))
                self._writers[split] = writer

    def __exit__(self, *exception: object) -> None:
        self._bar.__exit__(*exception)
        for writer in self._writers.values():
            writer.close()

    def begin(self) -> None:
        """Shows the progress bar, on a terminal below the printed lines."""
        if self._path is not None:
            self.say("The first step is being traced ...")
            self._bar.__enter__()

    def advance(self, step: int) -> bool:
        """Shows the progress; returns whether to `print` metrics now.

        Until the first line is logged, metrics are printed after two steps and
        then after more and more seconds.
        """
        if self._path is None:
            return False
        now, total = time.monotonic(), self._total_steps
        left = self._time_left.estimate(self._work_until(step))
        latest = "".join(f", {n} {v:.3f}" for n, v in self._latest.items())
        status = f"{step}/{total}{latest}, {progress.format_time(left)} left"
        self._bar.show(step / total, status)
        if left is None and not self._is_brief:
            self.say(f"The first step took {now - self._start:.1f} s.")
        if left is None or now < self._next_early:
            return False
        self._next_early, self._gap = now + self._gap, 3 * self._gap
        return True

    def write(
        self,
        split: str,
        step: int,
        metrics: Mapping[str, float],
        timing: Mapping[str, float] | None = None,
    ) -> None:
        """Writes and prints a step's metrics and, separately, its speed."""
        if self._path is None:
            return
        line: dict[str, Any] = {"step": step, "split": split, **metrics}
        if timing:
            line["timing"] = dict(timing)
        with naming_file(self._path):
            text = json.dumps(line, allow_nan=False) + "\n"
            storage.append_text(self._path, text)
        values = {**metrics, **(timing or {})}
        with self._writers[split].as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)
        if split == "train":
            self._next_early = math.inf
        self.print(split, step, values)

    def print(self, split: str, step: int, values: Mapping[str, float]) -> None:
        """Prints metrics in the table, unless the report is brief."""
        name = "loss" if split == "train" else "score"
        self._latest |= {n: v for n, v in values.items() if n == name}
        if self._is_brief:
            return
        names = {c.name for c in COLUMNS} & values.keys()
        # Metrics that come later, such as a score, need a new heading.
        if not names <= self._table.names:
            terminal = shutil.get_terminal_size().columns
            width = terminal if sys.stdout.isatty() else math.inf
            names |= self._table.names
            self._table = Table(self._total_steps, names, width)
        left = self._time_left.estimate(self._work_until(step))
        for text in self._table.lines(split, step, left, values):
            self.say(text)

    def say(self, text: str) -> None:
        """Prints a line of text, on the chief alone."""
        if self._path is not None:
            print(text, flush=True)


@contextlib.contextmanager
def naming_file(path: pathlib.Path) -> Iterator[None]:
    """Turns errors of writing into an `OSError` with file and remedy."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        raise OSError(
            f"{path} could not be written: {error}. Checkpoints are "
            "untouched. Free space or repair the disk, then start the same "
            "command again: it goes on from the last checkpoint."
        ) from error


def read_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads the lines of `metrics.jsonl`; leaves out damaged ones."""
    lines: list[dict[str, Any]] = []
    texts = path.read_bytes().split(b"\n") if path.exists() else []
    for number, text in enumerate(texts, 1):
        try:
            line = json.loads(text)
            line["split"], line["step"] = str(line["split"]), int(line["step"])
            lines.append(line)
        except Exception:  # damaged bytes raise nearly every error
            if number < len(texts):  # a kill may leave half of the last line
                logging.warning("%s: line %d is damaged: skipped", path, number)
    return lines


# Horizontal lines in the panels: a metric's value for a unigram model.
_BASELINES = {
    "mlm_masked_loss": "unigram_entropy",
    "mlm_accuracy": "unigram_accuracy",
    "masked_loss": "unigram_entropy",
    "masked_accuracy": "unigram_accuracy",
}


def draw_training_curves(model_dir: pathlib.Path) -> pathlib.Path | None:
    """Draws `training_curves.png`; returns None if there are no metrics."""
    lines = read_lines(model_dir / "metrics.jsonl")
    if not lines:
        return None
    reported = dict.fromkeys(name for line in lines for name in line)
    others = {"step", "split", "timing", *_BASELINES.values()}
    names = [name for name in reported if name not in others]
    num_rows = max(1, -(-len(names) // 4))
    path, size = model_dir / "training_curves.png", (16, 1.2 + 3 * num_rows)
    drawing = figures.saving_figure(path, num_rows, 4, size, sharex=True)
    with drawing as (figure, axes):
        for axis, name in zip(axes, names, strict=False):
            _draw_panel(axis, name, lines)
        for axis in axes[len(names) :]:
            axis.set_visible(False)
        figure.suptitle(f"Training curves, {lines[-1]['step']} steps")
        figure.tight_layout()
    return path


def _draw_panel(axis: Any, name: str, lines: list[dict[str, Any]]) -> None:
    for split, style, label, alpha in (
        ("train", "-", "training", 0.7),
        ("validation", "o--", "held-out", 1.0),
    ):
        points = [n for n in lines if n["split"] == split and name in n]
        if points:
            curve = [n["step"] for n in points], [n[name] for n in points]
            look = {"color": "C0", "alpha": alpha, "markersize": 4}
            axis.plot(*curve, style, label=label, **look)
    baseline = _BASELINES.get(name, "")
    for value in {line[baseline] for line in lines if baseline in line}:
        axis.axhline(value, linestyle="--", color="gray", label="unigram")
    axis.set_title(name)
    axis.set_xlabel("step")
    axis.grid(alpha=0.3)
    if axis.get_lines():
        axis.legend(fontsize=8)
