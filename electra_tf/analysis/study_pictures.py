"""The pictures of a study: what its arms reach, and how they learn."""

import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import pandas as pd

from electra_tf.analysis import studies
from electra_tf.analysis import study_run
from electra_tf.processes import atomic

_MAX_PANELS = 9
_MAX_COLUMNS = 3
# Of the curves: title, the metric's names (a run has one of them), and its
# unigram baseline.
_LOSSES = ("masked_loss", "mlm_masked_loss")
_ACCURACIES = ("masked_accuracy", "mlm_accuracy")
_CURVES = (
    ("loss at [MASK]", _LOSSES, "unigram_entropy"),
    ("accuracy at [MASK]", _ACCURACIES, "unigram_accuracy"),
    ("discriminator AUC", ("disc_auc",), ""),
)
_NUM_COLORS = 10


def draw_measures(
    path: pathlib.Path, plan: studies.Plan, measures: pd.DataFrame
) -> None:
    """Draws a panel per measure, with a point per run and every arm's mean.

    Studies at one budget show arms one below the other. Studies at several
    budgets show each measure over the FLOPs of training.
    """
    names = list(measures)[:_MAX_PANELS]
    columns = min(_MAX_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    has_budgets = len(plan.study.budget_fractions) > 1
    height = 3.2 if has_budgets else 1.3 + 0.42 * len(plan.arms)
    cost = "FLOPs" if plan.study.budget == "flops" else "steps"
    title = (
        f"{plan.study.name}: {plan.study.question}\n"
        f"equal {cost}; {len(measures)} of {plan.num_runs} runs; circles: "
        "seeds, diamonds: means, bars: standard deviation over seeds"
    )
    size = (2.0 + 3.9 * columns, 0.9 + height * rows)
    with atomic.saving_figure(
        path, rows, columns, size, sharey=not has_budgets
    ) as (figure, axes):
        draw_panel = _draw_over_flops if has_budgets else _draw_arms
        for axis, name in zip(axes, names, strict=False):
            # Scores need no word: more is better.
            hint = " (less is better)" if name.endswith("_loss") else ""
            axis.set_title(f"{name}{hint}", fontsize=10)
            draw_panel(axis, plan, measures[name].dropna())
        for axis in axes[len(names) :]:
            axis.set_visible(False)
        figure.suptitle(title, fontsize=11)
        figure.tight_layout()


def _draw_arms(axis: Any, plan: studies.Plan, values: pd.Series) -> None:
    """One line of points per arm, the study's first arm on top."""
    names = [arm.name for arm in plan.arms]
    for row, name in enumerate(names):
        points = values[values.index == name]
        if points.empty:
            continue
        color, mean = f"C{row % _NUM_COLORS}", points.mean()
        spread = points.std() if len(points) > 1 else 0.0
        axis.plot(points, [row] * len(points), "o", color=color, alpha=0.4)
        style = {"fmt": "D", "color": color, "capsize": 4, "zorder": 3}
        axis.errorbar(mean, row, xerr=spread, **style)
        axis.annotate(
            f"{mean:.3f}",
            (mean, row),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axis.set_yticks(range(len(names)), names, fontsize=9)
    # Calling it twice on shared axes would turn them around again.
    axis.set_ylim(len(names) - 0.5, -0.7)
    axis.margins(x=0.15)
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(alpha=0.3)


def _draw_over_flops(axis: Any, plan: studies.Plan, values: pd.Series) -> None:
    """One curve per arm through its means; random weights have no cost."""
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
    untrained = values[values.index == studies.UNTRAINED]
    if not untrained.empty:
        style = {"color": "gray", "ls": ":", "label": studies.UNTRAINED}
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
    """Draws held-out measures over the steps, the mean over an arm's runs.

    Dashed lines show what unigram frequencies alone reach. There is no
    picture before the first run has measured something. `runs` are the folders
    of the runs by the name of their arm.
    """
    lines = [
        {"arm": arm, **line}
        for arm, folders in runs.items()
        for folder in folders
        for line in study_run.read_metrics(folder)
        if line["split"] == "validation"
    ]
    if not lines:
        return
    metrics = pd.DataFrame(lines)
    num_panels = len(_CURVES)
    with atomic.saving_figure(path, 1, num_panels, (17, 5)) as (figure, axes):
        for axis, (title, names, baseline) in zip(axes, _CURVES, strict=True):
            means = average_curves(metrics, names).reindex(columns=[*runs])
            for number, arm in enumerate(runs):
                # An arm without the metric keeps its color and its place.
                curve = means[arm].dropna()
                style = "o-" if number < _NUM_COLORS else "s--"
                color = f"C{number % _NUM_COLORS}"
                axis.plot(curve, style, color=color, ms=3, label=arm)
            if baseline in metrics:
                for value in metrics[baseline].dropna().unique():
                    axis.axhline(value, ls="--", color="gray", label="unigram")
            axis.set_title(title)
            axis.set_xlabel("step")
            axis.grid(alpha=0.3)
        handles = axes[0].get_legend_handles_labels()
        figure.legend(*handles, fontsize=8, loc="center right")
        figure.tight_layout(rect=(0, 0, 0.87, 1))


def average_curves(metrics: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The mean of a metric over runs, a row per step and a column per arm.

    A run reports the metric under one of its names.
    """
    values = metrics.reindex(columns=[*names]).bfill(axis=1).iloc[:, 0]
    means = values.groupby([metrics["step"], metrics["arm"]]).mean()
    return means.unstack("arm")
