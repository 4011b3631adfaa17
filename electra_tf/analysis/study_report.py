"""What a study found: results.json, table.md and study.png.

Rewritten after every finished run, so that a study in progress can be read.
Spread is the sample standard deviation over seeds.
"""

import math
import pathlib
import re
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from electra_tf.analysis import studies
from electra_tf.analysis import study_picture
from electra_tf.analysis import study_plan
from electra_tf.analysis import study_run
from electra_tf.records import atomic

AVERAGE = "average"
# Endings of names of measures whose larger, or smaller, values are better;
# others, such as the share of replaced tokens, are not judged.
_LARGER_IS_BETTER = (
    *("accuracy", "auc", "precision", "recall", "f1"),
    *("_probe", "_finetune", "blimp"),
)
_SMALLER_IS_BETTER = ("_loss",)
_NOT_JUDGED = ("unigram_accuracy", "kept_accuracy", "mlm_kept_accuracy")


class RunRow(NamedTuple):
    """A finished run.

    Attributes:
        arm: name of the planned arm.
        seed: of the run.
        result: what it found.
    """

    arm: str
    seed: int
    result: study_run.RunResult


class Summary(NamedTuple):
    """One measure of one arm over its seeds.

    Attributes:
        mean: over the runs.
        spread: sample standard deviation; None for one run.
        num_runs: runs that have the measure.
    """

    mean: float
    spread: float | None
    num_runs: int


def summarize(values: Sequence[float]) -> Summary:
    """Mean, sample standard deviation and number of at least one value.

    Example:
        >>> summarize([1.0, 2.0, 3.0])
        Summary(mean=2.0, spread=1.0, num_runs=3)
    """
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Summary(statistics.fmean(values), spread, len(values))


def task_scores(result: study_run.RunResult) -> dict[str, float]:
    """The scores of a run's tasks, and before them their average."""
    scores = dict(result.tasks)
    if len(scores) > 1:
        return {AVERAGE: statistics.fmean(scores.values()), **scores}
    return scores


def write_report(
    output_dir: pathlib.Path,
    plan: study_plan.Plan,
    rows: Sequence[RunRow],
    failed: Sequence[str] = (),
    has_tasks: bool = True,
) -> None:
    """Writes the three files.

    Args:
        output_dir: where.
        plan: what was planned; gives the order of the rows.
        rows: the runs that have finished.
        failed: a line about every run that failed.
        has_tasks: whether tasks are measured at all.
    """
    study_run.write_json(
        output_dir / "results.json", _to_json(plan, rows, failed)
    )
    with atomic.replacing_file(output_dir / "table.md") as partial:
        partial.write_text(
            format_tables(plan, rows, failed, has_tasks), "utf-8"
        )
    if rows:
        scores = [task_scores(row.result) for row in rows]
        if not any(scores):
            scores = [
                {
                    name: value
                    for name, value in row.result.held_out.items()
                    if is_larger_better(name) is not None
                }
                for row in rows
            ]
        points = [
            study_picture.Point(row.arm, own)
            for row, own in zip(rows, scores, strict=True)
        ]
        study_picture.draw(output_dir / "study.png", plan, points)


def _to_json(
    plan: study_plan.Plan, rows: Sequence[RunRow], failed: Sequence[str]
) -> dict[str, object]:
    arms = {arm.name: arm for arm in plan.arms}
    return {
        "study": plan.study.name,
        "question": plan.study.question,
        "budget": plan.study.budget,
        "reference_arm": plan.study.reference_arm,
        "num_planned_runs": plan.num_runs,
        "failed": list(failed),
        "guessing": _guessing([row.result for row in rows]),
        "runs": [
            {
                "name": row.arm,
                "arm": arms[row.arm].arm,
                "budget_fraction": arms[row.arm].fraction,
                "seed": row.seed,
                "steps": arms[row.arm].num_steps,
                "warmup_steps": arms[row.arm].num_warmup_steps,
                "flops": arms[row.arm].flops,
                "held_out": dict(row.result.held_out),
                "tasks": dict(row.result.tasks),
                "training_seconds": round(row.result.training_seconds, 3),
                "measuring_seconds": round(row.result.measuring_seconds, 1),
            }
            for row in rows
        ],
    }


def format_tables(
    plan: study_plan.Plan,
    rows: Sequence[RunRow],
    failed: Sequence[str] = (),
    has_tasks: bool = True,
) -> str:
    """The tables as Markdown; arguments as of `write_report`."""
    study = plan.study
    cost = "the same training FLOPs (exact count)"
    if study.budget == "steps":
        cost = "the same number of steps"
    lines = [
        f"# {study.name}",
        "",
        study.question,
        "",
        f"Every arm had {cost} as `{study.reference_arm}`, and a schedule of "
        "its own; warm-up is the same share of the steps everywhere. "
        f"{len(rows)} of {plan.num_runs} runs have finished.",
        "",
    ]
    lines += [f"FAILED: {text}\n" for text in failed]
    lines += ["## Arms", "", *_arms_table(plan, rows), ""]
    by_arm = _by_arm(plan, rows)
    lines += ["## Tasks", "", *_tasks_section(plan, by_arm, has_tasks), ""]
    held_out = {
        arm.name: [run.held_out for run in by_arm[arm.name]]
        for arm in plan.arms
        if arm.is_trained
    }
    lines += [
        "## Held-out text",
        "",
        *_measures_table(plan, held_out),
        "",
        "Losses and accuracies of different objectives, generators or masking "
        "rates answer different questions; compare them between arms that "
        "share these.",
        "",
        "Cells: mean ± sample standard deviation over seeds (number of runs). "
        "**Bold**: best mean"
        + (" at that budget." if len(study.budget_fractions) > 1 else "."),
    ]
    return "\n".join(lines) + "\n"


def _tasks_section(
    plan: study_plan.Plan,
    by_arm: Mapping[str, Sequence[study_run.RunResult]],
    has_tasks: bool,
) -> list[str]:
    if not plan.study.tasks:
        return ["Not measured: no tasks."]
    if not has_tasks:
        return ["Not measured: no --tasks_dir was given."]
    scores = {
        name: [task_scores(run) for run in runs]
        for name, runs in by_arm.items()
    }
    guessing = _guessing([run for runs in by_arm.values() for run in runs])
    lines = _measures_table(plan, scores, guessing)
    lines += ["", f"`{AVERAGE}` is the mean of a run's other columns."]
    if not all(arm.is_trained for arm in plan.arms):
        lines[-1] += (
            f" `{studies.UNTRAINED}` is the model of "
            f"`{plan.study.reference_arm}` with random weights. Guessing is "
            "to say the commonest label of the training data everywhere, and "
            "between two sentences to go by how frequent their tokens are."
        )
    if studies.BLIMP in plan.study.tasks:
        lines[-1] += (
            f" `{studies.BLIMP}` is the share of minimal pairs whose "
            "acceptable sentence the model finds likelier; chance is 0.5."
        )
    return lines


def _guessing(results: Sequence[study_run.RunResult]) -> dict[str, float]:
    """Task to score; every run of the untrained arm found the same."""
    return {
        task: score for run in results for task, score in run.guessing.items()
    }


def _by_arm(
    plan: study_plan.Plan, rows: Sequence[RunRow]
) -> dict[str, list[study_run.RunResult]]:
    return {
        arm.name: [row.result for row in rows if row.arm == arm.name]
        for arm in plan.arms
    }


def _arms_table(plan: study_plan.Plan, rows: Sequence[RunRow]) -> list[str]:
    by_arm = _by_arm(plan, rows)
    cells = []
    for arm in plan.arms:
        seconds = [run.seconds for run in by_arm[arm.name]]
        minutes = f"{statistics.fmean(seconds) / 60:.1f}" if seconds else "–"
        cells.append(
            [
                f"`{arm.name}`",
                f"{arm.num_steps:,}",
                f"{arm.num_warmup_steps:,}",
                f"{arm.flops:.4e}",
                str(len(seconds)),
                minutes,
            ]
        )
    header = ["arm", "steps", "warm-up", "FLOPs", "n", "minutes a run"]
    return _markdown(header, cells)


def _measures_table(
    plan: study_plan.Plan,
    measured: Mapping[str, Sequence[Mapping[str, float]]],
    guessing: Mapping[str, float] | None = None,
) -> list[str]:
    """One row per arm, one column per measure.

    Args:
        plan: order and budgets of the arms.
        measured: arm to the measures of each of its runs; arms that are not
            there get no row.
        guessing: task to score, for a last row.
    """
    names = list(
        dict.fromkeys(
            name for runs in measured.values() for run in runs for name in run
        )
    )
    if not names:
        return ["No run has finished."]
    summaries = {
        (arm, name): summarize(values)
        for arm, runs in measured.items()
        for name in names
        if (values := [run[name] for run in runs if name in run])
    }
    cells = []
    for arm in plan.arms:
        if arm.name not in measured:
            continue
        row = [f"`{arm.name}`"]
        rivals = [a.name for a in plan.arms if a.fraction == arm.fraction]
        for name in names:
            own = summaries.get((arm.name, name))
            means = [
                summaries[rival, name].mean
                for rival in rivals
                if (rival, name) in summaries
            ]
            row.append(_cell(name, own, means))
        cells.append(row)
    if guessing:
        cells.append(_guessing_cells(names, guessing))
    return _markdown(["arm", *names], cells)


def _guessing_cells(
    names: Sequence[str], guessing: Mapping[str, float]
) -> list[str]:
    """The row of who reads nothing: probe and fine-tune know no difference."""
    found = {
        name: guessing[task]
        for name in names
        if (task := re.sub("_(probe|finetune)$", "", name)) in guessing
    }
    if AVERAGE in names:
        found[AVERAGE] = statistics.fmean(found.values())
    return [
        "guessing",
        *(format_number(found[n]) if n in found else "–" for n in names),
    ]


def _cell(name: str, own: Summary | None, means: Sequence[float]) -> str:
    if own is None:
        return "–"
    text = format_number(own.mean)
    larger = is_larger_better(name)
    if larger is not None and len(set(means)) > 1:
        best = max(means) if larger else min(means)
        text = f"**{text}**" if own.mean == best else text
    spread = ""
    if own.spread is not None:
        # As many decimals as the mean has.
        decimals = len(format_number(own.mean).partition(".")[2])
        spread = f" ± {own.spread:,.{decimals}f}"
        if "e" in format_number(own.mean):
            spread = f" ± {own.spread:.0e}"
    return f"{text}{spread} ({own.num_runs})"


def is_larger_better(name: str) -> bool | None:
    """Whether a larger value of a measure is better; None: not judged.

    The total `loss` is not judged: its parts and weights differ by objective.
    Nor is what the corpus gives away, or what [MASK] does not hide.

    Example:
        >>> is_larger_better("cola_probe"), is_larger_better("gen_loss")
        (True, False)
        >>> is_larger_better("replaced_fraction") is None
        True
    """
    if name in _NOT_JUDGED:
        return None
    if name.endswith(_SMALLER_IS_BETTER):
        return False
    is_score = name == AVERAGE or name.endswith(_LARGER_IS_BETTER)
    return True if is_score else None


def format_number(value: float) -> str:
    """Three decimals, fewer for large numbers, an exponent for tiny ones."""
    if value == 0 or 0.001 <= abs(value) < 100:
        return f"{value:.3f}"
    if abs(value) < 0.001:
        return f"{value:.0e}"
    digits = max(0, 4 - math.floor(math.log10(abs(value))) - 1)
    return f"{value:,.{digits}f}"


def _markdown(
    header: Sequence[str], cells: Sequence[Sequence[str]]
) -> list[str]:
    return [
        "| " + " | ".join(row) + " |"
        for row in (
            header,
            ["---"] + ["---:"] * (len(header) - 1),
            *cells,
        )
    ]
