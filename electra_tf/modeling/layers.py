"""Linear layers, LayerNorm and dropout, on `[tokens, width]` matrices.

Encoder and heads are made of them; the initializers and epsilon are BERT's.
"""

import dataclasses
import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from electra_tf import config
from electra_tf.acceleration import operations
from electra_tf.acceleration import random_bits

# Parameters of constructors that `get_config` leaves out.
_NO_SETTINGS = ("self", "kwargs", "embeddings", "encoder")

Inputs: TypeAlias = Sequence[tf.Tensor]
"""`input_ids`, `input_mask` and `segment_ids`, `[B, S]` int32 each."""

Seed: TypeAlias = tf.Tensor | None
"""`[3]` int64 from `inputs.randomness.dropout_seed`; None for no dropout."""

register = keras.saving.register_keras_serializable("electra_tf")
"""Decorates a class that Keras then finds by name in a saved model."""


def dtype_policy(precision: str) -> str:
    """Returns the Keras policy of a precision; weights are always float32."""
    return "float32" if precision == "float32" else f"mixed_{precision}"


def require_memory(num_weights: int) -> None:
    """Raises `ConfigError` if memory cannot hold so many float32 weights."""
    room = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    needed = 4e-9 * num_weights
    config.require(
        needed <= room or not tf.executing_eagerly(),
        f"The model must fit this machine's memory of {room:.1f} GB. Received: "
        f"{num_weights:,} weights, {needed:,.1f} GB. Choose smaller sizes; "
        "electra-plan prints the memory that a model takes.",
    )


def shape_of(tensor: tf.Tensor) -> list[Any]:
    """Returns the shape as a list, with static sizes where they are known."""
    if tensor.shape.is_fully_defined():
        return tensor.shape.as_list()
    dynamic = tf.shape(tensor)
    return [
        dynamic[axis] if size is None else size
        for axis, size in enumerate(tensor.shape)
    ]


def add_to_seed(seed: Seed, number: int | tf.Tensor) -> Seed:
    """Returns the seed of dropout site `number`; see `dropout_seed`."""
    if seed is None:
        return None
    return seed + tf.stack([0, 0, tf.cast(number, tf.int64)])


def look_up(table: Any, ids: tf.Tensor) -> tf.Tensor:
    """Returns `table[ids]`; quantized tables bring their own `look_up`."""
    if hasattr(table, "look_up"):
        return table.look_up(ids)
    return operations.look_up(tf.convert_to_tensor(table), ids)


def draw_kept(
    shape: Sequence[Any], rate: float, seed: Seed
) -> tf.Tensor | None:
    """Draws the entries that dropout keeps; None keeps all.

    Sixteen random bits decide on each, so rates are multiples of 1/65536. The
    first axis is rows or tokens of the batch; `[n, 3]` seeds put an axis before
    it. All are kept where there is no seed or the rate is 0.
    """
    threshold = round(rate * 65536)
    if seed is None or threshold == 0:
        return None
    return random_bits.draw_kept(shape, seed, threshold)


def dropout(inputs: tf.Tensor, rate: float, seed: Seed) -> tf.Tensor:
    """Zeroes a random share of the entries and scales up the others."""
    return operations.drop(
        inputs, draw_kept(shape_of(inputs), rate, seed), rate
    )


class ConfiguredLayer(keras.layers.Layer):
    """A layer with an attribute for each argument of its constructor."""

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, without tied layers."""
        names = inspect.signature(type(self).__init__).parameters
        saved = [name for name in names if name not in _NO_SETTINGS]
        return super().get_config() | {n: getattr(self, n) for n in saved}


class SizedLayer(ConfiguredLayer):
    """A layer with an encoder's sizes, a mapping if Keras loads the layer."""

    def __init__(
        self, settings: config.EncoderConfig | Mapping[str, Any], **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if isinstance(settings, Mapping):
            settings = config.EncoderConfig(**settings)
        self.settings = settings

    def make_linear(self, name: str, units: int) -> "Linear":
        """Returns a linear layer with the encoder's initializer."""
        initializer = self.make_initializer()
        return Linear(units, initializer, name=name, dtype=self.dtype_policy)

    def make_initializer(self) -> keras.initializers.Initializer:
        """Returns a normal initializer truncated at 2 standard deviations."""
        stddev = self.settings.initializer_stddev
        return keras.initializers.TruncatedNormal(stddev=stddev)

    def make_norm(self) -> "LayerNorm":
        """Returns a LayerNorm with the original's name."""
        return LayerNorm(name="LayerNorm", dtype=self.dtype_policy)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, with the sizes as a mapping."""
        sizes = dataclasses.asdict(self.settings)
        return super().get_config() | {"settings": sizes}


@register
class Linear(keras.layers.Layer):
    """Computes `x @ kernel + bias`; the default initializer is TF 1's."""

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
        shape = input_shape[-1], self.units
        self.kernel = self.add_weight(
            shape, self.kernel_initializer, name="kernel"
        )
        self.bias = self.add_weight(shape[1:], "zeros", name="bias")

    def read_weights(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns kernel and bias in the compute dtype of the calling layer."""
        kernel, bias = map(tf.convert_to_tensor, (self.kernel, self.bias))
        return kernel, bias

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps `[N, in]` to `[N, units]`."""
        kernel, bias = self.read_weights()
        return tf.nn.bias_add(tf.matmul(inputs, kernel), bias)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        initializer = keras.initializers.serialize(self.kernel_initializer)
        arguments = {"units": self.units, "kernel_initializer": initializer}
        return super().get_config() | arguments


@register
class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, epsilon 1e-12, in float32."""

    def build(self, input_shape: tuple[int | None, ...]) -> None:
        """Creates `gamma` and `beta`, `[width]`, always float32."""
        self.gamma, self.beta = (
            self.add_weight(input_shape[-1:], kind, name=name, autocast=False)
            for name, kind in (("gamma", "ones"), ("beta", "zeros"))
        )

    def call(
        self,
        inputs: tf.Tensor,
        update: tf.Tensor | None = None,
        kept: tf.Tensor | None = None,
        rate: float = 0.0,
    ) -> tf.Tensor:
        """Normalizes each row of `[N, width]`.

        An `update` of the same shape is added first, after dropout: `kept` is
        the result of `draw_kept` at the rate.
        """
        gamma, beta = map(tf.convert_to_tensor, (self.gamma, self.beta))
        choice = () if update is None else (kept, rate)
        return operations.normalize(inputs, gamma, beta, update, choice)
