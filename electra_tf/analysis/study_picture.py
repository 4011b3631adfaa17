"""The picture of a study: every run a point, every arm its mean.

Studies at one budget show arms one below the other, one panel per measure.
Studies at several budgets show each measure over the FLOPs of training.
"""

import pathlib
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from electra_tf.analysis import study_plan
from electra_tf.records import atomic

_MAX_PANELS = 9
_MAX_COLUMNS = 3


class Point(NamedTuple):
    """The measures of a run.

    Attributes:
        arm: name of its planned arm.
        measures: name to value.
    """

    arm: str
    measures: Mapping[str, float]


def draw(
    path: pathlib.Path, plan: study_plan.Plan, points: Sequence[Point]
) -> None:
    """Draws the picture; it appears complete or not at all.

    Args:
        path: of the PNG file.
        plan: order, budgets and FLOPs of the arms.
        points: one per finished run.
    """
    names = list(dict.fromkeys(n for point in points for n in point.measures))
    names = names[:_MAX_PANELS]
    if not names:
        return
    # Imported here: it takes a second that the start of a study can save.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(_MAX_COLUMNS, len(names))
    rows = -(-len(names) // columns)
    has_budgets = len(plan.study.budget_fractions) > 1
    height = 3.2 if has_budgets else 1.3 + 0.42 * len(plan.arms)
    figure, axes = pyplot.subplots(
        rows,
        columns,
        figsize=(2.0 + 3.9 * columns, 0.9 + height * rows),
        sharey=not has_budgets,
        squeeze=False,
    )
    draw_panel = _draw_over_flops if has_budgets else _draw_arms
    for axis, name in zip(axes.flat, names, strict=False):
        # Scores need no word: more is better.
        hint = " (less is better)" if name.endswith("_loss") else ""
        axis.set_title(f"{name}{hint}", fontsize=10)
        draw_panel(axis, name, plan, points)
    for axis in axes.flat[len(names) :]:
        axis.set_visible(False)
    figure.suptitle(_title(plan, len(points)), fontsize=11)
    figure.tight_layout()
    with atomic.replacing_file(path) as partial:
        figure.savefig(partial, dpi=120, format="png")
    pyplot.close(figure)


def _title(plan: study_plan.Plan, num_runs: int) -> str:
    study = plan.study
    cost = "FLOPs" if study.budget == "flops" else "steps"
    return (
        f"{study.name}: {study.question}\n"
        f"equal {cost}; {num_runs} of {plan.num_runs} runs; circles: seeds, "
        "diamonds: means, bars: standard deviation over seeds"
    )


def _draw_arms(
    axis: Any, name: str, plan: study_plan.Plan, points: Sequence[Point]
) -> None:
    """One line of points per arm, the study's first arm on top."""
    for row, arm in enumerate(plan.arms):
        values = _values(points, arm.name, name)
        if not values:
            continue
        color = f"C{row % 10}"
        mean = statistics.fmean(values)
        axis.plot(values, [row] * len(values), "o", color=color, alpha=0.4)
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        axis.errorbar(
            mean, row, xerr=spread, fmt="D", color=color, capsize=4, zorder=3
        )
        axis.annotate(
            f"{mean:.3f}",
            (mean, row),
            xytext=(0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    axis.set_yticks(
        range(len(plan.arms)), [arm.name for arm in plan.arms], fontsize=9
    )
    # Calling it twice on shared axes would turn them around again.
    axis.set_ylim(len(plan.arms) - 0.5, -0.7)
    axis.margins(x=0.15)
    axis.tick_params(axis="x", labelsize=8)
    axis.grid(alpha=0.3)


def _draw_over_flops(
    axis: Any, name: str, plan: study_plan.Plan, points: Sequence[Point]
) -> None:
    """One curve per arm through its means; random weights have no cost."""
    for index, arm in enumerate(plan.study.arms):
        color = f"C{index % 10}"
        flops, means, spreads = [], [], []
        for planned in plan.arms:
            values = _values(points, planned.name, name)
            if planned.arm != arm or not values:
                continue
            axis.plot(
                [planned.flops] * len(values),
                values,
                "o",
                color=color,
                alpha=0.4,
            )
            flops.append(planned.flops)
            means.append(statistics.fmean(values))
            spreads.append(statistics.stdev(values) if len(values) > 1 else 0.0)
        if flops:
            axis.errorbar(
                flops,
                means,
                yerr=spreads,
                fmt="D-",
                color=color,
                capsize=4,
                label=arm,
            )
    for planned in plan.arms:
        values = _values(points, planned.name, name)
        if values and not planned.is_trained:
            mean = statistics.fmean(values)
            axis.axhline(mean, color="gray", ls=":", label=planned.name)
    axis.set_xscale("log")
    axis.set_xlabel("training FLOPs", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.tick_params(axis="x", which="minor", labelsize=7)
    axis.grid(alpha=0.3, which="both")
    if axis.get_legend_handles_labels()[0]:
        axis.legend(fontsize=8)


def _values(points: Sequence[Point], arm: str, name: str) -> list[float]:
    return [
        point.measures[name]
        for point in points
        if point.arm == arm and name in point.measures
    ]
