"""The heads of fine-tuning: losses and predictions, float32, from states.

One linear layer each, as in the paper (appendix B) and in the original: on
[CLS] for classification and regression, on the first piece of each word for
tagging. There is no pooler.
"""

import abc
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.acceleration import operations
from electra_tf.inputs import masking
from electra_tf.modeling import layers

DROPOUT_PROB = 0.1
"""Of [CLS] before the output layer, while training (the original's 0.9)."""

# The second place of dropout of a head; heads are numbered from the first.
_SECOND_SITE = 128

QA_HIDDEN_SIZE = 512
"""Hidden layers of question answering: the joint end's, the classifier's."""

# Added to the logits of positions that are no candidates.
_PENALTY = -1000.0
# The logit of what only fills a group: its share is exactly 0.
_FILLER_LOGIT = -1e9
# Between the seeds of successive layers: further than trials are.
_SEED_STEP = 1_000_003

Tensors = Mapping[str, tf.Tensor]
_cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits


class Column(NamedTuple):
    """One feature that a head reads beside the tokens."""

    dtype: Any = np.int32  # or np.float32
    # A list in each row, `[B, W]`; or one number, `[B]`, or always k, `[B, k]`
    is_ragged: bool = False


class TaskHead(layers.ConfiguredLayer, abc.ABC):
    """The layers of a task on top of the encoder.

    Variables are built under `task_specific/<task>/`, the original's names.

    Attributes:
        columns: the features that `compute_losses` reads beside the tokens. A
            row of another task has zeros in all of them.
        prediction_columns: those of them that `predict` reads.
        padded_outputs: outputs `[B, S or W, ...]`, each with the feature whose
            length the axis has: `input_ids`, or a ragged column.
    """

    columns: Mapping[str, Column]
    prediction_columns: tuple[str, ...] = ()
    padded_outputs: Mapping[str, str] = {}

    @abc.abstractmethod
    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """The loss of every row, `[B]` float32, from `[B, S, D]` states.

        B counts groups where rows belong together, see `ComparisonHead`.
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
        width, dtype = input_shape[-1], self.dtype_policy
        if self.has_hidden_layer:
            # Two layers of one size must not begin alike.
            self.hidden = _output_layer(width, self.seed + 1, dtype, "hidden")
            self.hidden.build((None, width))
        self.dense.build((None, width))

    def compute_outputs(
        self, hidden: tf.Tensor, seed: layers.Seed
    ) -> tf.Tensor:
        """`[B, units]` float32."""
        first = layers.dropout(hidden[:, 0], DROPOUT_PROB, seed)
        if self.has_hidden_layer:
            seed = layers.add_to_seed(seed, _SECOND_SITE)
            first = operations.gelu(self.hidden(first))
            first = layers.dropout(first, DROPOUT_PROB, seed)
        return tf.cast(self.dense(first), tf.float32)


@layers.register
class ClassificationHead(_SentenceHead):
    """Class logits; the loss is cross-entropy, times the weight of the class.

    `has_hidden_layer`: dense and gelu before, as in Hugging Face's classifiers.
    `class_weights` are of all labels, in their order; empty if all are 1.
    """

    columns = {"label": Column()}

    def __init__(
        self,
        num_labels: int,
        seed: int,
        has_hidden_layer: bool = False,
        class_weights: Sequence[float] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(num_labels, seed, has_hidden_layer, **kwargs)
        self.num_labels = num_labels
        self.class_weights = tuple(class_weights)

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Cross-entropy of `label`, `[B]`."""
        logits = self.compute_outputs(hidden, seed)
        losses = _cross_entropy(features["label"], logits)
        if self.class_weights:
            weights = tf.constant(self.class_weights, tf.float32)
            losses *= tf.gather(weights, features["label"])
        return losses

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """`logits`, `[B, num_labels]`."""
        return {"logits": self.compute_outputs(hidden, None)}


@layers.register
class RegressionHead(_SentenceHead):
    """One number; the loss is the squared error."""

    columns = {"target": Column(np.float32)}

    def __init__(
        self, seed: int, has_hidden_layer: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(1, seed, has_hidden_layer, **kwargs)

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Squared error against `target`, `[B]`."""
        numbers = self.compute_outputs(hidden, seed)[:, 0]
        return tf.square(numbers - features["target"])

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """`prediction`, `[B]`."""
        return {"prediction": self.compute_outputs(hidden, None)[:, 0]}


@layers.register
class MultilabelHead(ClassificationHead):
    """Logits of labels of which any number holds.

    `class_weights` weigh the losses of labels that hold.
    """

    columns = {"labels": Column(np.float32)}

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Sigmoid cross-entropy of `labels`, their mean, `[B]`."""
        losses = tf.nn.sigmoid_cross_entropy_with_logits(
            features["labels"], self.compute_outputs(hidden, seed)
        )
        if self.class_weights:
            weights = tf.constant(self.class_weights, tf.float32)
            losses *= tf.where(features["labels"] > 0, weights, 1.0)
        return tf.reduce_mean(losses, 1)


@layers.register
class ComparisonHead(RegressionHead):
    """A score of each row, which is learned against the others of its group.

    With scores s and relevance r of K rows the loss of a group is
    `- sum_k r_k / sum(r) * log softmax(s)_k`, the cross-entropy of a choice, or
    ListNet's top-one loss with shares of the relevance as targets. Rows with a
    `relevance`, `[B, K]`, of -1 only fill it. States are `[B * K, S, D]`.
    """

    columns = {"relevance": Column(np.float32)}

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Cross-entropy of every group, `[B]`; 0 if nothing is relevant."""
        relevance = features["relevance"]
        scores = self.compute_outputs(hidden, seed)
        scores = tf.reshape(scores, layers.shape_of(relevance))
        gains = tf.maximum(relevance, 0.0)
        total = tf.reduce_sum(gains, 1, keepdims=True)
        return tf.nn.softmax_cross_entropy_with_logits(
            tf.math.divide_no_nan(gains, total),
            tf.where(relevance < 0, _FILLER_LOGIT, scores),
        )


@layers.register
class TaggingHead(TaskHead):
    """Logits of words' tags at first pieces; their losses are added up."""

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
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Cross-entropies of `tags`, added up by `tag_weights`, `[B]`."""
        logits = self.predict(hidden, features)["logits"]
        losses = _cross_entropy(features["tags"], logits)
        return tf.reduce_sum(losses * features["tag_weights"], 1)

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """`logits`, `[B, W, num_labels]`, for W words."""
        states = masking.gather_positions(hidden, features["word_positions"])
        return {"logits": _apply(self.dense, states)}


@layers.register
class QuestionAnsweringHead(TaskHead):
    """Start, end and answerability of one question's window.

    The loss of a row is the mean of the cross-entropies of start and end, plus
    `answerable_weight` times that of the classifier, whose logit is high where
    there is no answer. `beam_size` starts, and ends for each, are kept.

    Variables are numbered as TensorFlow 1 numbered the original's: those
    called `dense`, `dense_1`, ... by the order in which they are made, so that
    options change the numbers; `qa_hidden` apart.
    """

    columns = {
        "start_position": Column(),
        "end_position": Column(),
        "is_impossible": Column(),
    }

    def __init__(
        self,
        seed: int,
        joint_prediction: bool = True,
        beam_size: int = 20,
        answerable_classifier: bool = True,
        answerable_uses_start_logits: bool = True,
        answerable_weight: float = 0.5,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._numbers = itertools.count()
        self._seeds = itertools.count(seed, _SEED_STEP)
        self.seed = seed
        self.joint_prediction = joint_prediction
        self.beam_size = beam_size
        self.answerable_classifier = answerable_classifier
        self.answerable_uses_start_logits = answerable_uses_start_logits
        self.answerable_weight = answerable_weight
        self.padded_outputs = {"start_logits": "input_ids"}
        if not joint_prediction:
            self.padded_outputs["end_logits"] = "input_ids"
        self.has_answerable_hidden = (
            answerable_classifier and answerable_uses_start_logits
        )
        # In this order, by which seeds and numbers follow.
        self.start = self._add_linear(1)
        if joint_prediction:
            self.joint_hidden = self._add_linear(QA_HIDDEN_SIZE, "qa_hidden")
        self.end = self._add_linear(1)
        if self.has_answerable_hidden:
            self.answerable_hidden = self._add_linear(QA_HIDDEN_SIZE)
        if answerable_classifier:
            self.answerable = self._add_linear(1)

    def _add_linear(self, units: int, name: str = "") -> layers.Linear:
        if not name:
            number = next(self._numbers)
            name = f"dense_{number}" if number else "dense"
        # Two layers of one size must not begin alike.
        return _output_layer(units, next(self._seeds), self.dtype_policy, name)

    def build(self, input_shape: Any) -> None:
        """Creates the weights for `[B, S, D]` states."""
        width = input_shape[-1]
        self.start.build((None, width))
        if self.joint_prediction:
            self.joint_hidden.build((None, 2 * width))
        inner = QA_HIDDEN_SIZE if self.joint_prediction else width
        self.end.build((None, inner))
        if self.has_answerable_hidden:
            self.answerable_hidden.build((None, 2 * width))
        if self.answerable_classifier:
            inner = QA_HIDDEN_SIZE if self.has_answerable_hidden else width
            self.answerable.build((None, inner))

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """The loss of every row, `[B]`, with the gold start; no dropout."""
        start = features["start_position"]
        start_logits = self._start_logits(hidden, features)
        end_logits = self.compute_end_logits(hidden, features, start)
        losses = _cross_entropy(start, start_logits)
        losses += _cross_entropy(features["end_position"], end_logits)
        losses *= 0.5
        if not self.answerable_classifier:
            return losses
        no_answer = tf.nn.sigmoid_cross_entropy_with_logits(
            tf.cast(features["is_impossible"], tf.float32),
            self._answerable_logits(hidden, start_logits),
        )
        return losses + self.answerable_weight * no_answer

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """Logits to read answers from, named as in the original's results."""
        start_logits = self._start_logits(hidden, features)
        outputs = {"start_logits": start_logits}
        if self.joint_prediction:
            outputs |= self._search(hidden, features, start_logits)
        else:
            ends = self.compute_end_logits(hidden, features, None)
            outputs["end_logits"] = ends
        if self.answerable_classifier:
            logits = self._answerable_logits(hidden, start_logits)
            outputs["answerable_logit"] = logits
        return outputs

    def _start_logits(self, hidden: tf.Tensor, features: Tensors) -> tf.Tensor:
        return _apply(self.start, hidden)[..., 0] + _penalties(features)

    def compute_end_logits(
        self,
        hidden: tf.Tensor,
        features: Tensors,
        start_positions: tf.Tensor | None,
    ) -> tf.Tensor:
        """`[B, S]` float32; in joint mode given the starts, `[B]` int32."""
        penalties = _penalties(features)
        if not self.joint_prediction:
            return _apply(self.end, hidden)[..., 0] + penalties
        start_states = tf.gather(hidden, start_positions, batch_dims=1)
        parts = self._joint_parts(start_states, hidden)
        return self._end_logits(*parts) + penalties

    def _search(
        self, hidden: tf.Tensor, features: Tensors, start_logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """The K best starts, `[B, K]`, and ends for each, `[B, K, K]`."""
        _, length, width = layers.shape_of(hidden)
        # XLA wants to know K, if it can be known.
        smaller = min if isinstance(length, int) else tf.minimum
        count = smaller(self.beam_size, length)
        start_log_probs, starts = tf.math.top_k(
            tf.nn.log_softmax(start_logits), count
        )
        states = tf.gather(hidden, starts, batch_dims=1)
        start_parts, place_part = self._joint_parts(
            tf.reshape(tf.transpose(states, [1, 0, 2]), [-1, width]), hidden
        )
        penalties = _penalties(features)

        def best_ends(start_part: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            logits = self._end_logits(start_part, place_part) + penalties
            return tuple(tf.math.top_k(tf.nn.log_softmax(logits), count))

        # All starts at once would take [B, K, S, 512]: gigabytes.
        end_log_probs, ends = tf.map_fn(
            best_ends,
            tf.reshape(start_parts, [count, -1, QA_HIDDEN_SIZE]),
            fn_output_signature=(tf.float32, tf.int32),
            parallel_iterations=1,
        )
        return {
            "start_top_log_probs": start_log_probs,
            "start_top_index": starts,
            "end_top_log_probs": tf.transpose(end_log_probs, [1, 0, 2]),
            "end_top_index": tf.transpose(ends, [1, 0, 2]),
        }

    def _answerable_logits(
        self, hidden: tf.Tensor, start_logits: tf.Tensor
    ) -> tf.Tensor:
        """`[B]` float32, high where there is no answer."""
        states = hidden[:, 0]
        if self.has_answerable_hidden:
            weights = tf.cast(tf.nn.softmax(start_logits), hidden.dtype)
            mean = tf.matmul(weights[:, tf.newaxis], hidden)[:, 0]
            both = tf.concat([states, mean], -1)
            states = operations.gelu(self.answerable_hidden(both))
        return tf.cast(self.answerable(states)[:, 0], tf.float32)

    def _joint_parts(
        self, start_states: tf.Tensor, hidden: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Terms of the layer's input: starts, `[N, 512]`, and `[B, S, 512]`."""
        # The kernel's first D rows are those of the start.
        batch, length, width = layers.shape_of(hidden)
        kernel, bias = (
            tf.cast(tf.convert_to_tensor(weight), hidden.dtype)
            for weight in (self.joint_hidden.kernel, self.joint_hidden.bias)
        )
        flat = tf.reshape(hidden, [-1, width])
        places = tf.nn.bias_add(tf.matmul(flat, kernel[width:]), bias)
        starts = tf.matmul(start_states, kernel[:width])
        return starts, tf.reshape(places, [batch, length, QA_HIDDEN_SIZE])

    def _end_logits(self, starts: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
        states = operations.gelu(starts[:, tf.newaxis] + places)
        return _apply(self.end, states)[..., 0]


def _apply(layer: layers.Linear, states: tf.Tensor) -> tf.Tensor:
    """`[B, N, units]` float32 of `[B, N, D]` states."""
    rows, count, width = layers.shape_of(states)
    numbers = layer(tf.reshape(states, [-1, width]))
    return tf.cast(tf.reshape(numbers, [rows, count, layer.units]), tf.float32)


def _penalties(features: Tensors) -> tf.Tensor:
    """0 at [CLS] and in the document, -1000 elsewhere, `[B, S]` float32."""
    is_document = features["input_mask"] * features["segment_ids"]
    is_candidate = (is_document > 0) | (tf.range(tf.shape(is_document)[1]) == 0)
    return tf.where(is_candidate, 0.0, _PENALTY)


def _output_layer(
    units: int, seed: int, dtype: Any, name: str = "dense"
) -> layers.Linear:
    initializer = keras.initializers.GlorotUniform(seed=seed)
    return layers.Linear(units, initializer, name=name, dtype=dtype)
