"""The head of extractive question answering.

Start: one linear layer. End: either one too, or, in joint mode, two layers
on the hidden states of the start and of the place looked at; while training
that is the gold start, in prediction each of the K best. Answerability: a
classifier on [CLS], which may also see the states averaged by the starts'
probabilities (paper, appendix B; the original's `finetune/qa/qa_tasks.py`).
Positions outside the document are no candidates; [CLS] stands for no
answer. The `[B, K, S, 2D]` input of the original's joint layer is never
built: its product is a sum of a part for the start and one for the place.
"""

import itertools
from typing import Any

import keras
import tensorflow as tf

from electra_tf.modeling import layers
from electra_tf.modeling import task_heads

HIDDEN_SIZE = 512
"""Of the joint end's and of the classifier's hidden layer."""

# Added to the logits of positions that are no candidates.
_PENALTY = -1000.0
# Between the seeds of successive layers: further than trials are.
_SEED_STEP = 1_000_003


@layers.register
class QuestionAnsweringHead(task_heads.TaskHead):
    """Start, end and answerability of one question's window.

    The loss of a row is the mean of the cross-entropies of start and end, plus
    `answerable_weight` times that of the classifier, whose logit is high where
    there is no answer. `beam_size` starts, and ends for each, are kept.

    Variables are numbered as TensorFlow 1 numbered the original's: those
    called `dense`, `dense_1`, ... by the order in which they are made, so that
    options change the numbers; `qa_hidden` apart.
    """

    config_names = (
        "seed",
        "joint_prediction",
        "beam_size",
        "answerable_classifier",
        "answerable_uses_start_logits",
        "answerable_weight",
    )
    columns = {
        "start_position": task_heads.Column(),
        "end_position": task_heads.Column(),
        "is_impossible": task_heads.Column(),
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
            self.joint_hidden = self._add_linear(HIDDEN_SIZE, "qa_hidden")
        self.end = self._add_linear(1)
        if self.has_answerable_hidden:
            self.answerable_hidden = self._add_linear(HIDDEN_SIZE)
        if answerable_classifier:
            self.answerable = self._add_linear(1)

    def _add_linear(self, units: int, name: str = "") -> layers.Linear:
        # Two layers of one size must not begin alike.
        initializer = keras.initializers.GlorotUniform(seed=next(self._seeds))
        if not name:
            number = next(self._numbers)
            name = f"dense_{number}" if number else "dense"
        return layers.Linear(
            units, initializer, name=name, dtype=self.dtype_policy
        )

    def build(self, input_shape: Any) -> None:
        """Creates the weights for `[B, S, D]` states."""
        width = input_shape[-1]
        self.start.build((None, width))
        if self.joint_prediction:
            self.joint_hidden.build((None, 2 * width))
        self.end.build((None, HIDDEN_SIZE if self.joint_prediction else width))
        if self.has_answerable_hidden:
            self.answerable_hidden.build((None, 2 * width))
        if self.answerable_classifier:
            is_wide = self.has_answerable_hidden
            self.answerable.build((None, HIDDEN_SIZE if is_wide else width))

    def compute_losses(
        self,
        hidden: tf.Tensor,
        features: task_heads.Tensors,
        seed: tf.Tensor | None,
    ) -> tf.Tensor:
        """The loss of every row, `[B]`, with the gold start; no dropout."""
        del seed
        start = features["start_position"]
        start_logits = self.compute_start_logits(hidden, features)
        end_logits = self.compute_end_logits(hidden, features, start)
        losses = 0.5 * (
            _cross_entropy(start, start_logits)
            + _cross_entropy(features["end_position"], end_logits)
        )
        if not self.answerable_classifier:
            return losses
        return losses + self.answerable_weight * (
            tf.nn.sigmoid_cross_entropy_with_logits(
                tf.cast(features["is_impossible"], tf.float32),
                self._answerable_logits(hidden, start_logits),
            )
        )

    def predict(self, hidden: tf.Tensor, features: task_heads.Tensors) -> dict:
        """What answers are read off; names as in the original's results."""
        start_logits = self.compute_start_logits(hidden, features)
        outputs = {"start_logits": start_logits}
        if self.joint_prediction:
            outputs |= self._search(hidden, features, start_logits)
        else:
            ends = self.compute_end_logits(hidden, features, None)
            outputs["end_logits"] = ends
        if self.answerable_classifier:
            outputs["answerable_logit"] = self._answerable_logits(
                hidden, start_logits
            )
        return outputs

    def compute_start_logits(
        self, hidden: tf.Tensor, features: task_heads.Tensors
    ) -> tf.Tensor:
        """`[B, S]` float32, 1000 less outside the document."""
        return _apply(self.start, hidden) + _penalties(features)

    def compute_end_logits(
        self,
        hidden: tf.Tensor,
        features: task_heads.Tensors,
        start_positions: tf.Tensor | None,
    ) -> tf.Tensor:
        """`[B, S]` float32; in joint mode given the starts, `[B]` int32."""
        penalties = _penalties(features)
        if not self.joint_prediction:
            return _apply(self.end, hidden) + penalties
        start_states = tf.gather(hidden, start_positions, batch_dims=1)
        start_part, place_part = self._joint_parts(start_states, hidden)
        return self._end_logits(start_part, place_part) + penalties

    def _search(
        self,
        hidden: tf.Tensor,
        features: task_heads.Tensors,
        start_logits: tf.Tensor,
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
            tf.reshape(start_parts, [count, -1, HIDDEN_SIZE]),
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
            states = layers.gelu(
                self.answerable_hidden(tf.concat([states, mean], -1))
            )
        return tf.cast(self.answerable(states)[:, 0], tf.float32)

    def _joint_parts(
        self, start_states: tf.Tensor, hidden: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """What starts (`[N, 512]`) and places (`[B, S, 512]`) add to it."""
        # The kernel's first D rows are those of the start.
        batch, length, width = layers.shape_of(hidden)
        kernel, bias = (
            tf.cast(tf.convert_to_tensor(weight), hidden.dtype)
            for weight in (self.joint_hidden.kernel, self.joint_hidden.bias)
        )
        flat = tf.reshape(hidden, [-1, width])
        places = tf.nn.bias_add(tf.matmul(flat, kernel[width:]), bias)
        return (
            tf.matmul(start_states, kernel[:width]),
            tf.reshape(places, [batch, length, HIDDEN_SIZE]),
        )

    def _end_logits(
        self, start_part: tf.Tensor, place_part: tf.Tensor
    ) -> tf.Tensor:
        states = layers.gelu(start_part[:, tf.newaxis] + place_part)
        return _apply(self.end, states)


def _apply(layer: layers.Linear, states: tf.Tensor) -> tf.Tensor:
    batch, length, width = layers.shape_of(states)
    numbers = layer(tf.reshape(states, [-1, width]))
    return tf.cast(tf.reshape(numbers, [batch, length]), tf.float32)


def _penalties(features: task_heads.Tensors) -> tf.Tensor:
    """0 at [CLS] and in the document, -1000 elsewhere, `[B, S]` float32."""
    is_document = features["input_mask"] * features["segment_ids"]
    is_first = tf.range(tf.shape(is_document)[1]) == 0
    is_candidate = (is_document > 0) | is_first
    return tf.where(is_candidate, 0.0, _PENALTY)


def _cross_entropy(positions: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(positions, logits)
