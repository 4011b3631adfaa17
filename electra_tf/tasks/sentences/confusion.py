"""A picture of what a classifier takes for what."""

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from electra_tf.records import atomic

# With more classes than this the numbers would be too small to read.
_MAX_NUMBERED = 15
# With more than this not even their names.
_MAX_NAMED = 60
_MAX_LABEL = 24


def count(
    labels: np.ndarray, predictions: np.ndarray, num_classes: int
) -> np.ndarray:
    """How often each class was taken for each, `[right, predicted]` int64.

    Args:
        labels: `[N]` integer.
        predictions: `[N]` integer.
        num_classes: C.
    """
    pairs = np.asarray(labels, np.int64) * num_classes + predictions
    counts = np.bincount(pairs, minlength=num_classes**2)
    return counts.reshape(num_classes, num_classes)


def draw(
    path: pathlib.Path,
    counts: np.ndarray,
    names: Sequence[str],
    title: str,
) -> pathlib.Path:
    """Draws the counts; the picture appears complete or not at all.

    Args:
        path: of the PNG file.
        counts: `[right, predicted]`, as `count` gives them.
        names: of the classes.
        title: of the picture.
    """
    # Imported here: it takes a second that a run's start need not wait for.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    is_numbered = len(names) <= _MAX_NUMBERED
    cell = 0.62 if is_numbered else 0.22
    side = 2.6 + cell * min(len(names), _MAX_NAMED)
    figure, axis = pyplot.subplots(
        figsize=(side + 1.8, side + 0.6), layout="constrained"
    )
    totals = counts.sum(1, keepdims=True)
    shares = counts / np.maximum(totals, 1)
    image = axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    _write_names(axis, names, totals[:, 0], 10 if is_numbered else 6)
    axis.set_xlabel("predicted")
    axis.set_ylabel("right label (its examples)")
    axis.set_title(title, fontsize=11)
    if is_numbered:
        _write_numbers(axis, counts, shares)
    bar = figure.colorbar(image, ax=axis, fraction=0.03, pad=0.02)
    bar.set_label("share of the row")
    with atomic.replacing_file(path) as partial:
        # The layout does not see how wide the names beside square cells are.
        figure.savefig(partial, dpi=120, format="png", bbox_inches="tight")
    pyplot.close(figure)
    return path


def _write_names(
    axis: Any, names: Sequence[str], totals: np.ndarray, size: int
) -> None:
    if len(names) > _MAX_NAMED:
        return
    shown = [_shorten(name) for name in names]
    is_long = max(map(len, shown)) > 6
    axis.set_xticks(
        range(len(names)),
        shown,
        fontsize=size,
        rotation=40 if is_long else 0,
        ha="right" if is_long else "center",
        rotation_mode="anchor" if is_long else "default",
    )
    axis.set_yticks(
        range(len(names)),
        [f"{s} ({n:,})" for s, n in zip(shown, totals, strict=True)],
        fontsize=size,
    )


def _write_numbers(axis: Any, counts: np.ndarray, shares: np.ndarray) -> None:
    size = 9 if len(counts) <= 6 else 7
    for row, column in np.ndindex(counts.shape):
        share = shares[row, column]
        axis.text(
            column,
            row,
            f"{counts[row, column]:,}\n{share:.0%}",
            ha="center",
            va="center",
            fontsize=size,
            color="white" if share > 0.6 else "black",
        )


def _shorten(name: str) -> str:
    # matplotlib sets what stands between dollar signs as mathematics.
    name = name.replace("$", r"\$")
    return name if len(name) <= _MAX_LABEL else f"{name[: _MAX_LABEL - 1]}…"
