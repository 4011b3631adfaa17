"""Metrics as statistics that only ever add up.

A step returns counts and sums; they are added over micro-batches, replicas and
steps, and become accuracies, precision, recall and AUC once, on the host.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

# Bins of the predicted probability, for the area under the ROC curve.
NUM_AUC_BINS = 200

DETECTION_SIZES = {
    "predicted_fake": 1,
    "true_fake": 1,
    "correct_fake": 1,
    "correct": 1,
    "detected_tokens": 1,
    "fake_histogram": NUM_AUC_BINS,
    "real_histogram": NUM_AUC_BINS,
}


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> float:
    """`numerator / denominator` of one-element vectors; 0 where nothing is."""
    total = float(denominator[0])
    return float(numerator[0]) / total if total else 0.0


def detection_statistics(
    logits: tf.Tensor, is_fake: tf.Tensor, weights: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Counts for a detector's accuracy, precision, recall and AUC.

    Args:
        logits: `[B, S]` float32; a token is predicted fake where positive.
        is_fake: `[B, S]` integer labels.
        weights: `[B, S]` float32, 1 for tokens that count, 0 for padding.

    Returns:
        The vectors of `DETECTION_SIZES`, float32.
    """
    labels = tf.cast(is_fake, tf.float32)
    predictions = tf.cast(logits > 0, tf.float32)
    hits = tf.cast(predictions == labels, tf.float32)
    probabilities = tf.sigmoid(logits)
    bins = tf.cast(probabilities * NUM_AUC_BINS, tf.int32)
    # A logit that is not finite must end in the losses, not out of range.
    bins = tf.clip_by_value(bins, 0, NUM_AUC_BINS - 1)
    scalars = {
        "predicted_fake": predictions,
        "true_fake": labels,
        "correct_fake": predictions * labels,
        "correct": hits,
        "detected_tokens": tf.ones_like(labels),
    }
    return {
        name: tf.reshape(tf.reduce_sum(value * weights), [1])
        for name, value in scalars.items()
    } | {
        "fake_histogram": _histogram(bins, labels * weights),
        "real_histogram": _histogram(bins, (1.0 - labels) * weights),
    }


def _histogram(bins: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    return tf.math.unsorted_segment_sum(
        tf.reshape(weights, [-1]), tf.reshape(bins, [-1]), NUM_AUC_BINS
    )


def summarize_detection(
    statistics: Mapping[str, np.ndarray],
) -> dict[str, float]:
    """Scores, each 0-1, from the vectors of `DETECTION_SIZES`, added up.

    `majority_share` is the accuracy of giving all tokens the commoner label.
    """
    total = statistics["detected_tokens"]
    correct_fake = statistics["correct_fake"]
    replaced = ratio(statistics["true_fake"], total)
    return {
        "disc_accuracy": ratio(statistics["correct"], total),
        "majority_share": max(replaced, 1.0 - replaced),
        "disc_precision": ratio(correct_fake, statistics["predicted_fake"]),
        "disc_recall": ratio(correct_fake, statistics["true_fake"]),
        "disc_auc": compute_auc(
            statistics["fake_histogram"], statistics["real_histogram"]
        ),
        "replaced_fraction": replaced,
    }


def compute_auc(positives: np.ndarray, negatives: np.ndarray) -> float:
    """Area under the ROC curve, by trapezoids over histogram bins.

    Args:
        positives, negatives: `[k]` weights of the cases by predicted
            probability, lowest bin first.

    Returns:
        0-1; 0.5 where one of the classes is empty.
    """
    positives = np.asarray(positives, np.float64)
    negatives = np.asarray(negatives, np.float64)
    if not positives.sum() or not negatives.sum():
        return 0.5
    # A positive case beats all negatives below its bin and half of those in it.
    below = np.cumsum(negatives) - negatives
    wins = np.sum(positives * (below + negatives / 2))
    return float(wins / (positives.sum() * negatives.sum()))
