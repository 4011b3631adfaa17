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
    """Freezes the embeddings and the lowest layers; -1 all. Dropout ends."""
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

    W + alpha / rank * A B stands in the place of a kernel W `[in, out]`. A is
    uniform within `in ** -0.5`, as in the authors' code, B is 0 at first. They
    are a training's own, like moments, and no weights of the encoder.
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
        """Freezes the encoder and adapts the layers that were not frozen.

        Dropout stays. To be called in the scope of the encoder's strategy.
        """
        rank, self._scale = options.rank, options.alpha / options.rank
        for number, kernel in enumerate(encoder.trainable_variables):
            kernel.trainable = False
            layer, _, kind = kernel.path.rpartition("/")
            names = _LAYERS.get(re.sub(r".*/layer_\d+/", "", layer), ())
            own = [i for i, n in enumerate(names) if n in options.names]
            if not own or kind != "kernel":
                continue
            n, rows, columns = len(own), kernel.shape[0], kernel.shape[1]
            r = rows**-0.5
            init = keras.initializers.RandomUniform(-r, r, seed + number)
            base = keras.Variable(kernel.numpy(), trainable=False)
            with keras.name_scope("lora", override_parent=layer):
                a = keras.Variable(init, (n, rows, rank), name="a")
                shape = n, rank, columns // len(names)
                b = keras.Variable("zeros", shape, name="b")
            parts = tf.one_hot(own, len(names))
            self._adapters.append(_Adapter(kernel, base, parts, a, b))

    @property
    def variables(self) -> dict[str, keras.Variable]:
        """All A and B, by path."""
        pairs = [(adapter.a, adapter.b) for adapter in self._adapters]
        return {v.path: v for pair in pairs for v in pair}

    def compute_kernels(self) -> list[tuple[keras.Variable, tf.Tensor]]:
        """The adapted kernels, each with the sum that stands for it."""
        kernels = []
        for kernel, base, parts, a, b in self._adapters:
            change = tf.einsum("nir,nrc,np->ipc", a.value, b.value, parts)
            change = self._scale * tf.reshape(change, kernel.shape)
            kernels.append((kernel, base.value + change))
        return kernels

    def merge(self) -> None:
        """Puts the sums into the kernels, whose own values nothing reads."""
        for kernel, total in self.compute_kernels():
            kernel.assign(total)
