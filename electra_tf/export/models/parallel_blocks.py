"""Transformer blocks in parts that run side by side, as exports compute them.

A product of the few rows of a short text is too small to be shared out to
threads: its parts wait for each other longer than they save. Here a part is
some heads, or some units of the feed-forward layer, from the block's input to
what is added to it. A block then waits twice. Sums are those of the original
block in another order. docs/performance.md has what each step here saved.
"""

from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import layers

NUM_PARTS = 2
"""Of a block: more wait for each other more often than they save."""

# Rows of a multiple of 2,048 bytes (512 floats) begin in the same few lines of
# a cache, and a product of that width takes up to twice as long as one a
# little wider. Feed-forward parts of such a width get more units, with zeros
# for weights: gelu keeps their outputs zero.
_COLLIDING_WIDTH = 512
_NUM_MORE_UNITS = 16


class _Constant:
    """A constant of the graph that layers read like a vector variable.

    Biases and normalization are nearly two thirds of a block's variables, and
    to read one costs a short text about as much as an operation.
    """

    def __init__(self, variable: Any, dtype: str) -> None:
        self._values = np.asarray(variable.value)
        self._dtype = tf.as_dtype(dtype)

    def __tf_tensor__(
        self, dtype: tf.DType | None = None, name: str | None = None
    ) -> tf.Tensor:
        """The whole vector."""
        return tf.cast(tf.constant(self._values), dtype or self._dtype, name)


class _Attention(NamedTuple):
    """Some heads of a block, and how many they are."""

    num_heads: int
    query_key_value: layers.Linear
    output: layers.Linear

    def __call__(self, hidden: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
        """What they add to `[B * S, D]`."""
        fused = self.query_key_value(hidden)
        query, key, value = encoder_lib.split_heads(fused, bias, self.num_heads)
        probs = encoder_lib.compute_probs(query, key, bias)
        return self.output(encoder_lib.merge_heads(tf.matmul(probs, value)))


class _FeedForward(NamedTuple):
    """Some units between the two feed-forward products of a block."""

    intermediate: layers.Linear
    output: layers.Linear

    def __call__(self, hidden: tf.Tensor) -> tf.Tensor:
        """What they add to `[B * S, D]`."""
        return self.output(layers.gelu(self.intermediate(hidden)))


class ParallelBlock:
    """A block in parts that takes another's place, for inference."""

    def __init__(
        self, block: encoder_lib.TransformerBlock, num_parts: int = NUM_PARTS
    ) -> None:
        self._attention = _split_attention(block, num_parts)
        self._attention_norm = _with_constants(block.attention_norm)
        self._feed_forward = _split_feed_forward(block, num_parts)
        self._output_norm = _with_constants(block.output_norm)

    def __call__(
        self,
        hidden: tf.Tensor,
        attention_bias: tf.Tensor,
        dropout_seed: None = None,
    ) -> tf.Tensor:
        """Transforms `[B * S, D]` as the block does without dropout."""
        del dropout_seed  # None: an export has no dropout.
        updates = [part(hidden, attention_bias) for part in self._attention]
        hidden = self._attention_norm(tf.add_n([hidden, *updates]))
        updates = [part(hidden) for part in self._feed_forward]
        return self._output_norm(tf.add_n([hidden, *updates]))


def replace(encoder: encoder_lib.Encoder, num_parts: int = NUM_PARTS) -> None:
    """Makes an encoder compute with parallel blocks, for inference alone."""
    with tf.device("/CPU:0"):
        blocks = [ParallelBlock(block, num_parts) for block in encoder.blocks]
    places: list[Any] = encoder.blocks
    places.clear()
    places.extend(blocks)


def _split_attention(
    block: encoder_lib.TransformerBlock, num_parts: int
) -> list[_Attention]:
    count = block.settings.num_attention_heads
    kernel, bias = _values_of(block.query_key_value)
    kernel = kernel.reshape([len(kernel), 3, count, -1])
    bias = bias.reshape([3, count, -1])
    output, output_bias = _values_of(block.attention_output)
    output = output.reshape([count, -1, output.shape[-1]])
    parts = []
    for heads in np.array_split(np.arange(count), min(num_parts, count)):
        first = _build_linear(
            block.query_key_value,
            kernel[:, :, heads].reshape([len(kernel), -1]),
            bias[:, heads].ravel(),
        )
        second = _build_linear(
            block.attention_output,
            output[heads].reshape([-1, output.shape[-1]]),
            output_bias,
        )
        parts.append(_Attention(len(heads), first, second))
        # It is added once.
        output_bias = np.zeros_like(output_bias)
    return parts


def _split_feed_forward(
    block: encoder_lib.TransformerBlock, num_parts: int
) -> list[_FeedForward]:
    kernel, bias = _values_of(block.intermediate)
    output, output_bias = _values_of(block.output_projection)
    parts = []
    for units in np.array_split(np.arange(len(bias)), num_parts):
        more = 0 if len(units) % _COLLIDING_WIDTH else _NUM_MORE_UNITS
        first = _build_linear(
            block.intermediate,
            np.pad(kernel[:, units], [[0, 0], [0, more]]),
            np.pad(bias[units], [0, more]),
        )
        second = _build_linear(
            block.output_projection,
            np.pad(output[units], [[0, more], [0, 0]]),
            output_bias,
        )
        parts.append(_FeedForward(first, second))
        # It is added once.
        output_bias = np.zeros_like(output_bias)
    return parts


def _values_of(linear: layers.Linear) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(linear.kernel.value), np.asarray(linear.bias.value)


def _build_linear(
    like: layers.Linear, kernel: np.ndarray, bias: np.ndarray
) -> layers.Linear:
    """A layer `[in, units]` with these weights and another's dtypes."""
    linear = layers.Linear(
        len(bias), "zeros", name=like.name, dtype=like.dtype_policy
    )
    linear.build((None, len(kernel)))
    linear.kernel.assign(kernel)
    linear.bias.assign(bias)
    return _with_constants(linear)


def _with_constants(layer: Any) -> Any:
    """The layer, with constants instead of its vectors."""
    for name, variable in list(vars(layer).items()):
        if isinstance(variable, keras.Variable) and len(variable.shape) == 1:
            # Normalization reads its own in float32.
            dtype = layer.compute_dtype if name == "bias" else "float32"
            setattr(layer, name, _Constant(variable, dtype))
    return layer
