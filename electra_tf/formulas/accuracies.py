"""Counts correct predictions: at masked positions, and of a detector.

A masked position shows [MASK], its original token or a random token. Positions
that show [MASK] are counted apart, because only their accuracy compares with
the unigram baseline of the corpus; an original token is easily copied.
"""

from collections.abc import Mapping

import tensorflow as tf

from electra_tf import fusion
from electra_tf.inputs import masking

GENERATOR_RATIOS = {
    "masked_loss": ("masked_loss", "masked_tokens"),
    "masked_accuracy": ("masked_correct", "masked_tokens"),
    "kept_accuracy": ("kept_correct", "kept_tokens"),
    "sampled_accuracy": ("sampled_correct", "masked_tokens"),
}
"""Compare the first two with `unigram_entropy` and `unigram_accuracy`."""

RESTORATION_RATIOS = {
    **GENERATOR_RATIOS,
    # The main network's accuracy at positions whose sample is wrong.
    "restored_accuracy": ("restored_tokens", "replaced_tokens"),
}

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


def count_predictions(
    masked: masking.MaskedInputs,
    logits: tf.Tensor,
    losses: tf.Tensor,
    mask_id: int,
    sampled: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Counts tokens and correct predictions; sums the losses.

    `masked_` counts are of slots that show [MASK], `kept_` counts of others.
    Logits are `[B, P, V]`, losses and the optional samples `[B, P]`.
    """
    shown = tf.gather(masked.input_ids, masked.masked_positions, batch_dims=1)
    shows_mask = masked.masked_weights * tf.cast(shown == mask_id, tf.float32)
    shows_token = masked.masked_weights - shows_mask
    best = _predict(logits)
    counts = {
        "masked_tokens": tf.reduce_sum(shows_mask),
        "masked_loss": tf.reduce_sum(losses * shows_mask),
        "masked_correct": count_correct(best, masked, shows_mask),
        "kept_tokens": tf.reduce_sum(shows_token),
        "kept_correct": count_correct(best, masked, shows_token),
    }
    if sampled is not None:
        counts |= {
            "sampled_correct": count_correct(sampled, masked, shows_mask),
            "kept_sampled_correct": count_correct(sampled, masked, shows_token),
        }
    return counts


def count_correct(
    ids: tf.Tensor, masked: masking.MaskedInputs, weights: tf.Tensor
) -> tf.Tensor:
    """Counts the `[B, P]` ids that are the original tokens; scalar float32."""
    is_correct = tf.cast(ids == masked.masked_ids, tf.float32)
    return tf.reduce_sum(is_correct * weights)


def count_restored(
    seen: masking.MaskedInputs, logits: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Counts slots with a wrong sample, and correct predictions at them.

    Logits are `[B, P, V]`; `seen` holds the samples.
    """
    best = _predict(logits)
    shown = tf.gather(seen.input_ids, seen.masked_positions, batch_dims=1)
    is_wrong = tf.cast(shown != seen.masked_ids, tf.float32)
    is_wrong *= seen.masked_weights
    return {
        "replaced_tokens": tf.reduce_sum(is_wrong),
        "restored_tokens": count_correct(best, seen, is_wrong),
    }


def _predict(logits: tf.Tensor) -> tf.Tensor:
    # As the head has them: a TPU would copy `[B, P, V]`.
    flat = tf.reshape(logits, [-1, logits.shape[-1]])
    if fusion.compiles(fusion.Scope.STEP):
        # A TPU's program of an argmax is twice as large.
        largest = tf.reduce_max(flat, -1, keepdims=True)
        numbers = tf.range(flat.shape[1])
        best = tf.where(flat == largest, numbers, flat.shape[1])
        best = tf.reduce_min(best, -1)
    else:
        best = tf.argmax(flat, axis=-1, output_type=tf.int32)
    return tf.reshape(best, tf.shape(logits)[:-1])


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
    counted = tf.stack([labels * weights, (1.0 - labels) * weights], -1)
    histograms = tf.math.unsorted_segment_sum(counted, bins, NUM_AUC_BINS)
    fake, real = tf.unstack(histograms, axis=-1)
    return sums | {"fake_histogram": fake, "real_histogram": real}


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
