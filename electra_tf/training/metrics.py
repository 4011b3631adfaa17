"""Metrics from counts and sums over micro-batches, replicas and steps."""

import functools
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training import step_state

Tensors = dict[str, tf.Tensor]

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


def ratio(numerator: tf.Tensor, denominator: tf.Tensor) -> tf.Tensor:
    """The scalar quotient of one-element vectors; 0 if it divides by 0."""
    return tf.math.divide_no_nan(numerator[0], denominator[0])


def detection_statistics(
    logits: tf.Tensor, is_fake: tf.Tensor, weights: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Counts for a detector's accuracy, precision, recall and AUC.

    A token `[B, S]` is predicted fake where its logit is positive; weights
    are 0 for padding. Returns the vectors of `DETECTION_SIZES`, float32.
    """
    labels = tf.cast(is_fake, tf.float32)
    predictions = tf.cast(logits > 0, tf.float32)
    bins = tf.cast(tf.sigmoid(logits) * NUM_AUC_BINS, tf.int32)
    # The loss reports a logit that is not finite; here it gets any bin.
    bins = tf.clip_by_value(bins, 0, NUM_AUC_BINS - 1)
    scalars = {
        "predicted_fake": predictions,
        "true_fake": labels,
        "correct_fake": predictions * labels,
        "correct": tf.cast(predictions == labels, tf.float32),
        "detected_tokens": tf.ones_like(labels),
    }
    sums = {
        name: tf.reshape(tf.reduce_sum(value * weights), [1])
        for name, value in scalars.items()
    }
    count = tf.math.unsorted_segment_sum
    return sums | {
        "fake_histogram": count(labels * weights, bins, NUM_AUC_BINS),
        "real_histogram": count((1.0 - labels) * weights, bins, NUM_AUC_BINS),
    }


def summarize_detection(
    statistics: Mapping[str, tf.Tensor],
) -> dict[str, tf.Tensor]:
    """Scores, each 0-1, from the vectors of `DETECTION_SIZES`, added up."""
    total = statistics["detected_tokens"]
    correct_fake = statistics["correct_fake"]
    replaced = ratio(statistics["true_fake"], total)
    return {
        "disc_accuracy": ratio(statistics["correct"], total),
        "majority_share": tf.maximum(replaced, 1.0 - replaced),
        "disc_precision": ratio(correct_fake, statistics["predicted_fake"]),
        "disc_recall": ratio(correct_fake, statistics["true_fake"]),
        "disc_auc": compute_auc(
            statistics["fake_histogram"], statistics["real_histogram"]
        ),
        "replaced_fraction": replaced,
    }


def compute_auc(positives: tf.Tensor, negatives: tf.Tensor) -> tf.Tensor:
    """Area under the ROC curve, by trapezoids; 0.5 where a class is empty."""
    # A positive case beats all negatives below its bin and half of those in it.
    below = tf.cumsum(negatives, exclusive=True)
    wins = tf.reduce_sum(positives * (below + negatives / 2))
    pairs = tf.reduce_sum(positives) * tf.reduce_sum(negatives)
    area = tf.math.divide_no_nan(wins, pairs)
    return tf.where(pairs > 0, area, 0.5 * tf.ones_like(area))


class Statistics(keras.metrics.Metric):
    """Adds up statistics, and derives a model's metrics from the sums.

    Every replica adds the same numbers, those of all replicas, to its copy.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        derive_fn: Callable[[Tensors], Tensors] = dict,
    ) -> None:
        super().__init__(name="statistics")
        self.sizes = dict(sorted(sizes.items()))
        self.derive_fn = derive_fn
        # A variable of `add_variable` is summed over replicas when it is read.
        build = functools.partial(keras.Variable, trainable=False)
        zeros = np.zeros(sum(self.sizes.values()))
        self.total = build(zeros, dtype="float32", name="total")
        self.num_batches = build(np.zeros([]), dtype="int64")

    def update_state(self, statistics: Tensors) -> None:
        """Adds the vectors of one batch; others than `sizes` are left out."""
        vector = tf.concat([statistics[name] for name in self.sizes], 0)
        step_state.assign_add(self.total, vector)
        step_state.assign_add(self.num_batches, 1)

    def result(self) -> Tensors:
        """Metric name to scalar, over all batches since the last reset."""
        total = tf.convert_to_tensor(self.total)
        parts = tf.split(total, list(self.sizes.values()))
        return self.derive_fn(dict(zip(self.sizes, parts, strict=True)))

    def sums(self) -> dict[str, np.ndarray]:
        """The sums so far, for the host."""
        ends = np.cumsum(list(self.sizes.values()))[:-1]
        parts = np.split(tf.convert_to_tensor(self.total).numpy(), ends)
        return dict(zip(self.sizes, parts, strict=True))
