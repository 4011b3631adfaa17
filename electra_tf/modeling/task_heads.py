"""The heads of fine-tuning (paper, section 3.1 and appendix B).

Each adds a linear layer to the encoder: on [CLS] for classification and
regression, on the first piece of each word for tagging. There is no pooler.
Losses and predictions are float32.
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
"""The dropout of [CLS] states in training (the original's keep_prob 0.9)."""

# Added to the dropout site of a head for the head's second dropout.
_SECOND_SITE = 128

QA_HIDDEN_SIZE = 512
"""The width of question answering's two hidden layers."""

# Added to the logits of positions where no answer can begin or end.
_PENALTY = -1000.0
# The logit of rows that fill up a group; their softmax is exactly 0.
_FILLER_LOGIT = -1e9
# Successive layers' seeds differ by more than those of two trials.
_SEED_STEP = 1_000_003

Tensors = Mapping[str, tf.Tensor]
_cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits


class Column(NamedTuple):
    """One feature that a head reads beside the tokens."""

    dtype: Any = np.int32  # or np.float32
    is_ragged: bool = False  # whether rows have lists, padded to `[B, W]`


class TaskHead(layers.ConfiguredLayer, abc.ABC):
    """The layers of a task on top of the encoder.

    Paths of variables begin with `task_specific/<task>/`, as in the original.

    Attributes:
        columns: the features that `compute_losses` reads beside the tokens.
            Rows of other tasks have zeros in them.
        prediction_columns: the columns that `predict` reads.
        padded_outputs: outputs of shape `[B, S or W, ...]`, each with the
            feature, `input_ids` or a ragged column, of the same second axis.
    """

    columns: Mapping[str, Column]
    prediction_columns: tuple[str, ...] = ()
    padded_outputs: Mapping[str, str] = {}

    @abc.abstractmethod
    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Computes the loss of every row, `[B]` float32, from its states.

        `hidden` are `[B, S, D]` states. A head that compares rows returns one
        loss for each group of rows; see `ComparisonHead`.
        """

    @abc.abstractmethod
    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """Computes named tensors `[B, ...]`, from which `Task.decode` reads."""


class _SentenceHead(TaskHead):
    """Dropout and a linear layer on [CLS], or two layers with gelu between."""

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
            # Two layers of one size must not start with equal weights.
            self.hidden = _output_layer(width, self.seed + 1, dtype, "hidden")
            self.hidden.build((None, width))
        self.dense.build((None, width))

    def compute_outputs(
        self, hidden: tf.Tensor, seed: layers.Seed
    ) -> tf.Tensor:
        """Computes `[B, units]` float32 from `[B, S, D]` states."""
        first = layers.dropout(hidden[:, 0], DROPOUT_PROB, seed)
        if self.has_hidden_layer:
            seed = layers.add_to_seed(seed, _SECOND_SITE)
            first = operations.gelu(self.hidden(first))
            first = layers.dropout(first, DROPOUT_PROB, seed)
        return tf.cast(self.dense(first), tf.float32)


@layers.register
class ClassificationHead(_SentenceHead):
    """Computes class logits; the loss is cross-entropy times a class weight.

    With `has_hidden_layer` a dense layer and gelu come first, as in Hugging
    Face's classifiers. `class_weights` holds a weight for each label, in the
    order of the labels, or nothing if all weights are 1.
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
        """Computes the cross-entropies of `label`, `[B]`."""
        logits = self.compute_outputs(hidden, seed)
        losses = _cross_entropy(features["label"], logits)
        if self.class_weights:
            weights = tf.constant(self.class_weights, tf.float32)
            losses *= tf.gather(weights, features["label"])
        return losses

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """Computes `logits`, `[B, num_labels]`."""
        return {"logits": self.compute_outputs(hidden, None)}


@layers.register
class RegressionHead(_SentenceHead):
    """Predicts one number; the loss is the squared error."""

    columns = {"target": Column(np.float32)}

    def __init__(
        self, seed: int, has_hidden_layer: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(1, seed, has_hidden_layer, **kwargs)

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Computes the squared errors against `target`, `[B]`."""
        numbers = self.compute_outputs(hidden, seed)[:, 0]
        return tf.square(numbers - features["target"])

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """Computes `prediction`, `[B]`."""
        return {"prediction": self.compute_outputs(hidden, None)[:, 0]}


@layers.register
class MultilabelHead(ClassificationHead):
    """Computes one logit for each label; a row may have several labels.

    `class_weights` multiply the losses of the labels that a row has.
    """

    columns = {"labels": Column(np.float32)}

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Computes the mean sigmoid cross-entropy over `labels`, `[B]`."""
        losses = tf.nn.sigmoid_cross_entropy_with_logits(
            features["labels"], self.compute_outputs(hidden, seed)
        )
        if self.class_weights:
            weights = tf.constant(self.class_weights, tf.float32)
            losses *= tf.where(features["labels"] > 0, weights, 1.0)
        return tf.reduce_mean(losses, 1)


@layers.register
class ComparisonHead(RegressionHead):
    """Computes a score for each row, trained against the rows of its group.

    A group has K rows with scores s and relevance r. Its loss is
    `- sum_k r_k / sum(r) * log softmax(s)_k`: the cross-entropy of a multiple
    choice, or ListNet's top-one loss of a ranking. Rows with a relevance of -1
    fill up a group. `relevance` is `[B, K]`, states are `[B * K, S, D]`.
    """

    columns = {"relevance": Column(np.float32)}

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Computes the groups' losses, `[B]`; 0 if no row is relevant."""
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
    """Computes words' tag logits from the states of their first pieces."""

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
        """Creates the weights for `[B, S, D]` states."""
        self.dense.build((None, input_shape[-1]))

    def compute_losses(
        self, hidden: tf.Tensor, features: Tensors, seed: layers.Seed
    ) -> tf.Tensor:
        """Sums each row's cross-entropies of `tags` by `tag_weights`, `[B]`."""
        logits = self.predict(hidden, features)["logits"]
        losses = _cross_entropy(features["tags"], logits)
        return tf.reduce_sum(losses * features["tag_weights"], 1)

    def predict(self, hidden: tf.Tensor, features: Tensors) -> dict:
        """Computes `logits`, `[B, W, num_labels]`, for W words."""
        states = masking.gather_positions(hidden, features["word_positions"])
        return {"logits": _apply(self.dense, states)}


@layers.register
class QuestionAnsweringHead(TaskHead):
    """Scores starts and ends of answers, and whether there is an answer.

    The loss of a row is the mean of the cross-entropies of start and end, plus
    `answerable_weight` times the cross-entropy of a classifier, whose logit is
    high where there is no answer. `predict` returns the `beam_size` best
    starts, with as many ends for each.

    As in the original, layers except `qa_hidden` are named `dense`, `dense_1`,
    ... in the order of their creation, so the options change the names.
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
        # Seeds and names follow the order of these calls.
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
        # Two layers of one size must not start with equal weights.
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
        """Computes the rows' losses, `[B]`, given gold starts; no dropout."""
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
        """Computes the logits of answers, with the original's names."""
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
        """Computes `[B, S]` logits of ends, in joint mode for `[B]` starts."""
        penalties = _penalties(features)
        if not self.joint_prediction:
            return _apply(self.end, hidden)[..., 0] + penalties
        start_states = tf.gather(hidden, start_positions, batch_dims=1)
        terms = self._joint_terms(start_states, hidden)
        return self._end_logits(*terms) + penalties

    def _search(
        self, hidden: tf.Tensor, features: Tensors, start_logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Finds the K best starts, `[B, K]`, and ends of each, `[B, K, K]`."""
        _, length, width = layers.shape_of(hidden)
        # XLA needs a K that is known when it compiles.
        smaller = min if isinstance(length, int) else tf.minimum
        count = smaller(self.beam_size, length)
        start_log_probs, starts = tf.math.top_k(
            tf.nn.log_softmax(start_logits), count
        )
        states = tf.gather(hidden, starts, batch_dims=1)
        start_terms, position_term = self._joint_terms(
            tf.reshape(tf.transpose(states, [1, 0, 2]), [-1, width]), hidden
        )
        penalties = _penalties(features)

        def best_ends(start_term: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            logits = self._end_logits(start_term, position_term) + penalties
            return tuple(tf.math.top_k(tf.nn.log_softmax(logits), count))

        # All starts at once would take gigabytes, [B, K, S, 512].
        end_log_probs, ends = tf.map_fn(
            best_ends,
            tf.reshape(start_terms, [count, -1, QA_HIDDEN_SIZE]),
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
        """Computes `[B]` float32 logits, high where there is no answer."""
        states = hidden[:, 0]
        if self.has_answerable_hidden:
            weights = tf.cast(tf.nn.softmax(start_logits), hidden.dtype)
            mean = tf.matmul(weights[:, tf.newaxis], hidden)[:, 0]
            joined = tf.concat([states, mean], -1)
            states = operations.gelu(self.answerable_hidden(joined))
        return tf.cast(self.answerable(states)[:, 0], tf.float32)

    def _joint_terms(
        self, start_states: tf.Tensor, hidden: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes two terms whose sum is the output of `qa_hidden`.

        They are `[N, 512]` for starts and `[B, S, 512]` for all positions.
        """
        # The kernel's first D rows multiply the states of the starts.
        batch, length, width = layers.shape_of(hidden)
        kernel, bias = (
            tf.cast(tf.convert_to_tensor(weight), hidden.dtype)
            for weight in (self.joint_hidden.kernel, self.joint_hidden.bias)
        )
        flat = tf.reshape(hidden, [-1, width])
        positions = tf.nn.bias_add(tf.matmul(flat, kernel[width:]), bias)
        starts = tf.matmul(start_states, kernel[:width])
        return starts, tf.reshape(positions, [batch, length, QA_HIDDEN_SIZE])

    def _end_logits(self, starts: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        states = operations.gelu(starts[:, tf.newaxis] + positions)
        return _apply(self.end, states)[..., 0]


def _apply(layer: layers.Linear, states: tf.Tensor) -> tf.Tensor:
    """Applies a layer to `[B, N, D]` states: `[B, N, units]` float32."""
    rows, count, width = layers.shape_of(states)
    numbers = layer(tf.reshape(states, [-1, width]))
    return tf.cast(tf.reshape(numbers, [rows, count, layer.units]), tf.float32)


def _penalties(features: Tensors) -> tf.Tensor:
    """Returns 0 at [CLS] and in the document, else -1000; `[B, S]` float32."""
    is_document = features["input_mask"] * features["segment_ids"]
    is_candidate = (is_document > 0) | (tf.range(tf.shape(is_document)[1]) == 0)
    return tf.where(is_candidate, 0.0, _PENALTY)


def _output_layer(
    units: int, seed: int, dtype: Any, name: str = "dense"
) -> layers.Linear:
    initializer = keras.initializers.GlorotUniform(seed=seed)
    return layers.Linear(units, initializer, name=name, dtype=dtype)
