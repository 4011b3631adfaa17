"""Transformer blocks in parts that run side by side, as exports compute them.

A product of the few rows of a short text cannot be shared out to threads: what
its parts wait for each other costs more than they save. A whole block can:
some heads with their columns of the first kernel and their rows of the second,
from the block's input to what is added to it, and likewise some of the units
between the two products of the feed-forward part. A block then waits twice,
and what lies between the products is shared out as well. Sums are those of the
original block in another order.

Rows of a multiple of 4,096 bytes all begin in the same few lines of a cache,
those of 2,048 bytes in twice as many, and a product of that width takes up to
twice as long as one a little wider (256 x 256 x 1024 floats 3.4 ms, with 1,040
columns 1.6 ms; AMD EPYC, one thread). The units of a feed-forward part are
nobody else's, so such a width gets some more columns, of zeros: gelu leaves
them zero, and the second product adds them up as zeros.

Biases and normalization are constants of the graph: nearly two thirds of a
block's variables, and each costs a short text about as much as an operation.
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

# Floats between two addresses that share the lines of a cache.
_COLLIDING_WIDTH = 512
_NUM_MORE_COLUMNS = 16


class _Constant:
    """What layers read like the vector whose place it takes.

    Args:
        variable: `[width]` float32, copied.
        dtype: of what is read.
    """

    def __init__(self, variable: Any, dtype: str) -> None:
        self._values = np.asarray(variable.value)
        self._dtype = tf.as_dtype(dtype)

    def __tf_tensor__(
        self, dtype: tf.DType | None = None, name: str | None = None
    ) -> tf.Tensor:
        """All of it."""
        return tf.cast(tf.constant(self._values), dtype or self._dtype, name)


class _Attention(NamedTuple):
    """Some heads of a block.

    Attributes:
        num_heads: how many.
        query_key_value: theirs, `[D, 3 * width of the heads]`.
        output: from them, `[width of the heads, D]`.
    """

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
    """Some inner units of a block.

    Attributes:
        intermediate: to them, `[D, units]`.
        output: from them, `[units, D]`.
    """

    intermediate: layers.Linear
    output: layers.Linear

    def __call__(self, hidden: tf.Tensor) -> tf.Tensor:
        """What they add to `[B * S, D]`."""
        return self.output(layers.gelu(self.intermediate(hidden)))


class ParallelBlock:
    """A block that takes another's place, for inference.

    Args:
        block: with its weights; gives up its normalization.
        num_parts: of the attention and of the feed-forward part; fewer where
            there are not as many heads.
    """

    def __init__(
        self,
        block: encoder_lib.TransformerBlock,
        num_parts: int = NUM_PARTS,
    ) -> None:
        self._attention = _split_attention(block, num_parts)
        self._attention_norm = _with_constants(block.attention_norm)
        self._feed_forward = _split_feed_forward(block, num_parts)
        self._output_norm = _with_constants(block.output_norm)

    @property
    def layers(self) -> list[Any]:
        """The Keras layers that hold its variables, all of them kernels."""
        return [
            *(layer for part in self._attention for layer in part[1:]),
            *(layer for part in self._feed_forward for layer in part),
        ]

    @property
    def variables(self) -> list[tf.Variable]:
        """What it reads."""
        return [layer.kernel.value for layer in self.layers]

    def __call__(
        self,
        hidden: tf.Tensor,
        attention_bias: tf.Tensor,
        dropout_seed: None = None,
    ) -> tf.Tensor:
        """Transforms `[B * S, D]` as the block does without dropout."""
        del dropout_seed  # None: nothing drops out of an export.
        updates = [part(hidden, attention_bias) for part in self._attention]
        hidden = self._attention_norm(tf.add_n([hidden, *updates]))
        updates = [part(hidden) for part in self._feed_forward]
        return self._output_norm(tf.add_n([hidden, *updates]))


def replace(encoder: encoder_lib.Encoder) -> list[tf.Variable]:
    """Has an encoder compute with parallel blocks from now on.

    Args:
        encoder: with its weights, for inference from now on.

    Returns:
        Variables that the blocks read in place of all that they had.
    """
    with tf.device("/CPU:0"):
        blocks = [ParallelBlock(block) for block in encoder.blocks]
    places: list[Any] = encoder.blocks
    places.clear()
    places.extend(blocks)
    return [variable for block in blocks for variable in block.variables]


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
        more = 0 if len(units) % _COLLIDING_WIDTH else _NUM_MORE_COLUMNS
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
    """A layer `[in, units]` with these weights, computing as another does."""
    linear = layers.Linear(
        len(bias), "zeros", name=like.name, dtype=like.dtype_policy
    )
    linear.build((None, len(kernel)))
    linear.kernel.assign(kernel)
    linear.bias.assign(bias)
    return _with_constants(linear)


def _with_constants(layer: Any) -> Any:
    """The layer, whose vectors are no variables any more."""
    for name, variable in list(vars(layer).items()):
        if isinstance(variable, keras.Variable) and len(variable.shape) == 1:
            # Normalization reads its own in float32.
            dtype = layer.compute_dtype if name == "bias" else "float32"
            setattr(layer, name, _Constant(variable, dtype))
    return layer
