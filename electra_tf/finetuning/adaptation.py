"""Freezes layers of an encoder, and adds LoRA's adapters."""

import re
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.modeling import encoder as encoder_lib

# Maps a layer of a block to the projections that its output concatenates.
_LAYERS = {
    "attention/self/qkv": ("query", "key", "value"),
    "attention/output/dense": ("attention_output",),
    "intermediate/dense": ("intermediate",),
    "output/dense": ("output",),
}


def freeze(encoder: encoder_lib.Encoder, num_layers: int) -> None:
    """Freezes the embeddings and the lowest layers; -1 freezes all layers.

    Frozen layers have no dropout.
    """
    layers = [encoder.embeddings, encoder.embeddings_project, *encoder.blocks]
    count = {-1: len(layers), 0: 0}.get(num_layers, num_layers + 2)
    for layer in layers[:count]:
        if layer is not None:
            layer.trainable = False


class _Adapter(NamedTuple):
    kernel: keras.Variable  # `[in, all projections * columns]`
    base: keras.Variable  # value of `kernel` before training
    one_hot: tf.Tensor  # `[n, all projections]`, the n adapted projections
    a: keras.Variable  # `[n, in, rank]`
    b: keras.Variable  # `[n, rank, columns]`


class LoRA:
    """Adapters of an encoder (https://arxiv.org/abs/2106.09685).

    A kernel W `[in, out]` becomes W + alpha / rank * A B. At first A is uniform
    within `in ** -0.5`, as in the authors' code, and B is 0. A and B are saved
    in checkpoints, but are no weights of the encoder.
    """

    def __init__(self) -> None:
        self._scale = 0.0
        self._adapters: list[_Adapter] = []

    def adapt(
        self,
        encoder: encoder_lib.Encoder,
        options: finetuning_config.LoRAConfig,
        seed: int,
    ) -> None:
        """Freezes the weights of the encoder and adds the adapters.

        Dropout stays. Layers that were already frozen get no adapters. Call
        this method in the scope of the encoder's strategy.
        """
        rank, self._scale = options.rank, options.alpha / options.rank
        for number, kernel in enumerate(encoder.trainable_variables):
            kernel.trainable = False
            layer, _, kind = kernel.path.rpartition("/")
            names = _LAYERS.get(re.sub(r".*/layer_\d+/", "", layer), ())
            indices = [i for i, n in enumerate(names) if n in options.names]
            if not indices or kind != "kernel":
                continue
            (rows, columns), r = kernel.shape, kernel.shape[0] ** -0.5
            init = keras.initializers.RandomUniform(-r, r, seed + number)
            base = keras.Variable(kernel.numpy(), trainable=False)
            with keras.name_scope("lora", override_parent=layer):
                a = keras.Variable(init, (len(indices), rows, rank), name="a")
                shape = len(indices), rank, columns // len(names)
                b = keras.Variable("zeros", shape, name="b")
            one_hot = tf.one_hot(indices, len(names))
            self._adapters.append(_Adapter(kernel, base, one_hot, a, b))

    @property
    def variables(self) -> dict[str, keras.Variable]:
        """Maps the path of each A and B to its variable."""
        return {v.path: v for pair in self._adapters for v in (pair.a, pair.b)}

    def compute_kernels(self) -> list[tuple[keras.Variable, tf.Tensor]]:
        """Computes W + alpha / rank * A B for each adapted kernel."""
        kernels = []
        for kernel, base, one_hot, a, b in self._adapters:
            change = tf.einsum("nir,nrc,np->ipc", a.value, b.value, one_hot)
            change = self._scale * tf.reshape(change, kernel.shape)
            kernels.append((kernel, base.value + change))
        return kernels

    def merge(self) -> None:
        """Adds the adapters to the kernels of the encoder."""
        for kernel, total in self.compute_kernels():
            kernel.assign(total)
