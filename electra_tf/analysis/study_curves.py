"""How the arms of a study learn: held-out measures over the steps."""

import pathlib
import statistics
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from electra_tf.records import atomic

# Title, the metric's names (a run has one of them), and its unigram baseline.
_PANELS = (
    ("loss at [MASK]", ("masked_loss", "mlm_masked_loss"), "unigram_entropy"),
    (
        "accuracy at [MASK]",
        ("masked_accuracy", "mlm_accuracy"),
        "unigram_accuracy",
    ),
    ("discriminator AUC", ("disc_auc",), ""),
)
_NUM_COLORS = 10


def draw(
    path: pathlib.Path, runs: Mapping[str, Sequence[pathlib.Path]]
) -> None:
    """Draws one line an arm, the mean over its runs; complete or not at all.

    Dashed lines show what unigram frequencies alone reach.

    Args:
        path: of the PNG file.
        runs: name of an arm to the `model_dir` of its runs.
    """
    lines = {
        arm: [_held_out(folder) for folder in folders]
        for arm, folders in runs.items()
    }
    # Imported here: it takes a second that the start of a study can save.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(_PANELS), figsize=(17, 5))
    for axis, (title, names, baseline) in zip(axes, _PANELS, strict=True):
        for number, (arm, per_run) in enumerate(lines.items()):
            points = _means(per_run, names)
            # An arm without the metric keeps its color and its place.
            axis.plot(
                list(points),
                list(points.values()),
                "o-" if number < _NUM_COLORS else "s--",
                color=f"C{number % _NUM_COLORS}",
                ms=3,
                label=arm,
            )
        for value in _baselines(lines, baseline):
            axis.axhline(value, ls="--", color="gray", label="unigram")
        axis.set_title(title)
        axis.set_xlabel("step")
        axis.grid(alpha=0.3)
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, loc="center right")
    figure.tight_layout(rect=(0, 0, 0.87, 1))
    with atomic.replacing_file(path) as partial:
        figure.savefig(partial, dpi=110, format="png")
    pyplot.close(figure)


def _held_out(model_dir: pathlib.Path) -> list[dict[str, Any]]:
    path = model_dir / "metrics.jsonl"
    if not path.is_file():
        return []
    # Imported here: it brings TensorFlow, which a study's parent process can
    # do without until a run has told something.
    from electra_tf.training import reporting

    lines = reporting.read_lines(path)
    return [line for line in lines if line["split"] == "validation"]


def _means(
    runs: Sequence[Sequence[Mapping[str, Any]]], names: Sequence[str]
) -> dict[int, float]:
    """Step to the mean of the metric over the runs that report it there."""
    values: dict[int, list[float]] = {}
    for lines in runs:
        for line in lines:
            for name in names:
                if name in line:
                    values.setdefault(line["step"], []).append(line[name])
    return {step: statistics.fmean(values[step]) for step in sorted(values)}


def _baselines(
    lines: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], name: str
) -> set[float]:
    return {
        line[name]
        for runs in lines.values()
        for run in runs
        for line in run
        if name in line
    }
