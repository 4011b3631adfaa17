"""The metrics of all tasks with texts, and a confusion matrix.

All are in percent but the mean squared error. The original's F1 leaves out gold
positives that were not predicted, and so equals its precision; not here.
"""

import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.stats
from sklearn import metrics

from electra_tf import figures

Metric = Callable[[np.ndarray, np.ndarray], float]

# Classes of which a confusion matrix can show the numbers, and the names.
_MAX_NUMBERED = 15
_MAX_NAMED = 60
_MAX_LABEL = 24


def _percent(function: Callable, **options: Any) -> Metric:
    return lambda labels, predictions: (
        100 * float(function(labels, predictions, **options))
    )


def _correlate(
    targets: np.ndarray, predictions: np.ndarray, coefficient_fn: Callable
) -> float:
    if np.ptp(targets) == 0 or np.ptp(predictions) == 0:
        # Undefined; a model that says the same of everything explains nothing.
        return 0.0
    # float64: the deviations of close numbers cancel in float32.
    coefficient = coefficient_fn(
        np.asarray(targets, np.float64), np.asarray(predictions, np.float64)
    )[0]
    return 0.0 if math.isnan(coefficient) else coefficient


CLASSIFICATION_METRICS: Mapping[str, Metric] = {
    "accuracy": _percent(metrics.accuracy_score),
    # 0 for equal predictions.
    "mcc": _percent(metrics.matthews_corrcoef),
    # Of class 1 of two; 0 without a true positive.
    "f1": _percent(metrics.f1_score, zero_division=0),
    # Without classes that are neither among the labels nor predicted.
    "macro_f1": _percent(metrics.f1_score, average="macro", zero_division=0),
}
"""Name to function of labels and predictions, `[N]` integers."""

REGRESSION_METRICS: Mapping[str, Metric] = {
    # 0 if a side is constant.
    "spearman": _percent(_correlate, coefficient_fn=scipy.stats.spearmanr),
    "pearson": _percent(_correlate, coefficient_fn=scipy.stats.pearsonr),
    # In the unit of the targets, squared.
    "mse": lambda targets, predictions: float(
        metrics.mean_squared_error(targets, predictions)
    ),
}
"""Name to function of targets and predictions, `[N]` floats."""

MULTILABEL_METRICS: Mapping[str, Metric] = {
    "micro_f1": _percent(metrics.f1_score, average="micro", zero_division=0),
    # A label that is neither right nor predicted anywhere counts 0.
    "macro_f1": _percent(metrics.f1_score, average="macro", zero_division=0),
    # Of examples with all labels right and no other.
    "exact_match": _percent(metrics.accuracy_score),
}
"""Name to function of labels and predictions, `[N, C]` zeros and ones."""


def reciprocal_rank(relevance: np.ndarray, scores: np.ndarray) -> float:
    """One over the rank of the best relevant of `[n]`, 0 if none is relevant.

    Ties count against it: scores that are all equal must not look good.
    """
    relevant, others = scores[relevance > 0], scores[relevance <= 0]
    best = relevant.max(initial=-np.inf)
    return float(len(relevant) > 0) / (1 + np.count_nonzero(others >= best))


def ndcg_at_10(relevance: np.ndarray, scores: np.ndarray) -> float:
    """Discounted gain of the best ten of `[n]`, a share of the highest.

    Gains are the relevance itself; ties have the mean of their places.
    """
    # scikit-learn wants two: one more at the end, irrelevant, changes nothing.
    gains, last = np.append(relevance, 0.0), scores.min() - 1.0
    return float(metrics.ndcg_score([gains], [np.append(scores, last)], k=10))


COMPARISON_METRICS = {
    "multiple_choice": {"accuracy": lambda right, found: right[found.argmax()]},
    "ranking": {"mrr": reciprocal_rank, "ndcg_at_10": ndcg_at_10},
}
"""Kind and name to function of the relevance and scores of one group."""

LOWER_IS_BETTER = ("mse",)
"""The metrics that are errors: of all others, more is better."""


def draw_confusion(
    path: pathlib.Path,
    labels: np.ndarray,
    predictions: np.ndarray,
    names: Sequence[str],
    title: str,
) -> None:
    """Draws into a PNG file which of `[N]` classes was taken for which."""
    number = len(names)
    counts = metrics.confusion_matrix(labels, predictions, labels=range(number))
    totals = counts.sum(1)
    shares = counts / np.maximum(totals, 1)[:, np.newaxis]
    shown = [_shorten(name) for name in names]
    is_numbered = number <= _MAX_NUMBERED
    side = 2.6 + (0.62 if is_numbered else 0.22) * min(number, _MAX_NAMED)
    size = side + 1.8, side + 0.6
    picture = metrics.ConfusionMatrixDisplay(shares, display_labels=shown)
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


def _shorten(name: str) -> str:
    # matplotlib sets what stands between dollar signs as mathematics.
    name = name.replace("$", r"\$")
    return name if len(name) <= _MAX_LABEL else f"{name[: _MAX_LABEL - 1]}…"
