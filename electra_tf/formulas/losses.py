"""Losses as sums over tokens (paper, section 2, eq. 2 and 3).

A step adds the sums of micro-batches and replicas and divides once, by
`PretrainingModel.loss_normalizers`. Logits and weights are float32; weights
are 0 for padding and for unused slots.
"""

from typing import Any

import tensorflow as tf

from electra_tf import fusion


def masked_lm_loss(
    logits: tf.Tensor, masked_ids: tf.Tensor, masked_weights: tf.Tensor
) -> tf.Tensor:
    """Sums the negative log likelihoods of `[B, P]` original tokens (eq. 2)."""
    return masked_lm_losses(logits, masked_ids, masked_weights)[0]


def masked_lm_losses(
    logits: tf.Tensor, masked_ids: tf.Tensor, masked_weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes `masked_lm_loss` and its `[B, P]` unweighted terms.

    The terms have no gradient.
    """

    @tf.custom_gradient
    def compute(logits: tf.Tensor) -> Any:
        # As the head has them: a TPU would copy `[B, P, V]`.
        flat = tf.reshape(logits, [-1, logits.shape[-1]])
        slots = (tf.reshape(t, [-1]) for t in (masked_ids, masked_weights))
        terms, slope = _score_slots(flat, *slots)
        terms = tf.reshape(terms, tf.shape(masked_ids))
        slope = tf.reshape(slope, tf.shape(logits))
        loss = tf.reduce_sum(terms * masked_weights)
        return (loss, terms), lambda upstream, _: upstream * slope

    return tuple(compute(logits))


@fusion.fused
def _score_slots(
    logits: tf.Tensor, masked_ids: tf.Tensor, masked_weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes each slot's loss and the gradient of their weighted sum."""
    largest = tf.reduce_max(logits, -1, keepdims=True)
    powers = tf.exp(logits - largest)
    total = tf.reduce_sum(powers, -1, keepdims=True)
    chosen = tf.gather(logits, masked_ids, batch_dims=1)
    log_likelihoods = chosen - tf.squeeze(tf.math.log(total) + largest, -1)
    is_chosen = tf.one_hot(masked_ids, logits.shape[-1])
    slope = (powers / total - is_chosen) * masked_weights[..., tf.newaxis]
    return -log_likelihoods, slope


def replaced_token_loss(
    logits: tf.Tensor, is_fake: tf.Tensor, token_weights: tf.Tensor
) -> tf.Tensor:
    """Sums the sigmoid cross entropies of real against replaced (eq. 3)."""
    return tf.reduce_sum(replaced_token_losses(logits, is_fake) * token_weights)


def replaced_token_losses(logits: tf.Tensor, is_fake: tf.Tensor) -> tf.Tensor:
    """Computes the sigmoid cross entropy of every token, `[B, S]`."""
    return tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(is_fake, logits.dtype), logits=logits
    )


def copying_log_likelihoods(
    logits: tf.Tensor,
    copy_logits: tf.Tensor,
    input_ids: tf.Tensor,
    original_ids: tf.Tensor,
) -> tf.Tensor:
    """Computes `[B, S]` log likelihoods with a copy mechanism (section 3.5).

    The likelihood is `D 1[x = input] + (1 - D) softmax`, with the sigmoid D of
    `copy_logits`. In log space neither factor is rounded to 0.
    """
    log_vocabulary = -tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=original_ids, logits=logits
    )
    log_predicted = log_vocabulary - tf.nn.softplus(copy_logits)
    log_copied = -tf.nn.softplus(-copy_logits)
    # log(a + b) where the input is the original, else log(b).
    return tf.where(
        input_ids == original_ids,
        tf.reduce_logsumexp(tf.stack([log_copied, log_predicted]), 0),
        log_predicted,
    )


def compute_entropy(log_probs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Sums the entropies of `[B, P, V]` distributions, in nats; a scalar."""
    log_probs = tf.stop_gradient(log_probs)
    per_slot = -tf.reduce_sum(tf.exp(log_probs) * log_probs, -1)
    return tf.reduce_sum(per_slot * weights)


@tf.custom_gradient
def reverse_gradient(inputs: tf.Tensor, factor: tf.Tensor) -> Any:
    """Returns the inputs and multiplies their gradient by `-factor`."""
    return tf.identity(inputs), lambda upstream: (-factor * upstream, None)
