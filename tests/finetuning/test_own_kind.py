"""A task of another kind: how many words has a sentence?

Everything that CONTRIBUTING.md says such a task needs, in one file.
"""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import finetune
from electra_tf.modeling import layers
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import catalog
from electra_tf.tasks import rows as rows_lib
from tests.finetuning import little_task


class Sentence(NamedTuple):
    text: str
    count: int


class CountingHead(task_heads.TaskHead):
    """A number from the mean of all tokens; squared error."""

    columns = {"count": task_heads.Column(np.float32)}

    def __init__(self, seed, **kwargs):
        super().__init__(**kwargs)
        self.dense = layers.Linear(
            1, keras.initializers.GlorotUniform(seed=seed), name="dense"
        )

    def build(self, input_shape):
        self.dense.build((None, input_shape[-1]))

    def compute_losses(self, hidden, features, seed):
        found = self.predict(hidden, features)["count"]
        return tf.square(found - features["count"])

    def predict(self, hidden, features):
        mask = tf.cast(features["input_mask"], tf.float32)[..., tf.newaxis]
        # A sum, so that the number of tokens is there to be read.
        total = tf.reduce_sum(hidden * mask, 1) / 8.0
        return {"count": self.dense(total)[:, 0]}


class CountingTask(base.Task):
    """The number of words, learned from sentences of one to eight."""

    metric, num_train_epochs = "within_one", 12.0

    def __init__(self):
        super().__init__("counting", dict.fromkeys(("train", "dev")))

    def read(self, split):
        generator = np.random.default_rng(split == "train")
        counts = generator.integers(1, 9, 128 if split == "train" else 32)
        return [
            Sentence(" ".join(generator.choice(["cat", "dog"], n)), int(n))
            for n in counts
        ]

    def build_rows(self, examples, tokenizer, max_seq_length, is_training):
        pieces = tokenizer.tokenize([e.text for e in examples]).to_list()
        first, last = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
        ids = [[first, *p[: max_seq_length - 2], last] for p in pieces]
        return rows_lib.EncodedRows(
            rows_lib.Ragged.of(ids),
            segment_starts=np.array([len(row) for row in ids], np.int32),
            examples=np.arange(len(ids), dtype=np.int32),
            columns={"count": np.array([e.count for e in examples])},
        )

    def new_head(self, **kwargs):
        return CountingHead(**kwargs)

    def decode(self, examples, rows, outputs):
        return np.round(outputs["count"])

    def score(self, examples, predictions):
        counts = np.array([e.count for e in examples])
        right = np.abs(counts - predictions) <= 1
        return {"within_one": 100.0 * float(right.mean())}

    def is_degenerate(self, examples, predictions):
        return len(set(predictions)) == 1

    def write_predictions(self, folder, split, examples, predictions):
        path = folder / f"{split}.txt"
        path.write_text("\n".join(map(str, predictions)))
        return [path]


def test_a_task_of_another_kind_is_learned(
    monkeypatch, pretrained_dir, tmp_path
):
    monkeypatch.setattr(catalog, "build_task", lambda *unused: CountingTask())
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names="counting"),
        optimizer=finetuning_config.FinetuningOptimizerConfig(
            learning_rate=1e-2, layerwise_lr_decay=1.0
        ),
        training=finetuning_config.FinetuningTrainingConfig(
            train_batch_size=16, deterministic=False
        ),
    )
    request = finetune.Request(settings, tmp_path / "out", pretrained_dir)
    _, result = little_task.run(request)
    score = result.scores["counting"]["dev"]
    assert score.metrics["within_one"] > 80
    assert not score.is_degenerate
    assert result.num_steps == 96
