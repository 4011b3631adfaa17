"""A short fine-tune of the whole encoder: a measure, not a best result.

The head is that of the paper (appendix B): one linear layer on the last
layer's [CLS], after dropout, for classification; and on the first piece of
each word, without dropout, for tagging, as in the original's code. Optimizer
and schedule are those of pre-training with warm-up over the first tenth; all
layers have the same rate.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.finetuning import features as features_lib
from electra_tf.finetuning import scores
from electra_tf.finetuning import tasks
from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import layers
from electra_tf.training import finite
from electra_tf.training import optimizers
from electra_tf.training import schedules
from electra_tf.training import step as step_lib

_BATCH_SIZE = 32
_EVALUATION_BATCH_SIZE = 64
_WARMUP_PROPORTION = 0.1
_DROPOUT_PROB = 0.1
# The head's dropout site comes after all of the encoder's.
_HEAD_SITE = 512


class LabellingModel(step_lib.TrainableModel):
    """An encoder with one linear layer on the vectors that carry labels.

    The loss is cross-entropy, its mean over all labels of the batch. (For
    tagging the original adds up the losses of a sentence's words and averages
    over sentences, which makes the rate depend on their lengths.)

    Args:
        encoder: is trained too.
        task: gives labels, kind and name.
        seed: of the head's weights and of dropout.

    Call arguments:
        features: as `Features.batch` returns them.

    Returns:
        `[B, W, number of labels]` float32 logits.
    """

    def __init__(
        self, encoder: encoder_lib.Encoder, task: tasks.Task, seed: int
    ) -> None:
        super().__init__(seed=seed, name=f"finetuning_{task.name}")
        self.encoder = encoder
        self.num_labels = len(task.labels)
        is_tagging = task.kind == tasks.TAGGING
        self.dropout_prob = 0.0 if is_tagging else _DROPOUT_PROB
        self.head = layers.Linear(
            self.num_labels,
            keras.initializers.GlorotUniform(seed=seed),
            name="dense",
        )
        # The original's names, which the rules for rates and decay know.
        with keras.name_scope("task_specific"), keras.name_scope(task.name):
            self.head.build((None, encoder.hidden_size))
        self.built = True

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """One loss."""
        return {"loss": 1.0}

    @property
    def statistic_sizes(self) -> Mapping[str, int]:
        """Sums over labels: their losses, those that are right, all."""
        return {"loss": 1, "correct": 1, "labels": 1}

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> step_lib.Tensors:
        """The streams of a replica put into one batch; nothing is drawn."""
        return {
            name: tf.reshape(features[name], [-1, features[name].shape[-1]])
            for name in features_lib.BATCH_SIGNATURE
        }

    def loss_weights(self, prepared: step_lib.Tensors) -> step_lib.Tensors:
        """The number of labels."""
        labels = tf.cast(prepared["label_mask"], tf.float32)
        return {"loss": tf.reduce_sum(labels)}

    def compute_losses(
        self,
        prepared: step_lib.Tensors,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Loss sum and statistics of one micro-batch."""
        logits = self.compute_logits(prepared, dropout_seed)
        labels = prepared["labels"]
        weights = tf.cast(prepared["label_mask"], tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_sum(losses * weights)
        is_correct = tf.argmax(logits, -1, labels.dtype) == labels
        sums = {
            "loss": loss,
            "correct": tf.reduce_sum(tf.cast(is_correct, tf.float32) * weights),
            "labels": tf.reduce_sum(weights),
        }
        statistics = {name: value[tf.newaxis] for name, value in sums.items()}
        return step_lib.LossSums({"loss": loss}, statistics)

    def compute_logits(
        self, features: step_lib.Tensors, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Logits `[B, W, number of labels]`, float32.

        Args:
            features: `[B, S]` and `[B, W]` tensors of `Features.batch`.
            dropout_seed: `[2]` int64, or None for inference.
        """
        hidden = self.encoder(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
            dropout_seed,
        ).sequence_output
        vectors = masking.gather_positions(hidden, features["label_positions"])
        if dropout_seed is not None:
            dropout_seed = dropout_seed + tf.constant([0, _HEAD_SITE], tf.int64)
        vectors = layers.dropout(vectors, self.dropout_prob, dropout_seed)
        rows, slots, width = layers.shape_of(vectors)
        logits = self.head(tf.reshape(vectors, [-1, width]))
        logits = tf.reshape(logits, [rows, slots, self.num_labels])
        return tf.cast(logits, tf.float32)

    def summarize(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Mean loss and accuracy from added-up statistics."""
        labels = float(statistics["labels"][0])
        return {
            "loss": float(statistics["loss"][0]) / labels,
            "accuracy": float(statistics["correct"][0]) / labels,
        }

    def call(self, features: step_lib.Tensors) -> tf.Tensor:
        """Logits without dropout."""
        return self.compute_logits(features, None)

    def _logs(self, statistics: step_lib.Tensors) -> step_lib.Tensors:
        labels = statistics["labels"]
        return {
            "loss": (statistics["loss"] / labels)[0],
            "accuracy": (statistics["correct"] / labels)[0],
        }


def fine_tune(
    encoder: encoder_lib.Encoder,
    task: tasks.Task,
    train: features_lib.Features,
    dev: features_lib.Features,
    *,
    num_steps: int,
    seed: int,
    learning_rate: float = 5e-4,
) -> float:
    """The task's score on `dev` after a few steps on `train`.

    Args:
        encoder: its weights are changed.
        task: what the features are of.
        train: rows to train on, in batches of 32.
        dev: what the tuned encoder is scored on.
        num_steps: updates; a tenth of them is warm-up.
        seed: of the head, the order of the rows, and dropout.
        learning_rate: peak.

    Raises:
        ValueError: if there is no step to take.
        NonFiniteLossError: if the loss stops being a number.
    """
    schedule = schedules.PolynomialDecayTimesWarmup(
        learning_rate, num_steps, warmup_proportion=_WARMUP_PROPORTION
    )
    model = LabellingModel(encoder, task, seed)
    model.compile(optimizer=optimizers.AdamWeightDecay(schedule))

    @tf.function(autograph=False)
    def train_step(batch: step_lib.Tensors) -> step_lib.Tensors:
        return model.training_step(step_lib.as_one_stream(batch))

    order = _draw_rows(train.num_rows, num_steps, seed)
    for number, rows in enumerate(order):
        statistics = train_step(_as_tensors(train.batch(rows)))
        finite.check_statistics(_as_arrays(statistics), number, number + 1)
    return _score(model, task, dev)


def _draw_rows(num_rows: int, num_steps: int, seed: int) -> Iterator[Any]:
    """Row indices of each batch: one permutation of all rows after another."""
    generator = np.random.default_rng(seed)
    left = np.zeros(0, np.int64)
    for _ in range(num_steps):
        while len(left) < _BATCH_SIZE:
            left = np.concatenate([left, generator.permutation(num_rows)])
        yield left[:_BATCH_SIZE]
        left = left[_BATCH_SIZE:]


def _score(
    model: LabellingModel, task: tasks.Task, features: features_lib.Features
) -> float:
    @tf.function(
        input_signature=[features_lib.BATCH_SIGNATURE], autograph=False
    )
    def predict(batch: step_lib.Tensors) -> tf.Tensor:
        return tf.argmax(model.compute_logits(batch, None), -1)

    labels, predictions = [], []
    for batch in features.batches_by_length(_EVALUATION_BATCH_SIZE):
        is_label = batch["label_mask"] > 0
        predictions.append(predict(batch).numpy()[is_label])
        labels.append(batch["labels"][is_label])
    return scores.compute_score(
        task.metric,
        np.concatenate(labels),
        np.concatenate(predictions),
        features.cut_off_labels,
    )


def _as_tensors(batch: Mapping[str, np.ndarray]) -> step_lib.Tensors:
    return {name: tf.constant(value) for name, value in batch.items()}


def _as_arrays(tensors: step_lib.Tensors) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in tensors.items()}
