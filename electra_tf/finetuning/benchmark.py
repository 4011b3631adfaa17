"""GLUE as a whole: every task is learned on its own, one table tells of all.

output_dir/
    TASK/                       a fine-tuning of its own, see `finetune`
    results.json, results.txt   a line for each task, and their average
"""

import collections
import dataclasses
import statistics
from collections.abc import Sequence

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import results
from electra_tf.finetuning import session as session_lib
from electra_tf.tasks import catalog
from electra_tf.tasks.sentences import glue

NAME = "glue"
"""What `task.names` says for all tasks; `glue:cola,rte` are some of them."""


@dataclasses.dataclass(frozen=True)
class Line:
    """What papers report of a task."""

    title: str  # as it is published
    split: str  # the dev split that decides; the matched one of MNLI
    metric: str  # the one that decides
    majority: float  # its value if all examples got the commonest label
    numbers: results.Numbers  # the metric over the trials


@dataclasses.dataclass(frozen=True)
class Report:
    """The scores of a benchmark."""

    lines: tuple[Line, ...]  # of the tasks that are done, in their order
    average: float  # the mean of their medians
    missing: tuple[str, ...]  # titles of the benchmark's other tasks


def build_report(lines: Sequence[Line]) -> Report:
    """Builds the report of the tasks that are done."""
    done = [line.title for line in lines]
    titles = (glue.TASKS[name].title for name in glue.BENCHMARK)
    return Report(
        tuple(lines),
        statistics.fmean(line.numbers.median for line in lines),
        tuple(title for title in titles if title not in done),
    )


def task_names(names: str) -> tuple[str, ...]:
    """Lists the tasks of the catalog that are learned one by one.

    It is empty if `task.names` means tasks that one model learns together.
    """
    name, colon, some = names.replace(" ", "").partition(":")
    if name != NAME:
        return ()
    found: tuple[str, ...] = glue.BENCHMARK
    if colon:
        found = tuple(catalog.ALIASES.get(n, n) for n in some.split(","))
    schema.require(
        set(found) <= set(glue.BENCHMARK) and len(set(found)) == len(found),
        f"`task.names={NAME}:TASK,TASK` must list different tasks out of "
        f"{', '.join(glue.BENCHMARK)}. Received: {names!r}. Other tasks are "
        "run by themselves (papers leave WNLI out, and AX is predicted by the "
        "model of MNLI).",
    )
    return found


def require_ready(request: session_lib.Request, names: Sequence[str]) -> None:
    """Looks at what would stop the run after hours, before it begins."""
    schema.require(
        not request.splits,
        f"The tasks of {NAME} have splits of their own. Received: --splits="
        f"{','.join(request.splits)}. Leave it out: all there are is "
        "predicted.",
    )
    schema.require(
        request.settings.training.strategy != "multi_worker",
        f"{NAME} as a whole runs on one host. Received: strategy=multi_worker."
        " Run its tasks one by one, or choose another "
        "--config.training.strategy.",
    )
    data_dir = request.settings.task.data_dir
    missing = {}
    for name in names:
        found = _find_missing(name, data_dir, request.actions)
        if found:
            missing[name] = f"{glue.TASKS[name].title} ({', '.join(found)})"
    present = ",".join(name for name in names if name not in missing)
    if missing:
        remedy = "Add them, or name the folder with --config.task.data_dir."
        if present:
            remedy = (
                "Add them, or run the tasks that are there: "
                f"--config.task.names={NAME}:{present}"
            )
        raise FileNotFoundError(
            f"Expected the official files of each task in {data_dir}. "
            f"Received: none of {', '.join(missing.values())}. {remedy}"
        )


def _find_missing(
    name: str, data_dir: str, actions: Sequence[str]
) -> list[str]:
    """Lists the splits without a file, of those that will be read."""
    spec = glue.TASKS[name]
    splits = ["train"] if "train" in actions else []
    if splits or "eval" in actions:
        splits += spec.dev_splits
    missing = []
    for split in splits:
        try:
            glue.require(spec, data_dir, split)
        except FileNotFoundError:
            missing.append(split)
    return missing


def request_of(request: session_lib.Request, name: str) -> session_lib.Request:
    """Returns what is asked for of one task, in a folder of its own."""
    task = dataclasses.replace(request.settings.task, names=name)
    return dataclasses.replace(
        request,
        settings=dataclasses.replace(request.settings, task=task),
        output_dir=request.output_dir / name,
    )


def line_of(
    name: str,
    settings: finetuning_config.FinetuningConfig,
    summary: results.Summary,
) -> Line:
    """Returns what papers report of a task; its dev split is read."""
    spec = glue.TASKS[name]
    split, metrics = next(iter(summary.scores[name].items()))
    metric, numbers = next(iter(metrics.items()))
    majority = 0.0  # The correlations of anything with a constant.
    if metric == "accuracy":
        examples = glue.read(spec, settings.task.data_dir, split)
        counts = collections.Counter(e.label for e in examples)
        majority = 100 * max(counts.values()) / counts.total()
    return Line(spec.title, split, metric, majority, numbers)


def format_table(report: Report) -> str:
    """Formats the table of papers, with spread and what guessing reaches."""
    heading = "task split metric majority median mean sd best trials"
    table = [heading.split()]
    for line in report.lines:
        trials = f"{len(line.numbers.values)}"
        if line.numbers.degenerate:
            trials += f", {len(line.numbers.degenerate)} {results.MARK}"
        numbers = [
            *results.format_values([line.majority]),
            *results.cells(line.numbers),
        ]
        table.append([line.title, line.split, line.metric, *numbers, trials])
    [average] = results.format_values([report.average])
    table.append(["average", "", "", "", average, "", "", "", ""])
    text = results.align(table)
    text += "\nThe average is that of the medians"
    if report.missing:
        text += (
            f" without {', '.join(report.missing)}: not the one that papers "
            "report"
        )
    return f"{text}.{results.explain_marks(text)}"
