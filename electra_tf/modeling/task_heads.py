"""The heads of fine-tuning: losses and predictions from hidden states.

One linear layer each, as in the paper (appendix B) and in the original: on the
last layer's [CLS] for classification and regression, on the first piece of
each word for tagging. There is no pooler; a hidden layer is for models of
Hugging Face's, whose classifiers have one. The head of question answering has
a file of its own, `question_answering_head`. Losses and logits are float32.
"""

import abc
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.modeling import layers

DROPOUT_PROB = 0.1
"""Of [CLS] before the output layer, while training (the original's 0.9)."""

# The second place of dropout of a head; heads are numbered from the first.
_SECOND_SITE = 128

Tensors = Mapping[str, tf.Tensor]


class Column(NamedTuple):
    """One feature that a head reads beside the tokens."""

    dtype: Any = np.int32  # or np.float32
    is_ragged: bool = False  # a list in each row, `[B, W]`, or one, `[B]`


class TaskHead(keras.layers.Layer, abc.ABC):
    """What a task puts on top of the encoder.

    Variables are built under `task_specific/<task>/`, the original's names.

    Attributes:
        config_names: the constructor's arguments, kept as attributes.
        columns: the features that `compute_losses` reads beside the tokens. A
            row of another task has zeros in all of them.
        prediction_columns: those of them that `predict` reads.
        padded_outputs: outputs `[B, S or W, ...]`, each with the feature whose
            length the axis has: `input_ids`, or a ragged column.
    """

    config_names: tuple[str, ...] = ()
    columns: Mapping[str, Column]
    prediction_columns: tuple[str, ...] = ()
    padded_outputs: Mapping[str, str] = {}

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        own = {name: getattr(self, name) for name in self.config_names}
        return super().get_config() | own

    @abc.abstractmethod
    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: tf.Tensor | None
    ) -> tf.Tensor:
        """The loss of every row, `[B]` float32, from the last layer's states.

        Those are `[B, S, D]`. Features are tokens and `columns`.
        """

    @abc.abstractmethod
    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """Name to tensor `[B, ...]`, for `Task.decode`."""


class _SentenceHead(TaskHead):
    """One linear layer on [CLS], after dropout; or two with gelu between."""

    def __init__(
        self, units: int, seed: int, has_hidden_layer: bool, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.seed = seed
        self.has_hidden_layer = has_hidden_layer
        self.dense = _output_layer(units, seed, self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Creates the layers for `[B, S, D]` states."""
        width = input_shape[-1]
        if self.has_hidden_layer:
            # Two layers of one size must not begin alike.
            self.hidden = _output_layer(
                width, self.seed + 1, self.dtype_policy, "hidden"
            )
            self.hidden.build((None, width))
        self.dense.build((None, width))

    def compute_outputs(
        self, hidden: tf.Tensor, seed: tf.Tensor | None
    ) -> tf.Tensor:
        """`[B, units]` float32."""
        first = layers.dropout(hidden[:, 0], DROPOUT_PROB, seed)
        if self.has_hidden_layer:
            seed = layers.add_to_seed(seed, _SECOND_SITE)
            first = layers.gelu(self.hidden(first))
            first = layers.dropout(first, DROPOUT_PROB, seed)
        return tf.cast(self.dense(first), tf.float32)


@layers.register
class ClassificationHead(_SentenceHead):
    """Class logits; the loss is cross-entropy.

    With `has_hidden_layer` a dense layer with gelu, D wide, stands before the
    output, as in Hugging Face's classifiers. `seed` is that of the weights.
    """

    config_names = ("num_labels", "seed", "has_hidden_layer")
    columns = {"label": Column()}

    def __init__(
        self,
        num_labels: int,
        seed: int,
        has_hidden_layer: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, seed, has_hidden_layer, **kwargs)
        self.num_labels = num_labels

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Cross-entropy of `label`, `[B]`."""
        logits = self.compute_outputs(hidden, seed)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["label"], logits
        )

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """`logits`, `[B, num_labels]`."""
        return {"logits": self.compute_outputs(hidden, None)}


@layers.register
class RegressionHead(_SentenceHead):
    """One number; the loss is the squared error."""

    config_names = ("seed", "has_hidden_layer")
    columns = {"target": Column(np.float32)}

    def __init__(
        self, seed: int, has_hidden_layer: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(1, seed, has_hidden_layer, **kwargs)

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Squared error against `target`, `[B]`."""
        numbers = self.compute_outputs(hidden, seed)[:, 0]
        return tf.square(numbers - features["target"])

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """`prediction`, `[B]`."""
        return {"prediction": self.compute_outputs(hidden, None)[:, 0]}


@layers.register
class TaggingHead(TaskHead):
    """Logits of every word's tag at its first piece, without dropout.

    The loss of a row is the sum of its words' cross-entropies, as in the
    original.
    """

    config_names = ("num_labels", "seed")
    columns = {
        "word_positions": Column(is_ragged=True),
        "tags": Column(is_ragged=True),
        "tag_weights": Column(np.float32, is_ragged=True),
    }
    prediction_columns = ("word_positions",)
    padded_outputs = {"logits": "word_positions"}

    def __init__(self, num_labels: int, seed: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_labels = num_labels
        self.seed = seed
        self.dense = _output_layer(num_labels, seed, self.dtype_policy)

    def build(self, input_shape: Any) -> None:
        """Creates the layer for `[B, S, D]` states."""
        self.dense.build((None, input_shape[-1]))

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Cross-entropies of `tags`, added up by `tag_weights`, `[B]`."""
        del seed
        logits = self.predict(hidden, features)["logits"]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["tags"], logits
        )
        return tf.reduce_sum(losses * features["tag_weights"], 1)

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """`logits`, `[B, W, num_labels]`, for W words."""
        vectors = masking.gather_positions(hidden, features["word_positions"])
        rows, words, width = layers.shape_of(vectors)
        logits = self.dense(tf.reshape(vectors, [-1, width]))
        logits = tf.reshape(logits, [rows, words, self.num_labels])
        return {"logits": tf.cast(logits, tf.float32)}


def _output_layer(
    units: int, seed: int, dtype: Any, name: str = "dense"
) -> layers.Linear:
    return layers.Linear(
        units,
        keras.initializers.GlorotUniform(seed=seed),
        name=name,
        dtype=dtype,
    )
