"""Which weights a fine-tuning trains: all, upper layers, or LoRA's adapters.

A frozen layer has no dropout: it computes what it computes at inference.

LoRA (https://arxiv.org/abs/2106.09685) freezes the encoder with its dropout
on, and adds to a kernel W `[in, out]` a product of two small matrices:

    W + alpha / rank * A B        A [in, rank], B [rank, out]

A is uniform within `in ** -0.5`, as in the authors' code, and B is 0 at first.
The sum takes the place of W in the layer, whatever computes with it. That
costs one gradient of W's size; adding `x A B` to the layer's output would cost
passes over the activations instead.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import networks

# The kernel of a projection in its block, which part of the columns it has,
# and of how many: query, key and value share a kernel.
_PLACES = {
    "query": ("attention/self/qkv", 0, 3),
    "key": ("attention/self/qkv", 1, 3),
    "value": ("attention/self/qkv", 2, 3),
    "attention_output": ("attention/output/dense", 0, 1),
    "intermediate": ("intermediate/dense", 0, 1),
    "output": ("output/dense", 0, 1),
}


def freeze(encoder: encoder_lib.Encoder, num_layers: int) -> None:
    """Freezes the embeddings and the lowest layers; -1 freezes them all."""
    depth = len(encoder.blocks)
    if num_layers > depth:
        raise ValueError(
            f"`training.frozen_layers` must be at most {depth}, the layers of "
            f"the encoder; -1 freezes them all. Received: {num_layers}."
        )
    if num_layers < 0:
        encoder.trainable = False
    elif num_layers > 0:
        lowest = encoder.embeddings, encoder.embeddings_project
        for layer in (*lowest, *encoder.blocks[:num_layers]):
            if layer is not None:
                layer.trainable = False


class _Adapter(NamedTuple):
    kernel: keras.Variable
    first_column: int
    a: keras.Variable
    b: keras.Variable


class LoRA:
    """The adapters of an encoder, which they freeze.

    They are a training's own, like an optimizer's moments: the encoder has
    none of them as its weights. Layers that are frozen before get none. Build
    them in the scope of the encoder's strategy.
    """

    def __init__(
        self,
        options: finetuning_config.LoRAConfig,
        encoder: encoder_lib.Encoder,
        seed: int,
    ) -> None:
        rank = options.rank
        self._scale = options.alpha / rank
        self._adapters: list[_Adapter] = []
        kernels = {v.path: v for v in encoder.trainable_variables}
        for variable in encoder.variables:
            variable.trainable = False
        for number in range(len(encoder.blocks)):
            for name in options.projection_names:
                layer = f"encoder/layer_{number}"
                path, part, num_parts = _PLACES[name]
                path = f"{networks.MAIN_ENCODER}/{layer}/{path}/kernel"
                if path not in kernels:  # of a frozen layer
                    continue
                rows, columns = kernels[path].shape
                columns //= num_parts
                initializer = keras.initializers.VarianceScaling(
                    1 / 3, "fan_in", "uniform", seed + len(self._adapters)
                )
                with keras.name_scope(name, override_parent=f"lora/{layer}"):
                    a = keras.Variable(initializer, (rows, rank), name="a")
                    b = keras.Variable("zeros", (rank, columns), name="b")
                first = part * columns
                self._adapters.append(_Adapter(kernels[path], first, a, b))

    @property
    def variables(self) -> list[keras.Variable]:
        """All A and B; their paths begin with `lora/`."""
        return [v for own in self._adapters for v in (own.a, own.b)]

    def compute_kernels(self) -> dict[str, tuple[keras.Variable, tf.Tensor]]:
        """Returns kernels by path, each with its sum with the adapters."""
        kernels = [own.kernel for own in self._adapters]
        found = {k.path: (k, tf.convert_to_tensor(k)) for k in kernels}
        for kernel, first, a, b in self._adapters:
            change = self._scale * tf.matmul(a.value, b.value)
            last = kernel.shape[1] - first - b.shape[1]
            change = tf.pad(change, [[0, 0], [first, last]])
            found[kernel.path] = kernel, found[kernel.path][1] + change
        return found

    def applied(self) -> keras.StatelessScope:
        """Returns a scope in which the sums stand for the kernels."""
        return keras.StatelessScope([*self.compute_kernels().values()])

    def merge(self) -> None:
        """Puts the sums into the kernels, and 0 into every B."""
        for kernel, value in self.compute_kernels().values():
            kernel.assign(value)
        for own in self._adapters:
            own.b.assign(tf.zeros(own.b.shape))
