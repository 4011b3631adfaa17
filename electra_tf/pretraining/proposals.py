"""The loss of a masked language model, and honest counts of its guesses.

A chosen slot shows [MASK], or keeps its token, or shows a random one. A kept
token is right in front of the model, so being right there is no sign of
learning: the two kinds are counted apart, and only the first makes an
accuracy that compares with the corpus' unigram baseline.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.modeling import generators
from electra_tf.pretraining import losses
from electra_tf.pretraining import objective
from electra_tf.training import metrics

PREDICTION_SIZES = {
    "masked_tokens": 1,
    "masked_loss": 1,
    "masked_correct": 1,
    "kept_tokens": 1,
    "kept_correct": 1,
}
"""Slots that show [MASK] (`masked_`), and the other chosen ones (`kept_`)."""

GENERATOR_SIZES = {
    **PREDICTION_SIZES,
    "sampled_correct": 1,
    "kept_sampled_correct": 1,
}
"""Also how many samples are right; `sampled_correct` at [MASK] alone."""

RESTORATION_SIZES = {"replaced_tokens": 1, "restored_tokens": 1}
"""Chosen slots whose sample is wrong, and those of them guessed right."""


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


def prediction_statistics(
    masked: masking.MaskedInputs, logits: tf.Tensor, mask_id: int
) -> dict[str, tf.Tensor]:
    """The counts of `PREDICTION_SIZES`, from the best guesses.

    Args:
        masked: the batch, as the model saw it.
        logits: `[B, P, V]` float32.
        mask_id: id of [MASK].
    """
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    shows_mask, shows_token = split_slots(masked, mask_id)
    return {
        "masked_tokens": tf.reduce_sum(shows_mask),
        "masked_loss": losses.masked_lm_loss(
            logits, masked.masked_ids, shows_mask
        ),
        "masked_correct": count_correct(best, masked, shows_mask),
        "kept_tokens": tf.reduce_sum(shows_token),
        "kept_correct": count_correct(best, masked, shows_token),
    }


def generator_statistics(
    masked: masking.MaskedInputs,
    generated: generators.GeneratorOutput,
    sampled: tf.Tensor,
    mask_id: int,
) -> dict[str, tf.Tensor]:
    """The counts of `GENERATOR_SIZES`, from best guesses and samples.

    A generator that never reads the chosen tokens (two-tower, uniform,
    unigram) is counted at the same slots: all are alike to it.

    Args:
        masked: the batch.
        generated: the generator's output for it.
        sampled: `[B, P]` int32.
        mask_id: id of [MASK].
    """
    logits = generated.logits
    if not generated.encoder_outputs:
        # A fixed generator never samples what its corpus lacks, but its loss
        # does not call it impossible.
        logits = generated.prediction_logits
    shows_mask, shows_token = split_slots(masked, mask_id)
    return {
        **prediction_statistics(masked, logits, mask_id),
        "sampled_correct": count_correct(sampled, masked, shows_mask),
        "kept_sampled_correct": count_correct(sampled, masked, shows_token),
    }


def restoration_statistics(
    masked: masking.MaskedInputs, shown_ids: tf.Tensor, logits: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The counts of `RESTORATION_SIZES`, for a tower that sees samples.

    Args:
        masked: the batch.
        shown_ids: `[B, S]` int32, the text with samples in it.
        logits: `[B, P, V]` float32 of the tower that saw it.
    """
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    shown = tf.gather(shown_ids, masked.masked_positions, batch_dims=1)
    is_wrong = tf.cast(shown != masked.masked_ids, tf.float32)
    is_wrong *= masked.masked_weights
    return {
        "replaced_tokens": tf.reduce_sum(is_wrong),
        "restored_tokens": count_correct(best, masked, is_wrong),
    }


def split_slots(
    masked: masking.MaskedInputs, mask_id: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Weights of the slots that show [MASK], and of the other chosen ones.

    Returns:
        Two `[B, P]` float32; their sum is `masked.masked_weights`.
    """
    shown = tf.gather(masked.input_ids, masked.masked_positions, batch_dims=1)
    shows_mask = masked.masked_weights * tf.cast(shown == mask_id, tf.float32)
    return shows_mask, masked.masked_weights - shows_mask


def chosen_tokens(masked: masking.MaskedInputs) -> tf.Tensor:
    """`[B, S]` float32, 1 at the positions that were masked out."""
    _, is_chosen = masking.scatter_update(
        masked.original_ids, masked.masked_ids, masked.masked_positions
    )
    return tf.cast(is_chosen, tf.float32)


def count_correct(
    ids: tf.Tensor, masked: masking.MaskedInputs, weights: tf.Tensor
) -> tf.Tensor:
    """How many of `[B, P]` ids are the original tokens; scalar float32."""
    is_correct = tf.cast(ids == masked.masked_ids, tf.float32)
    return tf.reduce_sum(is_correct * weights)


def summarize_predictions(
    statistics: Mapping[str, np.ndarray],
) -> dict[str, float]:
    """`masked_loss` in nats, `masked_accuracy`, `kept_accuracy`.

    The first two are means over the slots that show [MASK], and compare with
    the corpus' `unigram_entropy` and `unigram_accuracy`.
    """
    num_masked = statistics["masked_tokens"]
    return {
        "masked_loss": metrics.ratio(statistics["masked_loss"], num_masked),
        "masked_accuracy": metrics.ratio(
            statistics["masked_correct"], num_masked
        ),
        "kept_accuracy": metrics.ratio(
            statistics["kept_correct"], statistics["kept_tokens"]
        ),
    }


def summarize_generator(
    statistics: Mapping[str, np.ndarray],
) -> dict[str, float]:
    """Those of `summarize_predictions`, and `sampled_accuracy` at [MASK]."""
    return {
        **summarize_predictions(statistics),
        "sampled_accuracy": metrics.ratio(
            statistics["sampled_correct"], statistics["masked_tokens"]
        ),
    }


def summarize_restoration(
    statistics: Mapping[str, np.ndarray],
) -> dict[str, float]:
    """`restored_accuracy`: share of wrong samples whose original is named."""
    return {
        "restored_accuracy": metrics.ratio(
            statistics["restored_tokens"], statistics["replaced_tokens"]
        )
    }
