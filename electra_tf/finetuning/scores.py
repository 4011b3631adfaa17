"""How predictions are scored.

Chunking is scored by the accuracy of its tags for now, not by the F1 of whole
spans that is published for CoNLL-2000.
"""

from collections.abc import Callable
from collections.abc import Mapping

import numpy as np
from sklearn import metrics

METRICS: Mapping[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": lambda labels, predictions: float(
        metrics.accuracy_score(labels, predictions)
    ),
    "mcc": lambda labels, predictions: float(
        metrics.matthews_corrcoef(labels, predictions)
    ),
}
"""Metric name to its function of labels and predictions, `[n]` integers."""

# No class has this index, so it is never right.
_NO_PREDICTION = -1


def compute_score(
    metric: str,
    labels: np.ndarray,
    predictions: np.ndarray,
    cut_off_labels: np.ndarray,
) -> float:
    """The score of predictions; what was never seen counts as wrong.

    Args:
        metric: key in `METRICS`.
        labels: `[n]` integer, the right classes.
        predictions: `[n]` integer.
        cut_off_labels: `[m]` integer, right classes of words beyond the
            longest row. Counting them makes scores with rows of different
            lengths comparable.

    Returns:
        1 for a perfect score; 0 for chance if `mcc` (also where every
        prediction is the same).
    """
    missing = np.full(len(cut_off_labels), _NO_PREDICTION)
    return METRICS[metric](
        np.concatenate([labels, cut_off_labels]),
        np.concatenate([predictions, missing]),
    )
