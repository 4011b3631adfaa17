"""The scores of all trials: median, mean, spread, best, and each of them.

One training says little on small tasks: seeds alone move RTE by two points.
The paper reports medians. A trial whose model says the same of everything is
marked and counted: leaving it out would flatter.
"""

import dataclasses
import pathlib
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import trial_dir
from electra_tf.formats import own_run
from electra_tf.processes import atomic

MARK = "*"
"""Stands beside the scores of a trial that says the same of everything."""


@dataclasses.dataclass(frozen=True)
class Numbers:
    """One metric over the trials."""

    values: tuple[float, ...]  # of each trial, in order
    degenerate: tuple[int, ...]  # which of them say the same of everything
    median: float
    mean: float
    spread: float  # standard deviation of a sample; 0 for a single trial
    best: float
    worst: float


@dataclasses.dataclass(frozen=True)
class Summary:
    """All scores of a fine-tuning."""

    # Task to split to metric; the deciding metric of a task stands first.
    scores: Mapping[str, Mapping[str, Mapping[str, Numbers]]]
    trials: tuple[trial_dir.TrialResult, ...]
    best_trial: int  # its number
    # Task to split: of the best trial, on labelled data that chose nothing.
    test: Mapping[str, Mapping[str, trial_dir.Score]] = dataclasses.field(
        default_factory=dict
    )


def read_trials(
    output_dir: pathlib.Path,
) -> dict[int, trial_dir.TrialResult]:
    """Reads the finished trials of a folder, by number."""
    found = {}
    for folder in sorted(output_dir.glob("trial_*")):
        number = folder.name.removeprefix("trial_")
        result = trial_dir.read_result(folder)
        if result is not None and number.isdigit():
            found[int(number)] = result
    if not found:
        raise FileNotFoundError(
            f"{output_dir} must hold a finished trial. Received: none. Train "
            "one with --do=train."
        )
    return found


def summarize(output_dir: pathlib.Path) -> Summary:
    """Summarizes the scores of the finished trials of a folder."""
    found = read_trials(output_dir)
    trials = tuple(found.values())
    scores = {
        task: {
            split: summarize_split(
                [trial.scores[task][split] for trial in trials],
                trials[0].metrics[task],
            )
            for split in splits
        }
        for task, splits in trials[0].scores.items()
    }
    return Summary(scores, trials, _best_of(found))


def summarize_split(
    scores: Sequence[trial_dir.Score], metric: str
) -> dict[str, Numbers]:
    """Summarizes trials on one split; the metric that decides comes first."""
    degenerate = tuple(i for i, s in enumerate(scores) if s.is_degenerate)
    found = {}
    for name in _deciding_first(scores[0], metric):
        values = tuple(score.metrics[name] for score in scores)
        ascending = sorted(scores, key=lambda score: score.merit(name))
        found[name] = Numbers(
            values,
            degenerate,
            statistics.median(values),
            statistics.fmean(values),
            spread=statistics.stdev(values) if len(values) > 1 else 0.0,
            best=ascending[-1].metrics[name],
            worst=ascending[0].metrics[name],
        )
    return found


def _deciding_first(score: trial_dir.Score, metric: str) -> list[str]:
    return sorted(score.metrics, key=lambda name: name != metric)


def best_trial(output_dir: pathlib.Path) -> int:
    """Returns the number of the trial with the best deciding score."""
    return _best_of(read_trials(output_dir))


def _best_of(trials: Mapping[int, trial_dir.TrialResult]) -> int:
    def merit(number: int) -> float:
        trial = trials[number]
        return trial_dir.mean_merit(trial.scores, trial.metrics)

    return max(trials, key=merit)


def find_trial(folder: pathlib.Path) -> pathlib.Path | None:
    """Finds the trial that a folder means; None if it is no fine-tuning's.

    The output_dir of a fine-tuning means the trial with the best dev score.
    """
    config_file = folder / trial_dir.CONFIG_FILE
    try:
        # Of a file in it: a folder can be seen that may not be looked into.
        has_config = config_file.is_file()
    except OSError as error:
        raise OSError(
            f"A model must lie at a path that can be read. Received: {folder}: "
            f"{error.strerror}. Give another path, or the right to read it."
        ) from error
    if own_run.is_trial(folder):
        return folder
    if has_config or not any(folder.glob("trial_*/" + trial_dir.CONFIG_FILE)):
        return None
    return folder / f"trial_{best_trial(folder):02d}"


def write(
    output_dir: pathlib.Path,
    content: Any,
    table: str,
    settings: finetuning_config.FinetuningConfig,
) -> None:
    """Writes `results.json`, and `results.txt` with the table."""
    both = {
        "settings": dataclasses.asdict(settings),
        **dataclasses.asdict(content),
    }
    for name, text in (
        ("results.json", schema.to_json(both)),
        ("results.txt", f"{table}\n"),
    ):
        with atomic.replacing_file(output_dir / name) as partial:
            partial.write_text(text, "utf-8")


def format_table(summary: Summary) -> str:
    """Formats the scores as a table, one line for each metric."""
    heading = "task split metric median mean sd best trials"
    lines = [heading.split()]
    for task, splits in summary.scores.items():
        for split, metrics in splits.items():
            for name, numbers in metrics.items():
                values = format_values(numbers.values)
                trials = " ".join(
                    value + MARK * (place in numbers.degenerate)
                    for place, value in enumerate(values)
                )
                lines.append([task, split, name, *cells(numbers), trials])
    text = align(lines)
    if summary.test:
        text += f"\n\n{_format_test(summary)}"
    return text + explain_marks(text)


def _format_test(summary: Summary) -> str:
    """Scores on test data, under a line that says whose they are."""
    has_dev = any(summary.scores.values())
    lines = [
        [
            task,
            split,
            name,
            *format_values([score.metrics[name]]),
            MARK * score.is_degenerate,
        ]
        for task, splits in summary.test.items()
        for split, score in splits.items()
        for name in _deciding_first(score, summary.trials[0].metrics[task])
    ]
    return (
        f"On test data, trial {summary.best_trial}"
        f"{', the best on dev' if has_dev else ''}:\n{align(lines)}"
    )


def cells(numbers: Numbers) -> list[str]:
    """Returns what a table shows: median, mean, spread and best."""
    return format_values(
        [numbers.median, numbers.mean, numbers.spread, numbers.best]
    )


def format_values(values: Sequence[float]) -> list[str]:
    """Formats with two decimals; with four if all are below 1, as errors are.

    >>> format_values([67.5, 0.25]), format_values([0.0123])
    (['67.50', '0.25'], ['0.0123'])
    """
    digits = 4 if 0 < max(map(abs, values)) < 1 else 2
    return [f"{value:.{digits}f}" for value in values]


def explain_marks(table: str) -> str:
    """Returns the line below a table in which trials are marked, or none."""
    if MARK not in table:
        return ""
    return (
        f"\n{MARK} The model says the same of every example: it learned "
        "nothing. Try another seed, a lower rate or a longer warm-up."
    )


def align(lines: Sequence[Sequence[str]]) -> str:
    """Writes cells below one another, as a table of text."""
    columns = []
    for place, column in enumerate(zip(*lines, strict=True)):
        side = "<" if place < 3 or place == len(lines[0]) - 1 else ">"
        width = max(map(len, column))
        columns.append([f"{cell:{side}{width}}" for cell in column])
    rows = zip(*columns, strict=True)
    return "\n".join("  ".join(row).rstrip() for row in rows)
