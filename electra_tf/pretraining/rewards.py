"""What a generator earns for fooling the discriminator, and its gradients."""

from typing import Any

import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.pretraining import losses
from electra_tf.pretraining import sampling


def compute_rewards(
    disc_logits: tf.Tensor,
    fake: sampling.FakeData,
    masked: masking.MaskedInputs,
) -> tf.Tensor:
    """The discriminator's loss at the sampled positions, `[B, P]` float32.

    High where it was fooled. No gradient flows through it.

    Args:
        disc_logits: `[B, S]` float32.
        fake: the corrupted text.
        masked: the batch.
    """
    per_token = losses.replaced_token_losses(disc_logits, fake.is_fake_tokens)
    rewards = tf.gather(per_token, masked.masked_positions, batch_dims=1)
    return tf.stop_gradient(rewards)


def policy_gradient_loss(
    log_probs: tf.Tensor,
    rewards: tf.Tensor,
    baselines: tf.Tensor,
    weights: tf.Tensor,
) -> tf.Tensor:
    """The sum whose negative gradient is the REINFORCE estimate.

    Args:
        log_probs: `[B, P]` float32, of the samples.
        rewards: `[B, P]` float32.
        baselines: `[B, P]` float32; any that the samples do not influence
            leaves the expectation as it is.
        weights: `[B, P]` float32, 0 for unused slots.

    Returns:
        Scalar float32.
    """
    advantages = tf.stop_gradient(rewards - baselines)
    return -tf.reduce_sum(advantages * log_probs * weights)


def baseline_loss(
    logits: tf.Tensor, rewards: tf.Tensor, weights: tf.Tensor
) -> tf.Tensor:
    """Cross entropy of the baseline with exp(-reward), summed.

    Args:
        logits: `[B, P]` float32; the baseline is `-log sigmoid` of them.
        rewards: `[B, P]` float32.
        weights: `[B, P]` float32, 0 for unused slots.

    Returns:
        Scalar float32.
    """
    per_slot = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.exp(-rewards), logits=logits
    )
    return tf.reduce_sum(per_slot * weights)


def compute_entropy(log_probs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """Summed entropy of `[B, P, V]` distributions, in nats; a scalar."""
    log_probs = tf.stop_gradient(log_probs)
    per_slot = -tf.reduce_sum(tf.exp(log_probs) * log_probs, -1)
    return tf.reduce_sum(per_slot * weights)


@tf.custom_gradient
def reverse_gradient(inputs: tf.Tensor, factor: tf.Tensor) -> Any:
    """The inputs; their gradient comes back times `-factor`."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        return -factor * upstream, None

    return tf.identity(inputs), gradient
