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

from electra_tf import finetuning_config
from electra_tf.finetuning import trial_dir
from electra_tf.records import atomic

_MARK = "*"


@dataclasses.dataclass(frozen=True)
class Numbers:
    """One metric over the trials.

    Attributes:
        values: of each trial, in order.
        degenerate: the places in `values` of trials that say the same of
            everything.
        median, mean, best, worst: of the values.
        spread: standard deviation of a sample; 0 for a single trial.
    """

    values: tuple[float, ...]
    degenerate: tuple[int, ...]
    median: float
    mean: float
    spread: float
    best: float
    worst: float

    @classmethod
    def of(
        cls, values: Sequence[float], degenerate: Sequence[int] = ()
    ) -> "Numbers":
        """The summary of some values."""
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        return cls(
            tuple(values),
            tuple(degenerate),
            statistics.median(values),
            statistics.fmean(values),
            spread,
            max(values),
            min(values),
        )


@dataclasses.dataclass(frozen=True)
class Summary:
    """All scores of a fine-tuning.

    Attributes:
        scores: task to split to metric to numbers; the deciding metric of a
            task stands first.
        trials: what came of each.
    """

    scores: Mapping[str, Mapping[str, Mapping[str, Numbers]]]
    trials: tuple[trial_dir.TrialResult, ...]


def read_trials(
    output_dir: pathlib.Path,
) -> dict[int, trial_dir.TrialResult]:
    """The finished trials of a folder, by number.

    Raises:
        FileNotFoundError: if there is none.
    """
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
    """The scores of the finished trials of a folder.

    Raises:
        FileNotFoundError: if there is none.
    """
    trials = tuple(read_trials(output_dir).values())
    scores: dict[str, Any] = {}
    for task, splits in trials[0].scores.items():
        scores[task] = {}
        for split, score in splits.items():
            own = [trial.scores[task][split] for trial in trials]
            degenerate = [i for i, s in enumerate(own) if s.is_degenerate]
            names = sorted(
                score.metrics, key=lambda name: name != trials[0].metrics[task]
            )
            scores[task][split] = {
                name: Numbers.of([s.metrics[name] for s in own], degenerate)
                for name in names
            }
    return Summary(scores, trials)


def best_trial(output_dir: pathlib.Path) -> int:
    """The number of the trial with the highest deciding score.

    Of several tasks the mean decides, of several splits the first; without
    any dev data the first trial is taken.
    """

    def deciding(trial: trial_dir.TrialResult) -> float:
        scores = [
            next(iter(splits.values())).metrics[trial.metrics[task]]
            for task, splits in trial.scores.items()
            if splits
        ]
        return statistics.fmean(scores) if scores else 0.0

    trials = read_trials(output_dir)
    return max(trials, key=lambda number: deciding(trials[number]))


def write(
    output_dir: pathlib.Path,
    summary: Summary,
    settings: finetuning_config.FinetuningConfig,
) -> None:
    """Writes `results.json`, and `results.txt` with the table."""
    content = {
        "settings": dataclasses.asdict(settings),
        **dataclasses.asdict(summary),
    }
    trial_dir.write_json(output_dir / "results.json", content)
    with atomic.replacing_file(output_dir / "results.txt") as partial:
        partial.write_text(format_table(summary) + "\n", "utf-8")


def format_table(summary: Summary) -> str:
    """The scores as an aligned table, one line for each metric."""
    heading = ("task", "split", "metric", "median", "mean", "sd", "best",
               "trials")  # fmt: skip
    lines: list[tuple[str, ...]] = [heading]
    has_degenerate = False
    for task, splits in summary.scores.items():
        for split, metrics in splits.items():
            for name, numbers in metrics.items():
                has_degenerate |= bool(numbers.degenerate)
                lines.append((task, split, name, *_cells(numbers)))
    widths = [max(len(line[i]) for line in lines) for i in range(7)]
    aligns = ("<", "<", "<", ">", ">", ">", ">")
    text = "\n".join(
        "  ".join(
            [
                *(
                    f"{cell:{align}{width}}"
                    for cell, align, width in zip(
                        line, aligns, widths, strict=False
                    )
                ),
                line[7],
            ]
        )
        for line in lines
    )
    if has_degenerate:
        text += (
            f"\n{_MARK} The model says the same of every example: it learned "
            "nothing. Try another seed, a lower rate or a longer warm-up."
        )
    return text


def _cells(numbers: Numbers) -> tuple[str, ...]:
    trials = " ".join(
        f"{value:.2f}{_MARK if place in numbers.degenerate else ''}"
        for place, value in enumerate(numbers.values)
    )
    summary = (numbers.median, numbers.mean, numbers.spread, numbers.best)
    return (*(f"{value:.2f}" for value in summary), trials)
