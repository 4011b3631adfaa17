"""The small layers that encoder and heads are made of.

Written as few large operations on `[tokens, width]` matrices: a step of a
small model on a CPU spends as much time between matrix products as in them.
"""

import dataclasses
import inspect
import math
import os
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import keras
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import randomness

LAYER_NORM_EPSILON = 1e-12
# Parameters of constructors that a saved layer does not keep.
_NO_SETTINGS = ("self", "kwargs", "embeddings", "encoder")

Rows: TypeAlias = Sequence[tf.Tensor]
"""`input_ids`, `input_mask` and `segment_ids`, `[B, S]` int32 each."""

Seed: TypeAlias = tf.Tensor | None
"""Of dropout, `[3]` int64 (`inputs.randomness.dropout_seed`); None for none."""

register = keras.saving.register_keras_serializable("electra_tf")
"""Lets Keras load a saved layer or model by its name."""


def dtype_policy(precision: str) -> str:
    """The Keras policy of a precision: weights always stay float32."""
    return "float32" if precision == "float32" else f"mixed_{precision}"


def require_memory(num_weights: int) -> None:
    """Raises `ConfigError` for float32 weights that the machine cannot hold."""
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    needed = 4e-9 * num_weights
    config.require(
        needed <= room or not tf.executing_eagerly(),
        f"The model must fit this machine's memory of {room:.1f} GB. Received: "
        f"{num_weights:,} numbers to keep, {needed:,.1f} GB. Choose smaller "
        "sizes; electra-plan says what a model takes.",
    )


def shape_of(tensor: tf.Tensor) -> list[Any]:
    """The shape as a list, with static sizes where they are known."""
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    dynamic = tf.shape(tensor)
    return [
        dynamic[axis] if size is None else size
        for axis, size in enumerate(tensor.shape)
    ]


def add_to_seed(seed: Seed, number: int) -> Seed:
    """The seed of a dropout site; see `inputs.randomness.dropout_seed`."""
    return (
        None if seed is None else seed + tf.constant([0, number, 0], tf.int64)
    )


def look_up(table: Any, ids: tf.Tensor) -> tf.Tensor:
    """Rows of a variable, or of a quantized table with its own `look_up`."""
    if hasattr(table, "look_up"):
        return table.look_up(ids)
    return tf.gather(tf.convert_to_tensor(table), ids)


@tf.custom_gradient
def gelu(inputs: tf.Tensor) -> Any:
    """Gaussian error linear unit with the exact error function.

    The tanh approximation differs by up to 5e-4, more than a converted
    checkpoint may. In float32. The gradient is written out because TensorFlow's
    own makes twice as many passes over the widest activations.
    """
    exact = tf.cast(inputs, tf.float32)
    scaled = exact * math.sqrt(0.5)
    probability = 0.5 + 0.5 * tf.math.erf(scaled)

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        # d/dx x P(x) = P(x) + x exp(-x^2 / 2) / sqrt(2 pi)
        bell = scaled * tf.exp(-tf.square(scaled))
        slope = probability + bell * (1.0 / math.sqrt(math.pi))
        return upstream * tf.cast(slope, inputs.dtype)

    return tf.cast(exact * probability, inputs.dtype), gradient


def dropout(inputs: tf.Tensor, rate: float, seed: Seed) -> tf.Tensor:
    """Zeroes a random share of the entries and scales up the others.

    Sixteen random bits decide an entry, half of what a float would need: the
    rate is exact to 1/65536. Without a seed or rate the inputs are returned.
    The first axis is that of the batch's rows, or of all their tokens.
    """
    threshold = round(rate * 65536)
    if seed is None or threshold == 0:
        return inputs
    shape = shape_of(inputs)
    bits = randomness.dropout_bits(shape[0], math.prod(shape[1:]), seed)
    is_kept = tf.reshape(bits >= threshold, shape)
    scale = tf.constant(65536 / (65536 - threshold), inputs.dtype)
    return inputs * (tf.cast(is_kept, inputs.dtype) * scale)


class ConfiguredLayer(keras.layers.Layer):
    """A layer whose attributes keep its constructor's arguments, by name."""

    def get_config(self) -> dict[str, Any]:
        """The arguments; a layer made of them shares weights with no other."""
        names = inspect.signature(type(self).__init__).parameters
        own = [name for name in names if name not in _NO_SETTINGS]
        return super().get_config() | {n: getattr(self, n) for n in own}


class SizedLayer(ConfiguredLayer):
    """A layer with the sizes of an encoder, a mapping where Keras loads it."""

    def __init__(
        self, settings: config.EncoderConfig | Mapping[str, Any], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if isinstance(settings, Mapping):
            settings = config.EncoderConfig(**settings)
        self.settings = settings

    def make_linear(self, name: str, units: int) -> "Linear":
        """A linear layer with the encoder's initializer."""
        initializer = self.make_initializer()
        return Linear(units, initializer, name=name, dtype=self.dtype_policy)

    def make_initializer(self) -> keras.initializers.Initializer:
        """The encoder's: normal, cut at two standard deviations."""
        stddev = self.settings.initializer_stddev
        return keras.initializers.TruncatedNormal(stddev=stddev)

    def make_norm(self) -> "LayerNorm":
        """A normalization, named as in the original."""
        return LayerNorm(name="LayerNorm", dtype=self.dtype_policy)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, the sizes as a mapping."""
        sizes = dataclasses.asdict(self.settings)
        return super().get_config() | {"settings": sizes}


@register
class Linear(keras.layers.Layer):
    """`y = x @ kernel + bias`; the default initializer is TensorFlow 1's."""

    def __init__(
        self,
        units: int,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.kernel_initializer = keras.initializers.get(kernel_initializer)

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates `kernel` `[in, units]` and `bias` `[units]`."""
        self.kernel = self.add_weight(
            name="kernel",
            shape=(input_shape[-1], self.units),
            initializer=self.kernel_initializer,
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.units,), initializer="zeros"
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps `[N, in]` to `[N, units]`."""
        product = tf.matmul(inputs, tf.convert_to_tensor(self.kernel))
        return tf.nn.bias_add(product, tf.convert_to_tensor(self.bias))

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {
            "units": self.units,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
        }


@register
class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, epsilon 1e-12, in float32."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates `gamma` and `beta`, `[width]`, never cast down."""
        shape = (input_shape[-1],)
        self.gamma = self.add_weight(
            name="gamma", shape=shape, initializer="ones", autocast=False
        )
        self.beta = self.add_weight(
            name="beta", shape=shape, initializer="zeros", autocast=False
        )

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalizes each row of `[N, width]`."""
        normalized = _layer_norm(
            tf.cast(inputs, tf.float32),
            tf.convert_to_tensor(self.gamma),
            tf.convert_to_tensor(self.beta),
        )
        return tf.cast(normalized, self.compute_dtype)


@tf.custom_gradient
def _layer_norm(inputs: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> Any:
    # The gradient is written out because automatic differentiation of the
    # same formula makes three times as many passes over the activations.
    centered = inputs - tf.reduce_mean(inputs, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
    inverse = tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
    normalized = centered * inverse

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
        projected = upstream * normalized
        scaled = upstream * gamma
        mean_scaled = tf.reduce_mean(scaled, -1, keepdims=True)
        mean_projected = tf.reduce_mean(projected * gamma, -1, keepdims=True)
        inputs_gradient = inverse * (
            scaled - mean_scaled - normalized * mean_projected
        )
        return (
            inputs_gradient,
            tf.reduce_sum(projected, 0),
            tf.reduce_sum(upstream, 0),
        )

    return normalized * gamma + beta, gradient
