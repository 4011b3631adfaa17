"""Which weights a fine-tuning trains: all, upper layers, or LoRA's adapters."""

import re
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.modeling import encoder as encoder_lib

# The layers of a block, and the projections that share the columns of each.
_LAYERS = {
    "attention/self/qkv": ("query", "key", "value"),
    "attention/output/dense": ("attention_output",),
    "intermediate/dense": ("intermediate",),
    "output/dense": ("output",),
}


def freeze(encoder: encoder_lib.Encoder, num_layers: int) -> None:
    """Freezes the embeddings and the lowest layers, or with -1 all layers.

    What is frozen has no dropout.
    """
    parts = [encoder.embeddings, encoder.embeddings_project, *encoder.blocks]
    count = {-1: len(parts), 0: 0}.get(num_layers, num_layers + 2)
    for part in parts[:count]:
        if part is not None:
            part.trainable = False


class _Adapter(NamedTuple):
    kernel: keras.Variable  # `[in, all parts * columns]`
    base: keras.Variable  # the same, as it was before training
    parts: tf.Tensor  # one-hot, of the n adapted parts among all
    a: keras.Variable  # `[n, in, rank]`
    b: keras.Variable  # `[n, rank, columns]`


class LoRA:
    """Adapters of an encoder (https://arxiv.org/abs/2106.09685), none at first.

    A kernel W `[in, out]` becomes W + alpha / rank * A B. A begins uniform
    within `in ** -0.5`, as in the authors' code, B at 0. They belong to the
    training, like moments, and are no weights of the encoder.
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
        """Freezes the encoder, but not its dropout, and adds the adapters.

        Layers that were frozen before get none. Call it in the scope of the
        encoder's strategy.
        """
        rank, self._scale = options.rank, options.alpha / options.rank
        for number, kernel in enumerate(encoder.trainable_variables):
            kernel.trainable = False
            layer, _, kind = kernel.path.rpartition("/")
            names = _LAYERS.get(re.sub(r".*/layer_\d+/", "", layer), ())
            own = [i for i, n in enumerate(names) if n in options.names]
            if not own or kind != "kernel":
                continue
            (rows, columns), r = kernel.shape, kernel.shape[0] ** -0.5
            init = keras.initializers.RandomUniform(-r, r, seed + number)
            base = keras.Variable(kernel.numpy(), trainable=False)
            with keras.name_scope("lora", override_parent=layer):
                a = keras.Variable(init, (len(own), rows, rank), name="a")
                shape = len(own), rank, columns // len(names)
                b = keras.Variable("zeros", shape, name="b")
            parts = tf.one_hot(own, len(names))
            self._adapters.append(_Adapter(kernel, base, parts, a, b))

    @property
    def variables(self) -> dict[str, keras.Variable]:
        """All A and B, by path."""
        return {v.path: v for own in self._adapters for v in (own.a, own.b)}

    def compute_kernels(self) -> list[tuple[keras.Variable, tf.Tensor]]:
        """Computes the value of each adapted kernel with its adapters."""
        kernels = []
        for kernel, base, parts, a, b in self._adapters:
            change = tf.einsum("nir,nrc,np->ipc", a.value, b.value, parts)
            change = self._scale * tf.reshape(change, kernel.shape)
            kernels.append((kernel, base.value + change))
        return kernels

    def merge(self) -> None:
        """Assigns to each kernel its value with its adapters."""
        for kernel, total in self.compute_kernels():
            kernel.assign(total)
