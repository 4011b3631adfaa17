"""The scores of all trials, and of all tasks of a benchmark, as tables.

Seeds alone move RTE by two points, so there are medians, as in the paper. A
trial whose model says the same of everything is marked and counted.
"""

import collections
import dataclasses
import itertools
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import trial as trial_lib
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.processes import atomic
from electra_tf.tasks import catalog
from electra_tf.tasks.sentences import glue

BENCHMARK = "glue"
"""`task.names` that stands for all its tasks; `glue:cola,rte` for two."""
# Marks a trial whose model gives every example the same answer.
_MARK = "*"
# Beyond this share of rows that are cut off, low scores may come from that.
_LARGE_SHARE = 0.1
# Numbers among a task's metrics that are no scores, so not for a table.
_NO_SCORES = ("total", "_thresh")


@dataclasses.dataclass(frozen=True)
class Numbers:
    """One metric over the trials."""

    values: tuple[float, ...]  # of each trial, in order
    # Indices of trials whose model gives every example the same answer.
    degenerate: tuple[int, ...]
    median: float
    mean: float
    spread: float  # standard deviation of a sample; 0 for a single trial
    best: float
    worst: float

    def cells(self) -> list[str]:
        """Formats what a table shows: median, mean, spread and best."""
        return _format([self.median, self.mean, self.spread, self.best])


@dataclasses.dataclass(frozen=True)
class Summary:
    """All scores of a fine-tuning."""

    # Task to split to metric; the deciding metric of a task stands first.
    scores: Mapping[str, Mapping[str, Mapping[str, Numbers]]]
    trials: tuple[trial_lib.TrialResult, ...]
    best_trial: int  # its number
    # Of the best trial, on test data that have labels.
    test: trial_lib.Scores = dataclasses.field(default_factory=dict)
    # False for scores on other data, or by another threshold, than those of
    # the training: they are shown and not written.
    is_kept: bool = True

    def format_table(self) -> str:
        """Formats the scores as a table, one line for each metric."""
        heading = "task split metric median mean sd best trials"
        lines = [heading.split()]
        for task, splits in self.scores.items():
            for split, metrics in splits.items():
                for name, numbers in metrics.items():
                    values = _format(numbers.values)
                    for place in numbers.degenerate:
                        values[place] += _MARK
                    cells = [*numbers.cells(), " ".join(values)]
                    lines.append([task, split, name, *cells])
        text = _align(lines)
        if len(lines) == 1:
            text = "No dev data: nothing was scored."
        text += self.format_test() + self._format_cost()
        if not self.is_kept:
            text += (
                "\nThe trials were trained with other data or thresholds: "
                "their results.json keep the scores of these."
            )
        return text + _explain(text, self.trials)

    def format_test(self) -> str:
        """Formats the scores on test data, if any, and says whose they are."""
        if not self.test:
            return ""
        lines = []
        for task, splits in self.test.items():
            metric = self.trials[0].metrics[task]
            for split, score in splits.items():
                mark = _MARK * score.is_degenerate
                for name in _deciding_first(score, metric):
                    values = _format([score.metrics[name]])
                    lines.append([task, split, name, *values, mark])
        best = f"trial {self.best_trial}"
        if any(self.scores.values()):
            best += ", the best on dev"
        return f"\n\nOn test data, {best}:\n{_align(lines)}"

    def _format_cost(self) -> str:
        """Formats the size of the model, and the operations of a trial."""
        sizes = {trial.num_weights for trial in self.trials} - {0}
        flops = [trial.flops for trial in self.trials if trial.flops]
        if not sizes:
            return ""
        cost = f"\n{max(sizes):,} weights"
        if flops:
            cost += f"; {statistics.fmean(flops):.2g} operations a trial"
        return f"{cost}."


@dataclasses.dataclass(frozen=True)
class Line:
    """A task's line in the table that papers report."""

    title: str  # as it is published
    split: str  # the dev split that decides; the matched one of MNLI
    metric: str  # the one that decides
    majority: float  # its value if all examples got the commonest label
    numbers: Numbers  # the metric over the trials

    def format(self, *more: str) -> list[str]:
        """Formats its cells; `more` stands before the numbers."""
        own, first = self.numbers, (self.title, self.split, self.metric)
        trials = f"{len(own.values)}"
        if own.degenerate:
            trials += f", {len(own.degenerate)} {_MARK}"
        return [*first, *more, *own.cells(), trials]


@dataclasses.dataclass(frozen=True)
class Report:
    """The scores of a benchmark."""

    lines: tuple[Line, ...]  # of the tasks that are done, in their order
    average: float  # the mean of their medians
    missing: tuple[str, ...]  # titles of the benchmark's other tasks

    def format_table(self) -> str:
        """Formats the table of papers, with the scores of guessing."""
        heading = "task split metric majority median mean sd best trials"
        table = [heading.split()]
        table += [line.format(*_format([line.majority])) for line in self.lines]
        table += [["average", *[""] * 3, *_format([self.average]), *[""] * 4]]
        text = f"{_align(table)}\nThe average is that of the medians"
        if self.missing:
            missing = ", ".join(self.missing)
            text += f" without {missing}: not the one that papers report"
        return f"{text}.{_explain(text)}"


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The combinations of a search, the best first."""

    lines: tuple[Line, ...]  # of every task; titles are the folders' names
    best: Summary  # of the first

    def format_table(self) -> str:
        """Formats the table, and warns of the score that chose."""
        heading = "combination split metric median mean sd best trials"
        table = [heading.split(), *(line.format() for line in self.lines)]
        text = (
            f"{_align(table)}\nThe best is {self.lines[0].title}. The score "
            "that chose it flatters it: only test data tell what it is worth."
        )
        return text + self.best.format_test() + _explain(text)


def read_trials(output_dir: pathlib.Path) -> dict[int, trial_lib.TrialResult]:
    """Reads the finished trials of a folder, by number."""
    trials = {}
    for folder in sorted(output_dir.glob("trial_*")):
        number = folder.name.removeprefix("trial_")
        result = trial_lib.read_result(folder)
        if result is not None and number.isdigit():
            trials[int(number)] = result
    if not trials:
        raise FileNotFoundError(
            f"{output_dir} must hold a finished trial. Received: none. Train "
            "one with --do=train."
        )
    return trials


def summarize(
    output_dir: pathlib.Path,
    rescored: Mapping[int, trial_lib.TrialResult] | None = None,
) -> Summary:
    """Summarizes a folder's finished trials; `rescored` replaces some."""
    by_number = read_trials(output_dir) | dict(rescored or {})
    trials = tuple(by_number.values())
    first = trials[0]
    scores = {
        task: {
            split: summarize_split(
                [trial.scores[task][split] for trial in trials],
                first.metrics[task],
            )
            for split in splits
        }
        for task, splits in first.scores.items()
    }
    return Summary(scores, trials, best_trial(by_number), is_kept=not rescored)


def summarize_split(
    scores: Sequence[trial_lib.Score], metric: str
) -> dict[str, Numbers]:
    """Summarizes trials on one split; the metric that decides comes first."""
    degenerate = tuple(i for i, s in enumerate(scores) if s.is_degenerate)
    numbers = {}
    for name in _deciding_first(scores[0], metric):
        values = tuple(score.metrics[name] for score in scores)
        ascending = sorted(scores, key=lambda score: score.merit(name))
        numbers[name] = Numbers(
            values,
            degenerate,
            statistics.median(values),
            statistics.fmean(values),
            spread=statistics.stdev(values) if len(values) > 1 else 0.0,
            best=ascending[-1].metrics[name],
            worst=ascending[0].metrics[name],
        )
    return numbers


def _deciding_first(score: trial_lib.Score, metric: str) -> list[str]:
    names = [n for n in score.metrics if not n.endswith(_NO_SCORES)]
    return sorted(names, key=lambda name: name != metric)


def best_trial(trials: Mapping[int, trial_lib.TrialResult]) -> int:
    """Returns the number of the trial with the best deciding score."""
    return max(trials, key=lambda number: trials[number].merit)


def find_trial(folder: pathlib.Path, task: str = "") -> pathlib.Path | None:
    """Finds the best trial in a folder; None if it holds no trial.

    It is the trial with the best dev score of a fine-tuning, of a search's best
    combination, or of a benchmark's task `task`.
    """
    # Looks for a file, which fails early in a folder without permission.
    if (folder / trial_lib.CONFIG_FILE).is_file():
        return folder if own_run.is_trial(folder) else None
    trial = f"trial_*/{trial_lib.CONFIG_FILE}"
    if any(folder.glob(trial)):
        return folder / f"trial_{best_trial(read_trials(folder)):02d}"
    content = portable.peek(folder / trial_lib.RESULT_FILE)
    if {"best", "lines"} <= content.keys():
        return find_trial(folder / content["lines"][0]["title"])
    # A benchmark, of which each task may have been searched.
    paths = [*folder.glob(f"*/{trial}"), *folder.glob(f"*/*/{trial}")]
    if names := sorted({path.relative_to(folder).parts[0] for path in paths}):
        return find_trial(folder / choose_task(folder, names, task))
    return None


def choose_task(folder: pathlib.Path, names: Sequence[str], name: str) -> str:
    """Returns the name, or that of the only task; raises `ValueError`."""
    if not name and len(names) == 1:
        return names[0]
    if name not in names:
        received = repr(name) if name else "no task"
        raise ValueError(
            f"{folder} was trained on {', '.join(names)}; a model of one of "
            f"them is wanted. Received: {received}. Give task={names[0]!r} in "
            f"Python, --task={names[0]} on a command line, for example."
        )
    return name


def benchmark_tasks(names: str) -> tuple[str, ...]:
    """Lists tasks to be learned one by one; empty if they are one model's."""
    name, colon, some = names.replace(" ", "").partition(":")
    if name != BENCHMARK:
        return ()
    chosen: tuple[str, ...] = glue.BENCHMARK
    if colon:
        chosen = tuple(catalog.ALIASES.get(n, n) for n in some.split(","))
    schema.require(
        set(chosen) <= set(glue.BENCHMARK) and len(set(chosen)) == len(chosen),
        f"`task.names={BENCHMARK}:TASK,TASK` must list different tasks out of "
        f"{', '.join(glue.BENCHMARK)}. Received: {names!r}. Other tasks are "
        "run by themselves (papers leave WNLI out; MNLI's model predicts AX).",
    )
    return chosen


def line_of(name: str, data_dir: str, summary: Summary) -> Line:
    """Returns what papers report of a task; reads its dev split."""
    spec = glue.TASKS[name]
    split, metrics = next(iter(summary.scores[name].items()))
    metric, numbers = next(iter(metrics.items()))
    majority = 0.0  # The correlations of anything with a constant.
    if metric == "accuracy":
        examples = glue.read_split(spec, data_dir, split)
        counts = collections.Counter(e.label for e in examples)
        majority = 100 * max(counts.values()) / counts.total()
    return Line(spec.title, split, metric, majority, numbers)


def build_report(lines: Sequence[Line]) -> Report:
    """Builds the report of the tasks that are done."""
    titles = {glue.TASKS[name].title: None for name in glue.BENCHMARK}
    for line in lines:
        titles.pop(line.title)
    average = statistics.fmean(line.numbers.median for line in lines)
    return Report(tuple(lines), average, tuple(titles))


def rank(done: Mapping[str, Summary]) -> Ranking:
    """Ranks combinations by the median of what decides between trials."""

    def merit(name: str) -> float:
        return statistics.median(trial.merit for trial in done[name].trials)

    names = sorted(done, key=merit, reverse=True)
    lines = []
    for name, task in itertools.product(names, done[names[0]].scores):
        split, metrics = next(iter(done[name].scores[task].items()))
        metric, numbers = next(iter(metrics.items()))
        lines.append(Line(name, f"{task} {split}", metric, 0.0, numbers))
    return Ranking(tuple(lines), done[names[0]])


def write_report(
    output_dir: pathlib.Path,
    content: Summary | Report | Ranking,
    settings: finetuning_config.FinetuningConfig,
) -> None:
    """Writes `results.json`, and `results.txt` with the table."""
    scores = dataclasses.asdict(content)
    for part in (scores, scores.get("best", {})):
        part.pop("is_kept", None)  # true for all written results
    both = {"settings": dataclasses.asdict(settings)} | scores
    atomic.write_text(output_dir / "results.json", schema.to_json(both))
    table = f"{content.format_table()}\n"
    atomic.write_text(output_dir / "results.txt", table)


def _format(values: Sequence[float]) -> list[str]:
    """Formats with two decimals, or four if all are below 1."""
    digits = 4 if 0 < max(map(abs, values)) < 1 else 2
    return [f"{value:.{digits}f}" for value in values]


def _explain(table: str, trials: Sequence[trial_lib.TrialResult] = ()) -> str:
    """Explains the marks of a table, and says what may be behind low scores."""
    note, remedy = "", "Try another seed, a lower rate or a longer warm-up."
    known = [t.num_steps for t in trials if t.num_steps]
    num_steps = min(known, default=trial_lib.FEW_STEPS)
    share_cut = max((trial.share_cut for trial in trials), default=0.0)
    if num_steps < trial_lib.FEW_STEPS:
        remedy = (
            f"{num_steps} steps teach little: raise training.num_train_epochs."
        )
    if share_cut > _LARGE_SHARE:
        remedy = "See the last line."
        note = (
            f"\n{share_cut:.0%} of the training rows lost their end, which the "
            "model has not seen. Raise task.max_seq_length if the "
            "encoder has more positions, or put first what tells the label."
        )
    if _MARK in table:
        return (
            f"\n{_MARK} The model says the same of every example: it learned "
            f"nothing. {remedy}{note}"
        )
    return note


def _align(lines: Sequence[Sequence[str]]) -> str:
    """Formats a table of text with aligned columns."""
    columns = []
    for place, column in enumerate(zip(*lines, strict=True)):
        side = "<" if place < 3 or place == len(lines[0]) - 1 else ">"
        width = max(map(len, column))
        columns.append([f"{cell:{side}{width}}" for cell in column])
    rows = zip(*columns, strict=True)
    return "\n".join("  ".join(row).rstrip() for row in rows)
