"""Writes results.json, table.md, study.png and curves.png of a study.

They are rewritten after every run, so that a study can be followed. Spreads are
sample standard deviations over seeds.
"""

import math
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from electra_tf import figures
from electra_tf.config import schema
from electra_tf.processes import atomic
from electra_tf.studies import definition
from electra_tf.studies import study_run
from electra_tf.studies.definition import StudyPlan

AVERAGE = "average"
_NOTHING = "–"
# Suffixes of measures of which larger values are better.
_LARGER_IS_BETTER = (
    *("accuracy", "auc", "precision", "recall", "f1"),
    *("_probe", "_finetune", "blimp"),
)
_NOT_JUDGED = ("unigram_accuracy", "kept_accuracy", "mlm_kept_accuracy")
_REPORT = """\
# {study.name}

{study.question}

Every arm had the same {cost} as `{study.reference_arm}`, and its own \
schedule; warm-up is the same share of the steps in every arm. {num_results} \
of {num_runs} runs have finished.

{failed}## Arms

{arms}

## Tasks

{tasks}

## Held-out text

{held_out}

Losses and accuracies of different objectives, generators or masking rates \
answer different questions; compare them between arms that share these.

Cells: mean ± sample standard deviation over seeds (number of runs), and the \
median of three runs or more. \
**Bold**: best mean{budget}.
"""
_MAX_PANELS = 9
_MAX_COLUMNS = 3
_NUM_COLORS = 10
_ACCURACIES = ("masked_accuracy", "mlm_accuracy")
# Title, names of the metric (a run has one of them), and unigram baseline.
_CURVES = (
    ("loss at [MASK]", ("masked_loss", "mlm_masked_loss"), "unigram_entropy"),
    ("accuracy at [MASK]", _ACCURACIES, "unigram_accuracy"),
    ("discriminator AUC", ("disc_auc",), ""),
)

# The finished runs.
Results = Sequence[tuple[study_run.RunRequest, study_run.RunResult]]


def write(
    output_dir: pathlib.Path,
    plan: StudyPlan,
    requests: Sequence[study_run.RunRequest],
    failures: Sequence[object] = (),
) -> None:
    """Writes the four files from the folders of the runs."""
    results = [
        (request, result)
        for request in requests
        if (result := study_run.read_result(request.folder)) is not None
    ]
    failed = [str(failure) for failure in failures]
    has_tasks = any(request.asked.tasks for request in requests)
    numbers = schema.to_json(_to_json(plan, results, failed))
    atomic.write_text(output_dir / "results.json", numbers)
    table = format_tables(plan, results, failed, has_tasks)
    atomic.write_text(output_dir / "table.md", table)
    measures = _task_frame(results)
    if measures.empty:
        held_out = _frame(results, "held_out")
        judged = [n for n in held_out if is_larger_better(n) is not None]
        measures = held_out[judged]
    if not measures.empty:
        draw_measures(output_dir / "study.png", plan, measures)
    runs: dict[str, list[pathlib.Path]] = {}
    for request in requests:
        if request.asked.is_trained:
            runs.setdefault(request.arm.name, []).append(request.folder)
    draw_curves(output_dir / "curves.png", runs)


def _to_json(
    plan: StudyPlan, results: Results, failed: Sequence[str]
) -> dict[str, object]:
    return {
        "study": plan.study.name,
        "question": plan.study.question,
        "budget": plan.study.budget,
        "reference_arm": plan.study.reference_arm,
        "num_planned_runs": plan.num_runs,
        "failed": list(failed),
        "guessing": _guessing(results),
        "runs": [
            {
                "name": request.arm.name,
                "arm": request.arm.arm,
                "budget_fraction": request.arm.fraction,
                "seed": request.seed,
                "steps": request.arm.num_steps,
                "warmup_steps": request.arm.num_warmup_steps,
                "flops": request.arm.flops,
                "held_out": result.held_out,
                "tasks": result.tasks,
                "training_seconds": round(result.training_seconds, 3),
                "measuring_seconds": round(result.measuring_seconds, 1),
            }
            for request, result in results
        ],
    }


def _guessing(results: Results) -> dict[str, float]:
    return {k: v for _, run in results for k, v in run.guessing.items()}


def _frame(results: Results, field: str) -> pd.DataFrame:
    """Builds a table with a row for each run and a column for each measure."""
    rows = [getattr(result, field) for _, result in results]
    return pd.DataFrame(rows, [request.arm.name for request, _ in results])


def _task_frame(results: Results) -> pd.DataFrame:
    """Builds the table of task scores; several tasks get an average first."""
    scores = _frame(results, "tasks")
    if len(scores.columns) > 1:
        scores.insert(0, AVERAGE, scores.mean(axis=1))
    return scores


def format_tables(
    plan: StudyPlan,
    results: Results,
    failed: Sequence[str] = (),
    has_tasks: bool = True,
) -> str:
    """Formats the tables of arms, tasks and held-out text as Markdown."""
    study = plan.study
    trained = [arm for arm in plan.arms if arm.is_trained]
    return _REPORT.format(
        study=study,
        cost=study.cost.replace("FLOPs", "training FLOPs (exact count)"),
        num_results=len(results),
        num_runs=plan.num_runs,
        failed="".join(f"FAILED: {text}\n\n" for text in failed),
        arms=_arms_table(plan, results),
        tasks=_tasks_section(plan, results, has_tasks),
        held_out=_measures_table(trained, _frame(results, "held_out")),
        budget=" at that budget" if len(study.budget_fractions) > 1 else "",
    )


def _arms_table(plan: StudyPlan, results: Results) -> str:
    rows = []
    for arm in plan.arms:
        own = [run.seconds for request, run in results if request.arm == arm]
        steps = f"{arm.num_steps:,}", f"{arm.num_warmup_steps:,}"
        minutes = f"{sum(own) / len(own) / 60:.1f}" if own else _NOTHING
        cost = f"{arm.flops:.4e}", f"{arm.num_weights / 1e6:.2f}"
        runs = f"{len(own)}", minutes
        rows.append((f"`{arm.name}`", *steps, *cost, *runs))
    header = ("arm", "steps", "warm-up", "FLOPs", "M weights", "n")
    return markdown((*header, "minutes a run"), rows)


def _tasks_section(plan: StudyPlan, results: Results, has_tasks: bool) -> str:
    if not (plan.study.tasks and has_tasks):
        why = "no --tasks_dir was given" if plan.study.tasks else "no tasks"
        return f"Not measured: {why}."
    notes = f"`{AVERAGE}` is the mean of a run's other columns."
    if any(arm.name == definition.UNTRAINED for arm in plan.arms):
        notes += (
            f" `{definition.UNTRAINED}` is the model of "
            f"`{plan.study.reference_arm}` with random weights. Guessing "
            "predicts the most frequent label of the training data, and "
            "prefers the sentence with the more frequent tokens."
        )
    if definition.BLIMP in plan.study.tasks:
        notes += (
            f" `{definition.BLIMP}` is the share of minimal pairs whose "
            "acceptable sentence is likelier for the model; chance is 0.5."
        )
    table = _measures_table(plan.arms, _task_frame(results), _guessing(results))
    return f"{table}\n\n{notes}"


def _measures_table(
    arms: Sequence[definition.PlannedArm],
    measured: pd.DataFrame,
    guessing: Mapping[str, float] | None = None,
) -> str:
    if measured.columns.empty:
        return "No run has finished."
    names = [arm.name for arm in arms]
    groups = measured.groupby(level=0)
    means, spreads = groups.mean().reindex(names), groups.std().reindex(names)
    counts = groups.count().reindex(names, fill_value=0)
    medians = groups.median().reindex(names)
    columns = [[f"`{name}`" for name in names]]
    for measure in measured:
        tables = means, spreads, counts, medians
        numbers = [table[measure] for table in tables]
        is_best = _find_best(measure, means[measure], arms)
        columns.append(list(map(format_cell, *numbers, is_best)))
    rows = list(zip(*columns, strict=True))
    if guessing:  # the same baseline for probe and fine-tuning
        tasks = [re.sub("_(probe|finetune)$", "", name) for name in measured]
        baseline = pd.Series(guessing).reindex(tasks)
        baseline = baseline.where(baseline.index != AVERAGE, baseline.mean())
        rows.append(("guessing", *map(format_cell, baseline)))
    return markdown(["arm", *measured], rows)


def _find_best(
    measure: str, means: pd.Series, arms: Sequence[definition.PlannedArm]
) -> pd.Series:
    larger = is_larger_better(measure)
    if larger is None:
        return pd.Series(False, means.index)
    rivals = means.groupby([arm.fraction for arm in arms])
    best = rivals.transform("max" if larger else "min")
    return (means == best) & (rivals.transform("nunique") > 1)


def format_cell(
    mean: float,
    spread: float = 0.0,
    count: int = 0,
    median: float = 0.0,
    is_best: bool = False,
) -> str:
    """Formats a mean over `count` runs, with their spread and median.

    Large numbers have fewer decimals, tiny ones an exponent; the best is bold.
    """
    if math.isnan(mean):
        return _NOTHING
    size = abs(mean)
    style = ".3f" if size < 100 else ".1f" if size < 1000 else ",.0f"
    if 0 < size < 0.001:
        style = ".0e"
    cell = f"**{mean:{style}}**" if is_best else f"{mean:{style}}"
    if count > 1:
        cell += f" ± {spread:{style}}"
    more = f", median {median:{style}}" * (count > 2)
    return f"{cell} ({count}){more}" if count else cell


def is_larger_better(name: str) -> bool | None:
    """Returns whether larger values of a measure are better; None: undecided.

    The total `loss` has other terms in each objective, so it is undecided.
    """
    if name in _NOT_JUDGED:
        return None
    if name.endswith("_loss"):
        return False
    return name == AVERAGE or name.endswith(_LARGER_IS_BETTER) or None


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Formats a Markdown table; the first column is aligned left."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def draw_measures(
    path: pathlib.Path, plan: StudyPlan, measures: pd.DataFrame
) -> None:
    """Draws a panel for each measure: by arm, or over FLOPs if these vary."""
    names = list(measures)[:_MAX_PANELS]
    columns = min(_MAX_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    has_budgets = len(plan.study.budget_fractions) > 1
    height = 3.2 if has_budgets else 1.3 + 0.42 * len(plan.arms)
    draw_panel = _draw_over_flops if has_budgets else _draw_arms
    size = (2.0 + 3.9 * columns, 0.9 + height * rows)
    with figures.saving_figure(
        path, rows, columns, size, sharey=not has_budgets
    ) as (figure, axes):
        for axis, name in zip(axes, names, strict=False):
            # Scores need no hint: more is better.
            hint = " (less is better)" if name.endswith("_loss") else ""
            axis.set_title(f"{name}{hint}", fontsize=10)
            draw_panel(axis, plan, measures[name].dropna())
        for axis in axes[len(names) :]:
            axis.set_visible(False)
        figure.suptitle(
            f"{plan.study.name}: {plan.study.question}\n"
            f"equal {plan.study.cost}; {len(measures)} of {plan.num_runs} "
            "runs; circles: seeds, diamonds: means, bars: standard deviation",
            fontsize=11,
        )
        figure.tight_layout()


def _draw_arms(axis: Any, plan: StudyPlan, values: pd.Series) -> None:
    names = [arm.name for arm in plan.arms]
    arms = values.groupby(level=0)
    means, spreads = arms.mean(), arms.std().fillna(0.0)
    rows = means.index.map(names.index)
    axis.plot(values, values.index.map(names.index), "o", alpha=0.4)
    style = {"fmt": "D", "color": "C0", "capsize": 4, "zorder": 3}
    axis.errorbar(means, rows, xerr=spreads, **style)
    place = {"xytext": (0, 8), "textcoords": "offset points"}
    for mean, row in zip(means, rows, strict=True):
        text = f"{mean:.3f}"
        axis.annotate(text, (mean, row), **place, ha="center", fontsize=8)
    axis.set_yticks(range(len(names)), names, fontsize=9)
    # `invert_yaxis` on two shared axes would invert them twice.
    axis.set_ylim(len(names) - 0.5, -0.7)
    axis.margins(x=0.15)
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(alpha=0.3)


def _draw_over_flops(axis: Any, plan: StudyPlan, values: pd.Series) -> None:
    for index, arm in enumerate(plan.study.arms):
        flops = {own.name: own.flops for own in plan.arms if own.arm == arm}
        points = values[values.index.isin([*flops])].rename(index=flops)
        if points.empty:
            continue
        color, budgets = f"C{index % _NUM_COLORS}", points.groupby(level=0)
        means, spreads = budgets.mean(), budgets.std().fillna(0.0)
        axis.plot(points, "o", color=color, alpha=0.4)
        style = {"fmt": "D-", "color": color, "capsize": 4, "label": arm}
        axis.errorbar(means.index, means, yerr=spreads, **style)
    untrained = values[values.index == definition.UNTRAINED]
    if not untrained.empty:
        style = {"color": "gray", "ls": ":", "label": definition.UNTRAINED}
        axis.axhline(untrained.mean(), **style)
    axis.set_xscale("log")
    axis.set_xlabel("training FLOPs", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.tick_params(axis="x", which="minor", labelsize=7)
    axis.grid(alpha=0.3, which="both")
    if not values.empty:
        axis.legend(fontsize=8)


def draw_curves(
    path: pathlib.Path, runs: Mapping[str, Sequence[pathlib.Path]]
) -> None:
    """Draws curves of held-out measures, as means over an arm's runs.

    Dashed lines show the unigram baselines. `runs` holds the folders of each
    arm. Without any held-out measure, nothing is drawn.
    """
    metrics = pd.DataFrame(
        {"arm": arm, **line}
        for arm, folders in runs.items()
        for folder in folders
        for line in study_run.read_metrics(folder)
        if line["split"] == "validation"
    )
    if metrics.empty:
        return
    with figures.saving_figure(path, 1, 3, (17, 5)) as (figure, axes):
        for axis, (title, names, baseline) in zip(axes, _CURVES, strict=True):
            means = average_curves(metrics, names).reindex(columns=[*runs])
            for number, arm in enumerate(runs):
                # An arm without the metric keeps its color and legend entry.
                style = "o-" if number < _NUM_COLORS else "s--"
                color = f"C{number % _NUM_COLORS}"
                curve = means[arm].dropna()
                axis.plot(curve, style, color=color, ms=3, label=arm)
            if baseline in metrics:
                for value in metrics[baseline].dropna().unique():
                    axis.axhline(value, ls="--", color="gray", label="unigram")
            axis.set(title=title, xlabel="step")
            axis.grid(alpha=0.3)
        handles = axes[0].get_legend_handles_labels()
        figure.legend(*handles, fontsize=8, loc="center right")
        figure.tight_layout(rect=(0, 0, 0.87, 1))


def average_curves(metrics: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Averages a metric over runs: a row for each step, a column for each arm.

    Each run has the metric under one of `names`.
    """
    values = metrics.reindex(columns=[*names]).bfill(axis=1).iloc[:, 0]
    means = values.groupby([metrics["step"], metrics["arm"]]).mean()
    return means.unstack("arm")
