"""Transformer blocks in two parts that run in parallel, for exports.

The products of a short text are too small for TensorFlow to split between
threads. A part is half of the heads, or half of the feed-forward units; the
block adds both parts' outputs. transformers takes 1.71 and 1.77 times as long
as an export of Small with them for one text, 1.33 and 1.28 times without.
"""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.acceleration import operations
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling.layers import Linear

NUM_PARTS = 2
"""Of a block: more wait for each other more often than they save."""


class _Part(NamedTuple):
    """Some heads of a block, or units between its feed-forward products."""

    size: int  # number of heads or units
    first: Linear
    last: Linear


class ParallelBlock:
    """A block in parts that takes another's place, for inference."""

    trainable = False

    def __init__(self, block: encoder_lib.TransformerBlock) -> None:
        heads = block.settings.num_attention_heads
        self._attention = _split(
            block.query_key_value, block.attention_output, heads, num_fused=3
        )
        self._attention_norm = block.attention_norm
        units = block.intermediate.units
        products = block.intermediate, block.output_projection
        self._feed_forward = _split(*products, units)
        self._output_norm = block.output_norm

    def __call__(
        self,
        hidden: tf.Tensor,
        attention_bias: tf.Tensor,
        dropout_seed: None = None,
    ) -> tf.Tensor:
        """Transforms `[B * S, D]` as the block does without dropout."""
        del dropout_seed  # None: an export has no dropout.
        updates = [_attend(p, hidden, attention_bias) for p in self._attention]
        hidden = self._attention_norm(tf.add_n([hidden, *updates]))
        parts = self._feed_forward
        updates = [p.last(operations.gelu(p.first(hidden))) for p in parts]
        return self._output_norm(tf.add_n([hidden, *updates]))


def replace(encoder: encoder_lib.Encoder) -> None:
    """Makes an encoder compute with parallel blocks, for inference alone."""
    with tf.device("/CPU:0"):
        blocks = [ParallelBlock(block) for block in encoder.blocks]
    places: list[Any] = encoder.blocks
    places.clear()
    places.extend(blocks)


def _attend(part: _Part, hidden: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    fused = part.first(hidden)
    query, key, value = encoder_lib.split_heads(fused, bias, part.size)
    probs = encoder_lib.compute_probs(query, key, bias)
    return part.last(encoder_lib.merge_heads(tf.matmul(probs, value)))


def _split(
    first: Linear, last: Linear, count: int, num_fused: int = 1
) -> list[_Part]:
    """Parts of two products that `count` heads or units lie between.

    The first product gives `num_fused` vectors for each of them.
    """
    kernel, bias = np.asarray(first.kernel.value), np.asarray(first.bias.value)
    output, added = np.asarray(last.kernel.value), np.asarray(last.bias.value)
    kernel = kernel.reshape([len(kernel), num_fused, count, -1])
    bias = bias.reshape([num_fused, count, -1])
    output = output.reshape([count, -1, len(added)])
    parts = []
    for chosen in np.array_split(np.arange(count), min(NUM_PARTS, count)):
        is_feed_forward = num_fused == 1
        spare = operations.count_spare_units(len(chosen)) * is_feed_forward
        columns = kernel[:, :, chosen].reshape([len(kernel), -1])
        rows = output[chosen].reshape([-1, len(added)])
        parts.append(
            _Part(
                len(chosen),
                _build_linear(
                    first,
                    np.pad(columns, [[0, 0], [0, spare]]),
                    np.pad(bias[:, chosen].ravel(), [0, spare]),
                ),
                _build_linear(last, np.pad(rows, [[0, spare], [0, 0]]), added),
            )
        )
        # It is added once.
        added = np.zeros_like(added)
    return parts


def _build_linear(like: Linear, kernel: np.ndarray, bias: np.ndarray) -> Linear:
    linear = Linear(len(bias), "zeros", name=like.name, dtype=like.dtype_policy)
    linear.build((None, len(kernel)))
    linear.kernel.assign(kernel)
    linear.bias.assign(bias)
    return linear
