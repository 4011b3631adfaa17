"""Counts correct predictions at masked positions.

A masked position shows [MASK], its original token or a random token. Positions
that show [MASK] are counted apart, because only their accuracy compares with
the unigram baseline of the corpus; an original token is easily copied.
"""

import tensorflow as tf

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
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
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
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    shown = tf.gather(seen.input_ids, seen.masked_positions, batch_dims=1)
    is_wrong = tf.cast(shown != seen.masked_ids, tf.float32)
    is_wrong *= seen.masked_weights
    return {
        "replaced_tokens": tf.reduce_sum(is_wrong),
        "restored_tokens": count_correct(best, seen, is_wrong),
    }
