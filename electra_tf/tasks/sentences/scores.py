"""The metrics of classification and regression.

All are in percent but the mean squared error. The original's F1 counts gold
positives among the predicted ones alone, so that its recall and F1 equal its
precision; here both are what their names say.
"""

import math
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

import numpy as np
import scipy.stats
from sklearn import metrics

Metric = Callable[[np.ndarray, np.ndarray], float]

# The class that F1 and precision are about, where there are two.
_POSITIVE = 1


def compute_accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """The share of predictions that are right, in percent."""
    return 100 * float(np.mean(labels == predictions))


def compute_mcc(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews correlation, in percent; 0 if all predictions are equal."""
    return 100 * float(metrics.matthews_corrcoef(labels, predictions))


def compute_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of class 1 of two, in percent; 0 if there is no true positive."""
    return 100 * float(
        metrics.f1_score(
            labels == _POSITIVE, predictions == _POSITIVE, zero_division=0
        )
    )


def compute_macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """The mean over classes of their F1, in percent.

    Classes that are neither among the labels nor predicted do not count.
    """
    return 100 * float(
        metrics.f1_score(labels, predictions, average="macro", zero_division=0)
    )


def compute_pearson(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Pearson's correlation, in percent; 0 where one side is constant."""
    return _correlate(scipy.stats.pearsonr, targets, predictions)


def compute_spearman(targets: np.ndarray, predictions: np.ndarray) -> float:
    """Spearman's rank correlation, in percent; 0 where a side is constant."""
    return _correlate(scipy.stats.spearmanr, targets, predictions)


def compute_mse(targets: np.ndarray, predictions: np.ndarray) -> float:
    """The mean squared error, in the unit of the targets, squared."""
    difference = targets.astype(np.float64) - predictions.astype(np.float64)
    return float(np.mean(np.square(difference)))


CLASSIFICATION_METRICS: Mapping[str, Metric] = {
    "accuracy": compute_accuracy,
    "mcc": compute_mcc,
    "f1": compute_f1,
    "macro_f1": compute_macro_f1,
}
"""Name to function of labels and predictions, `[N]` integers."""

REGRESSION_METRICS: Mapping[str, Metric] = {
    "spearman": compute_spearman,
    "pearson": compute_pearson,
    "mse": compute_mse,
}
"""Name to function of targets and predictions, `[N]` floats."""

LOWER_IS_BETTER = ("mse",)
"""The metrics that are errors: of all others, more is better."""


def compute_scores(
    known: Mapping[str, Metric],
    names: Iterable[str],
    labels: np.ndarray,
    predictions: np.ndarray,
) -> dict[str, float]:
    """Several metrics of the same predictions.

    Args:
        known: `CLASSIFICATION_METRICS` or `REGRESSION_METRICS`.
        names: which of them, in order.
        labels: `[N]`, what is right.
        predictions: `[N]`.

    Raises:
        ValueError: if there is nothing to score.
    """
    if not len(labels) or len(labels) != len(predictions):
        raise ValueError(
            "Expected as many predictions as labels, and some. Received: "
            f"{len(predictions)} and {len(labels)}."
        )
    return {name: known[name](labels, predictions) for name in names}


def _correlate(
    function: Callable, targets: np.ndarray, predictions: np.ndarray
) -> float:
    if np.ptp(targets) == 0 or np.ptp(predictions) == 0:
        # Undefined; a model that says the same of everything explains nothing.
        return 0.0
    # float64: the deviations of close numbers cancel in float32.
    coefficient = float(
        function(
            np.asarray(targets, np.float64), np.asarray(predictions, np.float64)
        )[0]
    )
    return 0.0 if math.isnan(coefficient) else 100 * coefficient
