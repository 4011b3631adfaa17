"""The model that is fine-tuned: one encoder, a head for each task.

Rows of several tasks may share a batch. Each counts for its own task alone,
and the loss is the sum over rows, not their mean, as in the original
(`run_finetuning.py`, `FinetuningModel`): gradients are clipped to norm 1 after
that, so the clipping is nearly always at work, and a mean would train
otherwise.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads
from electra_tf.training import step as step_lib

# Sites of dropout: the heads' come after all of the encoder's.
_FIRST_HEAD_SITE = 512
_TOKENS = ("input_ids", "input_mask", "segment_ids")


class FinetuningModel(step_lib.TrainableModel):
    """An encoder with the heads of one or several tasks.

    Args:
        encoder: is trained too.
        heads: task name to its head, built; `task_id` counts in this order.
        seed: of dropout.
        num_micro_batches: parts whose gradients are accumulated.
        clip_norm: largest global norm of the gradient.

    Call arguments:
        features: as `RowTable.batch` gives them.

    Returns:
        Task name to what its head predicts.
    """

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        heads: Mapping[str, task_heads.TaskHead],
        seed: int = 1,
        num_micro_batches: int = 1,
        clip_norm: float = 1.0,
    ) -> None:
        super().__init__(
            seed=seed,
            num_micro_batches=num_micro_batches,
            clip_norm=clip_norm,
            name="finetuning",
        )
        self.encoder = encoder
        # Keras tracks a dict of layers, but wraps it; the order must stay.
        self.heads = dict(heads)
        self.task_names = tuple(heads)
        self.built = True

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """One loss."""
        return {"loss": 1.0}

    @property
    def extra_sizes(self) -> Mapping[str, int]:  # type: ignore[override]
        """Of every task the sum of its rows' losses, and their number."""
        count = len(self.task_names)
        return {"task_loss": count, "task_rows": count}

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> step_lib.Tensors:
        """The features as they are; nothing is drawn."""
        del step, is_training
        return features

    def loss_normalizers(self, prepared: step_lib.Tensors) -> step_lib.Tensors:
        """The number of rows, for the reported mean: the loss is a sum."""
        return {"loss": tf.reduce_sum(self._count_rows(prepared))}

    def compute_losses(
        self, prepared: step_lib.Tensors, dropout_seed: tf.Tensor | None
    ) -> step_lib.LossSums:
        """Loss sum and statistics of one micro-batch."""
        losses = self.compute_task_losses(prepared, dropout_seed)
        by_task = tf.reduce_sum(losses, 0)
        return step_lib.LossSums(
            {"loss": tf.reduce_sum(by_task)},
            {"task_loss": by_task, "task_rows": self._count_rows(prepared)},
        )

    def _count_rows(self, prepared: step_lib.Tensors) -> tf.Tensor:
        """Rows of every task, `[number of tasks]` float32."""
        counts = tf.one_hot(prepared["task_id"], len(self.task_names))
        return tf.reduce_sum(counts, 0)

    def compute_task_losses(
        self, features: step_lib.Tensors, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """The losses of all rows, `[B, number of tasks]` float32.

        A row has 0 for tasks other than its own.

        Args:
            features: as `RowTable.batch` gives them.
            dropout_seed: `[2]` int64, or None for no dropout.
        """
        hidden = self.encode(features, dropout_seed)
        losses = []
        for number, name in enumerate(self.task_names):
            seed = dropout_seed
            if seed is not None:
                site = _FIRST_HEAD_SITE + number
                seed = seed + tf.constant([0, site], tf.int64)
            own = self.heads[name].compute_losses(
                hidden, self._features_of(name, features), seed
            )
            is_own = tf.equal(features["task_id"], number)
            losses.append(tf.where(is_own, own, 0.0))
        return tf.stack(losses, 1)

    def encode(
        self, features: step_lib.Tensors, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """The encoder's last layer, `[B, S, D]`."""
        return self.encoder(
            *(features[name] for name in _TOKENS), dropout_seed
        ).sequence_output

    def predict_task(
        self, name: str, features: step_lib.Tensors
    ) -> dict[str, tf.Tensor]:
        """What the head of a task predicts, without dropout.

        Args:
            name: of the task.
            features: as `RowTable.batch` gives them.
        """
        hidden = self.encode(features, None)
        return self.heads[name].predict(
            hidden, self._features_of(name, features)
        )

    def _features_of(
        self, task: str, features: step_lib.Tensors
    ) -> step_lib.Tensors:
        own = {name: features[name] for name in _TOKENS}
        for name in self.heads[task].columns:
            full_name = f"{task}/{name}"
            if full_name in features:
                own[name] = features[full_name]
        return own

    def derive_metrics(self, statistics: step_lib.Tensors) -> step_lib.Tensors:
        """Mean loss of a row, over all tasks and, of several, of each."""
        total = statistics["loss"][0]
        rows = statistics[step_lib.normalizer_of("loss")][0]
        found = {"loss": tf.math.divide_no_nan(total, rows)}
        if len(self.task_names) > 1:
            means = tf.math.divide_no_nan(
                statistics["task_loss"], statistics["task_rows"]
            )
            for number, name in enumerate(self.task_names):
                found[f"{name}_loss"] = means[number]
        return found

    def call(self, features: step_lib.Tensors) -> dict[str, Any]:
        """The predictions of all heads."""
        return {
            name: self.predict_task(name, features) for name in self.task_names
        }

    def _total_loss(
        self,
        sums: step_lib.Tensors,
        normalizers: step_lib.Tensors,
        step: tf.Tensor,
    ) -> tf.Tensor:
        # Added up, not divided: see above.
        del normalizers, step
        return sums["loss"]
