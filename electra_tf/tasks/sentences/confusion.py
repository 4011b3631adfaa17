"""Draws confusion matrices."""

import pathlib
from collections.abc import Sequence

import numpy as np
from sklearn import metrics as sklearn_metrics

from electra_tf import figures

_MAX_NUMBERED = 15  # classes up to which cells show counts
_MAX_NAMED = 60  # classes up to which axes show labels
_MAX_LABEL = 24  # characters of a label that are shown


def draw(
    path: pathlib.Path,
    labels: np.ndarray,
    predictions: np.ndarray,
    names: Sequence[str],
    title: str,
) -> None:
    """Writes the confusion matrix of `[N]` classes as a PNG file."""
    number = len(names)
    counts = sklearn_metrics.confusion_matrix(
        labels, predictions, labels=range(number)
    )
    totals = counts.sum(1)
    shares = counts / np.maximum(totals, 1)[:, np.newaxis]
    shown = [
        n if len(n) <= _MAX_LABEL else f"{n[: _MAX_LABEL - 1]}…"
        # matplotlib would set text between dollar signs as a formula.
        for n in (name.replace("$", r"\$") for name in names)
    ]
    is_numbered = number <= _MAX_NUMBERED
    side = 2.6 + (0.62 if is_numbered else 0.22) * min(number, _MAX_NAMED)
    size = side + 1.8, side + 0.6
    picture = sklearn_metrics.ConfusionMatrixDisplay(
        shares, display_labels=shown
    )
    with figures.saving_figure(path, 1, 1, size) as (figure, (axis,)):
        figure.set_layout_engine("constrained")
        picture.plot(
            ax=axis,
            cmap="Blues",
            include_values=is_numbered,
            xticks_rotation=40 if max(map(len, shown)) > 6 else "horizontal",
            im_kw={"vmin": 0, "vmax": 1},
            text_kw={"fontsize": 9 if number <= 6 else 7},
        )
        for place in np.ndindex(counts.shape) if is_numbered else ():
            text = f"{counts[place]:,}\n{shares[place]:.0%}"
            picture.text_[place].set_text(text)
        picture.im_.colorbar.set_label("share of the row")
        rows = [f"{s} ({n:,})" for s, n in zip(shown, totals, strict=True)]
        axis.set_yticklabels(rows)
        axis.tick_params(labelsize=10 if is_numbered else 6)
        if number > _MAX_NAMED:
            axis.set(xticks=[], yticks=[])
        axis.set(xlabel="predicted", ylabel="right label (its examples)")
        share = counts.trace() / len(labels)
        title = f"{title}: {len(labels):,} examples, {share:.1%} right"
        axis.set_title(title, fontsize=11)
