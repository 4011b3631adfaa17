"""A kind of task in one file: how many words has a text?"""

import dataclasses

import keras
import numpy as np
import tensorflow as tf

from electra_tf.modeling import layers
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import cells
from electra_tf.tasks.sentences import text_task


class CountingHead(task_heads.TaskHead):
    """A number from the sum over all tokens; squared error."""

    columns = {"count": task_heads.Column(np.float32)}

    def __init__(self, seed, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Linear(
            1, keras.initializers.GlorotUniform(seed=seed), name="dense"
        )

    def build(self, input_shape):
        self.dense.build((None, input_shape[-1]))

    def compute_losses(self, hidden, features, seed):
        count = self.predict(hidden, features)["count"]
        return tf.square(count - features["count"])

    def predict(self, hidden, features):
        mask = tf.cast(features["input_mask"], tf.float32)[..., tf.newaxis]
        total = tf.reduce_sum(hidden * mask, 1) / 8.0
        return {"count": self.dense(total)[:, 0]}


@dataclasses.dataclass(frozen=True)
class CountPrediction:
    count: int


class CountingTask(text_task.TextTask):
    """Says how many words a text has."""

    kind = __name__
    signature = "count"
    head_class = CountingHead
    head_output = "count"
    takes_hidden_layer = False
    hugging_face = ""  # No class there has such a head.
    num_train_epochs = 12.0
    known_metrics = {
        "within_one": text_task.in_percent(
            lambda counts, found: np.mean(np.abs(counts - found) <= 1)
        )
    }

    @classmethod
    def build_own(cls, settings, labels=()):
        task = cls(base.OWN, {})
        task.use_own(settings.own)
        task.use_metrics(list(cls.known_metrics))
        return task

    def parse_label(self, record, own):
        return cells.read_number(record, own.label_column, 0, 100)

    def answer(self, outputs):
        return {"count": tf.cast(tf.round(outputs["count"]), tf.int32)}

    def decode(self, examples, rows, outputs):
        return np.round(outputs["count"])

    def targets(self, examples):
        return np.array([example.label or 0 for example in examples])

    def to_targets(self, predictions):
        return predictions

    def format_predictions(self, predictions):
        columns = {"count": [f"{count:g}" for count in predictions]}
        return text_task.WrittenPredictions(columns, [])

    @classmethod
    def export_texts(cls):
        texts = super().export_texts()
        texts["signatures"] = {
            "count_text": {
                "purpose": "Counts the words of raw text.",
                "inputs": ["texts"],
                "outputs": ["count", "num_tokens", "num_truncated"],
            },
            "count_ids": {
                "purpose": "Counts the words of rows of ids.",
                "inputs": ["input_ids", "input_mask", "segment_ids"],
                "outputs": ["count"],
            },
        }
        texts["tensors"] = {
            "count": {"dtype": "int32", "shape": "[B]", "meaning": "Words."}
        }
        return texts

    @classmethod
    def read_prediction(cls, metadata, texts, row):
        return CountPrediction(int(row["count"]))

    @classmethod
    def show_prediction(cls, prediction, metadata, texts):
        return [f"{prediction.count} words"]
