"""Metrics of the discriminator, from counts that add up over batches."""

import functools
from collections.abc import Callable, Mapping

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training import step_state

Tensors = dict[str, tf.Tensor]

# The bins of predicted probabilities from which the AUC is computed.
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
    """Divides one-element vectors; the scalar is 0 if the denominator is."""
    return tf.math.divide_no_nan(numerator[0], denominator[0])


def detection_statistics(
    logits: tf.Tensor, is_fake: tf.Tensor, weights: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Counts predictions for accuracy, precision, recall and AUC.

    All arguments are `[B, S]`. A token with a positive logit is predicted
    fake; padding has weight 0. Returns float32 vectors of `DETECTION_SIZES`.
    """
    labels = tf.cast(is_fake, tf.float32)
    predictions = tf.cast(logits > 0, tf.float32)
    bins = tf.cast(tf.sigmoid(logits) * NUM_AUC_BINS, tf.int32)
    # A logit that is not finite may get any bin, since the loss reports it.
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
    """Computes scores in [0, 1] from sums of `DETECTION_SIZES` vectors."""
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
    """Computes the area under the ROC curve; 0.5 if a class is empty."""
    # A positive counts as above all negatives of lower bins, and above half of
    # the negatives of its own bin.
    below = tf.cumsum(negatives, exclusive=True)
    wins = tf.reduce_sum(positives * (below + negatives / 2))
    pairs = tf.reduce_sum(positives) * tf.reduce_sum(negatives)
    area = tf.math.divide_no_nan(wins, pairs)
    return tf.where(pairs > 0, area, 0.5 * tf.ones_like(area))


class Statistics(keras.metrics.Metric):
    """Sums statistics over batches and derives a model's metrics from them.

    The statistics have been summed over replicas. Each replica adds the sums to
    its own copy.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        derive_fn: Callable[[Tensors], Tensors] = dict,
    ) -> None:
        super().__init__(name="statistics")
        self.sizes = dict(sorted(sizes.items()))
        self.derive_fn = derive_fn
        # Not `add_variable`, whose variables are summed over replicas again.
        build = functools.partial(keras.Variable, trainable=False)
        zeros = np.zeros(sum(self.sizes.values()))
        self.total = build(zeros, dtype="float32", name="total")
        self.num_batches = build(np.zeros([]), dtype="int64")

    def update_state(self, statistics: Tensors) -> None:
        """Adds the vectors of a batch that `sizes` names."""
        vector = tf.concat([statistics[name] for name in self.sizes], 0)
        step_state.assign_add(self.total, vector)
        step_state.assign_add(self.num_batches, 1)

    def result(self) -> Tensors:
        """Computes scalar metrics of all batches since the last reset."""
        total = tf.convert_to_tensor(self.total)
        vectors = tf.split(total, list(self.sizes.values()))
        return self.derive_fn(dict(zip(self.sizes, vectors, strict=True)))

    def sums(self) -> dict[str, np.ndarray]:
        """Returns the sums since the last reset, as arrays."""
        ends = np.cumsum(list(self.sizes.values()))[:-1]
        vectors = np.split(tf.convert_to_tensor(self.total).numpy(), ends)
        return dict(zip(self.sizes, vectors, strict=True))
