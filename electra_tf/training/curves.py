"""The picture of a run: what was learned, on which split, at which step."""

import pathlib
from collections.abc import Sequence
from typing import Any

from electra_tf.records import atomic
from electra_tf.training import reporting

# One panel each: title and metrics. What a run does not report is left out.
_PANELS = (
    ("masked-LM loss", ("mlm_loss", "all_loss")),
    ("masked-LM loss at [MASK]", ("mlm_masked_loss",)),
    ("masked-LM accuracy at [MASK]", ("mlm_accuracy",)),
    ("restored share of wrong samples", ("restored_accuracy",)),
    ("generator loss", ("gen_loss",)),
    ("generator loss at [MASK]", ("masked_loss",)),
    ("discriminator loss", ("disc_loss",)),
    ("generator accuracy at [MASK]", ("masked_accuracy", "sampled_accuracy")),
    ("discriminator", ("disc_auc", "disc_precision", "disc_recall")),
    ("replaced fraction", ("replaced_fraction",)),
    ("generator entropy, nats", ("generator_entropy",)),
    ("reward", ("reward",)),
    ("learning rate", ("learning_rate",)),
)
# What the metric is without any learning; drawn as a line across.
_BASELINES = {
    "mlm_masked_loss": "unigram_entropy",
    "mlm_accuracy": "unigram_accuracy",
    "masked_loss": "unigram_entropy",
    "masked_accuracy": "unigram_accuracy",
}
_PANELS_PER_ROW = 3
_STYLES = {"train": "-", "validation": "o--"}


def draw_training_curves(model_dir: pathlib.Path) -> pathlib.Path | None:
    """Draws `training_curves.png` from `metrics.jsonl`.

    Args:
        model_dir: the run's folder.

    Returns:
        The picture's path, or None where there are no metrics yet.
    """
    lines = reporting.read_lines(model_dir / "metrics.jsonl")
    if not lines:
        return None
    # Imported here: it takes a second that a run's start need not wait for.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    reported = {name for line in lines for name in line}
    panels = [panel for panel in _PANELS if reported.intersection(panel[1])]
    num_rows = max(1, -(-len(panels) // _PANELS_PER_ROW))
    figure, axes = pyplot.subplots(
        num_rows,
        _PANELS_PER_ROW,
        figsize=(13, 1.2 + 3.5 * num_rows),
        sharex=True,
        squeeze=False,
    )
    for axis, (title, names) in zip(axes.flat, panels, strict=False):
        _draw_panel(axis, title, names, lines)
        axis.set_xlabel("step")
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(f"Training curves, {lines[-1]['step']} steps")
    figure.tight_layout()
    path = model_dir / "training_curves.png"
    with atomic.replacing_file(path) as partial:
        figure.savefig(partial, dpi=110, format="png")
    pyplot.close(figure)
    return path


def _draw_panel(
    axis: Any, title: str, names: Sequence[str], lines: list[dict[str, Any]]
) -> None:
    for color, name in enumerate(names):
        for split, style in _STYLES.items():
            points = [
                (line["step"], line[name])
                for line in lines
                if line["split"] == split and name in line
            ]
            if points:
                label = "held-out" if split == "validation" else "training"
                if len(names) > 1:
                    short = name.removeprefix("disc_").removesuffix("_accuracy")
                    label = f"{short}, {label}"
                axis.plot(
                    *zip(*points, strict=True),
                    style,
                    color=f"C{color}",
                    alpha=1.0 if split == "validation" else 0.7,
                    markersize=4,
                    label=label,
                )
        baseline = _BASELINES.get(name, "")
        for value in {line.get(baseline) for line in lines}:
            if value is not None:
                axis.axhline(
                    value, linestyle="--", color="gray", label="unigram"
                )
    axis.set_title(title)
    axis.grid(alpha=0.3)
    if axis.get_lines():
        axis.legend(fontsize=8)
