"""Sampling replacements from the generator.

The Gumbel draw is the original's: with `g = -log(-log(u + 1e-9) + 1e-9)` the
index of the largest `logit + g` is a sample from the softmax of the logits.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf import fusion

_EPSILON = 1e-9


class FakeData(NamedTuple):
    """The discriminator's input and labels."""

    input_ids: tf.Tensor  # [B, S] int32, the original ids with samples put in
    is_fake_tokens: tf.Tensor  # [B, S] int32, 1 where the id is another
    sampled_tokens: tf.Tensor  # [B, P] int32, one sample per slot
    is_sampled: tf.Tensor  # [B, S] int32, 1 where a sample was put in


def gumbel_noise(uniform: tf.Tensor) -> tf.Tensor:
    """Gumbel noise from float32 numbers in [0, 1), of the same shape."""
    return -tf.math.log(-tf.math.log(uniform + _EPSILON) + _EPSILON)


def sample_from_softmax(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    """Draws from the softmax of `[..., V]` logits, without gradient."""
    noisy = _add_noise(tf.stop_gradient(logits), uniform)
    return tf.argmax(noisy, axis=-1, output_type=tf.int32)


@fusion.fused
def _add_noise(logits: tf.Tensor, uniform: tf.Tensor) -> tf.Tensor:
    return logits + gumbel_noise(uniform)
