"""What every objective with a generator does with its proposals."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.modeling import generators
from electra_tf.pretraining import losses
from electra_tf.pretraining import objective
from electra_tf.training import metrics

GENERATOR_SIZES = {
    "masked_tokens": 1,
    "masked_correct": 1,
    "sampled_correct": 1,
}


def generator_loss(
    targets: generators.Targets, generated: generators.GeneratorOutput
) -> objective.LossSum:
    """Negative log likelihood of what the generator predicts (paper, eq. 2).

    Args:
        targets: ids and weights, `[B, N]`.
        generated: the generator's output for the same batch.
    """
    total = losses.masked_lm_loss(
        generated.prediction_logits, targets.ids, targets.weights
    )
    return objective.LossSum(total, tf.reduce_sum(targets.weights))


def generator_statistics(
    masked: masking.MaskedInputs, logits: tf.Tensor, sampled: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Counts behind the accuracies of best guess and sample.

    Args:
        masked: the batch.
        logits: `[B, P, V]` float32.
        sampled: `[B, P]` int32.
    """
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    return {
        "masked_tokens": tf.reduce_sum(masked.masked_weights),
        "masked_correct": count_correct(best, masked),
        "sampled_correct": count_correct(sampled, masked),
    }


def chosen_tokens(masked: masking.MaskedInputs) -> tf.Tensor:
    """`[B, S]` float32, 1 at the positions that were masked out."""
    _, is_chosen = masking.scatter_update(
        masked.original_ids, masked.masked_ids, masked.masked_positions
    )
    return tf.cast(is_chosen, tf.float32)


def count_correct(ids: tf.Tensor, masked: masking.MaskedInputs) -> tf.Tensor:
    """How many of `[B, P]` ids are the original tokens; scalar float32."""
    is_correct = tf.cast(ids == masked.masked_ids, tf.float32)
    return tf.reduce_sum(is_correct * masked.masked_weights)


def summarize_generator(
    statistics: Mapping[str, np.ndarray],
) -> dict[str, float]:
    """`masked_accuracy` and `sampled_accuracy`, each 0-1."""
    num_masked = statistics["masked_tokens"]
    return {
        "masked_accuracy": metrics.ratio(
            statistics["masked_correct"], num_masked
        ),
        "sampled_accuracy": metrics.ratio(
            statistics["sampled_correct"], num_masked
        ),
    }
