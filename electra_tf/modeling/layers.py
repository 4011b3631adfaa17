"""The small layers that encoder and heads are made of.

Written as few large operations on `[tokens, width]` matrices: a step of a
small model on a CPU spends as much time between matrix products as in them.
"""

import dataclasses
import functools
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import fusion
from electra_tf import lookups
from electra_tf.inputs import randomness

LAYER_NORM_EPSILON = 1e-12
# Parameters of constructors that a saved layer does not keep.
_NO_SETTINGS = ("self", "kwargs", "embeddings", "encoder")

EncoderInputs: TypeAlias = Sequence[tf.Tensor]
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
        None if seed is None else seed + tf.constant([0, 0, number], tf.int64)
    )


def look_up(table: Any, ids: tf.Tensor) -> tf.Tensor:
    """Rows of a variable, or of a quantized table with its own `look_up`."""
    if hasattr(table, "look_up"):
        return table.look_up(ids)
    return lookups.look_up(tf.convert_to_tensor(table), ids)


@tf.custom_gradient
def gelu(inputs: tf.Tensor) -> Any:
    """Gaussian error linear unit with the exact error function.

    The tanh approximation differs by up to 5e-4, more than a converted
    checkpoint may. In float32. The gradient is written out because TensorFlow's
    own makes twice as many passes over the widest activations.
    """
    return _gelu(inputs), lambda upstream: _gelu_gradient(inputs, upstream)


@fusion.fused
def _gelu(inputs: tf.Tensor) -> tf.Tensor:
    return _apply_to_each(_compute_gelu, inputs)


@fusion.fused
def _gelu_gradient(inputs: tf.Tensor, upstream: tf.Tensor) -> tf.Tensor:
    return upstream * _apply_to_each(_compute_gelu_slope, inputs)


def _compute_gelu(inputs: tf.Tensor) -> tf.Tensor:
    exact = tf.cast(inputs, tf.float32)
    probability = 0.5 + 0.5 * tf.math.erf(exact * math.sqrt(0.5))
    return tf.cast(exact * probability, inputs.dtype)


def _compute_gelu_slope(inputs: tf.Tensor) -> tf.Tensor:
    # d/dx x P(x) = P(x) + x exp(-x^2 / 2) / sqrt(2 pi)
    scaled = tf.cast(inputs, tf.float32) * math.sqrt(0.5)
    bell = scaled * tf.exp(-tf.square(scaled))
    probability = 0.5 + 0.5 * tf.math.erf(scaled)
    slope = probability + bell * (1.0 / math.sqrt(math.pi))
    return tf.cast(slope, inputs.dtype)


def _apply_to_each(
    function: Callable[[tf.Tensor], tf.Tensor], inputs: tf.Tensor
) -> tf.Tensor:
    """The function of each entry; what is compiled looks up bfloat16's."""
    is_compiled = (
        fusion.compiles(fusion.Scope.LOOPS) and inputs.shape.is_fully_defined()
    )
    if inputs.dtype != tf.bfloat16 or not is_compiled:
        return function(inputs)
    bits = tf.bitcast(inputs, tf.uint16)
    values = tf.gather(_tabulate(function), tf.cast(bits, tf.int32))
    return tf.cast(values, inputs.dtype)


@functools.cache
def _tabulate(function: Callable[[tf.Tensor], tf.Tensor]) -> np.ndarray:
    """Results for all bfloat16 numbers, in the order of their 16 bits."""
    with tf.init_scope():
        bits = tf.cast(tf.range(2**16), tf.uint16)
        values = function(tf.bitcast(bits, tf.bfloat16))
        # So that what reads them needs no cast; they are rounded already.
        return tf.cast(values, tf.float32).numpy()


class Choice(NamedTuple):
    """Which entries of a tensor dropout keeps.

    Sixteen random bits decide an entry, half of what a float would need: the
    rate is exact to 1/65536.
    """

    kept: tf.Tensor  # `inputs.randomness.draw_kept`, or float32 factors
    scale: float  # of what is kept

    @classmethod
    def draw(
        cls, shape: Sequence[Any], rate: float, seed: Seed
    ) -> "Choice | tuple[()]":
        """For a tensor of rows of the batch, or of tokens; () for all."""
        threshold = round(rate * 65536)
        if seed is None or threshold == 0:
            return ()
        kept = randomness.draw_kept(shape, seed, threshold)
        scale = 65536 / (65536 - threshold)
        if fusion.compiles(fusion.Scope.LOOPS, fusion.Scope.STEP):
            return cls(kept, scale)
        # Each use would compute them anew, and so would the gradient.
        return cls(scale * tf.cast(kept, tf.float32), 1.0)


def dropout(inputs: tf.Tensor, rate: float, seed: Seed) -> tf.Tensor:
    """Zeroes a random share of the entries and scales up the others.

    Without a seed or rate the inputs are returned.
    """
    return drop(inputs, *Choice.draw(shape_of(inputs), rate, seed))


@fusion.fused
def drop(inputs: tf.Tensor, *choice: Any) -> tf.Tensor:
    """Zeroes what a `Choice` does not keep; the inputs without one."""
    if not choice:
        return inputs
    factors, scale = choice
    if factors.dtype != tf.float32:
        kept = randomness.unpack_kept(factors, inputs.shape[-1])
        factors = scale * tf.cast(kept, tf.float32)
    return tf.cast(tf.cast(inputs, tf.float32) * factors, inputs.dtype)


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

    def call(
        self, inputs: tf.Tensor, spare: tuple[int, int] = (0, 0)
    ) -> tf.Tensor:
        """Maps `[N, in]` to `[N, units]`; both have `spare` columns of 0."""
        kernel, bias = map(tf.convert_to_tensor, (self.kernel, self.bias))
        if any(spare):
            kernel = tf.pad(kernel, [[0, number] for number in spare])
            bias = tf.pad(bias, [[0, spare[1]]])
        return tf.nn.bias_add(tf.matmul(inputs, kernel), bias)

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

    def call(
        self,
        inputs: tf.Tensor,
        update: tf.Tensor | None = None,
        rate: float = 0.0,
        dropout_seed: Seed = None,
    ) -> tf.Tensor:
        """Normalizes each row of `[N, width]`.

        An `update` of the same shape is added first, after dropout at `rate`
        with the seed, so that both are one loop where XLA compiles them.
        """
        choice: Any = ()
        if update is not None:
            choice = Choice.draw(shape_of(update), rate, dropout_seed)
        added = [] if update is None else [update]

        @tf.custom_gradient
        def normalize(
            inputs: tf.Tensor,
            gamma: tf.Tensor,
            beta: tf.Tensor,
            *added: tf.Tensor,
        ) -> Any:
            outputs, *kept = _normalize(inputs, gamma, beta, *added, *choice)

            def gradient(upstream: tf.Tensor) -> Any:
                found = _normalize_gradient(upstream, gamma, *kept, *choice)
                return found[: 3 + len(added)]

            return outputs, gradient

        vectors = map(tf.convert_to_tensor, (self.gamma, self.beta))
        return normalize(inputs, *vectors, *added)


@fusion.fused
def _normalize(
    inputs: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    update: tf.Tensor | None = None,
    *choice: Any,
) -> tuple[tf.Tensor, ...]:
    """Outputs; for the gradient the sum, and factors and shifts `[N, 1]`."""
    total = inputs if update is None else inputs + drop(update, *choice)
    exact = tf.cast(total, tf.float32)
    mean = tf.reduce_mean(exact, -1, keepdims=True)
    centered = exact - mean
    variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
    inverse = tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
    outputs = centered * inverse * gamma + beta
    return tf.cast(outputs, inputs.dtype), total, inverse, -mean * inverse


@fusion.fused
def _normalize_gradient(
    upstream: tf.Tensor,
    gamma: tf.Tensor,
    total: tf.Tensor,
    inverse: tf.Tensor,
    shift: tf.Tensor,
    *choice: Any,
) -> tuple[tf.Tensor, ...]:
    """Of the inputs, `gamma`, `beta` and the update.

    Written out because automatic differentiation of the same formula makes
    three times as many passes over the activations.
    """
    exact = tf.cast(upstream, tf.float32)
    # Not as `centered`: XLA would compute it, for a GPU, together with the sum
    # over rows, and write it for the sum over columns (docs/performance.md).
    normalized = tf.cast(total, tf.float32) * inverse + shift
    scaled = exact * gamma
    mean_scaled = tf.reduce_mean(scaled, -1, keepdims=True)
    mean_projected = tf.reduce_mean(scaled * normalized, -1, keepdims=True)
    slope = inverse * (scaled - mean_scaled - normalized * mean_projected)
    slope = tf.cast(slope, upstream.dtype)
    of_gamma = tf.reduce_sum(exact * normalized, 0)
    return slope, of_gamma, tf.reduce_sum(exact, 0), drop(slope, *choice)
