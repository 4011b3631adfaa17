"""A linear probe: how much a frozen encoder's vectors say about a task.

Nothing of the encoder is trained, so the score measures what pre-training
put there. What a linear model sees of the last layer is

* for classification the mean over all tokens ([CLS] and [SEP] are two of
  them) beside the vector of [CLS], 2D numbers a sentence. The mean is there
  because the objectives of pre-training give [CLS] alone little to hold;
* for tagging the vector of each word's first piece, D numbers a word.

Each number is standardized to mean 0 and variance 1 over the training data.
The model is logistic regression with an L2 penalty of 1 / (2 C) = 0.5 on the
weights against the summed loss, fitted by at most `_MAX_ITERATIONS` of L-BFGS
from zero. There is nothing random in it.
"""

import warnings

import numpy as np
import tensorflow as tf
import threadpoolctl
from sklearn import exceptions
from sklearn import linear_model
from sklearn import pipeline
from sklearn import preprocessing

from electra_tf.finetuning import features as features_lib
from electra_tf.finetuning import scores
from electra_tf.finetuning import tasks
from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib

_BATCH_SIZE = 64
# Part of what the score means: the last small steps of a fit would double its
# time and hardly move the score, and every encoder gets the same number.
_MAX_ITERATIONS = 100


def probe(
    encoder: encoder_lib.Encoder,
    task: tasks.Task,
    train: features_lib.Features,
    dev: features_lib.Features,
) -> float:
    """The task's score on `dev` of a linear model fitted to `train`.

    Args:
        encoder: it is not changed.
        task: what the features are of.
        train: what the linear model is fitted to.
        dev: what it is scored on.

    Raises:
        ValueError: if all labels of `train` are the same.
    """
    collect = _Collector(encoder, task.kind)
    vectors, labels = collect(train)
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"A probe of {task.name} must be fitted to at least two different "
            f"labels. Received: {len(labels)} times "
            f"{task.labels[labels[0]]!r}. Take more examples (max_examples)."
        )
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(),
        linear_model.LogisticRegression(C=1.0, max_iter=_MAX_ITERATIONS),
    )
    # Products this small are thirty times slower on several threads when
    # another process has the cores, and one thread always adds in one order.
    with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        model.fit(vectors, labels)
    vectors, labels = collect(dev)
    return scores.compute_score(
        task.metric, labels, model.predict(vectors), dev.cut_off_labels
    )


class _Collector:
    """Vectors `[n, D or 2D]` and labels `[n]` of all rows, shortest first."""

    def __init__(self, encoder: encoder_lib.Encoder, kind: str) -> None:
        self._encoder = encoder
        self._is_tagging = kind == tasks.TAGGING
        self._compute = tf.function(
            self._vectors,
            input_signature=[features_lib.BATCH_SIGNATURE],
            autograph=False,
        )

    def __call__(
        self, features: features_lib.Features
    ) -> tuple[np.ndarray, np.ndarray]:
        vectors, labels = [], []
        for batch in features.batches_by_length(_BATCH_SIZE):
            is_label = batch["label_mask"] > 0
            computed = self._compute(batch).numpy()
            vectors.append(computed[is_label])
            labels.append(batch["labels"][is_label])
        return np.concatenate(vectors), np.concatenate(labels)

    def _vectors(self, batch: dict[str, tf.Tensor]) -> tf.Tensor:
        """`[B, W, D or 2D]`, one vector per slot of a label."""
        hidden = self._encoder(
            batch["input_ids"], batch["input_mask"], batch["segment_ids"]
        ).sequence_output
        labelled = masking.gather_positions(hidden, batch["label_positions"])
        if self._is_tagging:
            return labelled
        mask = tf.cast(batch["input_mask"], hidden.dtype)[..., tf.newaxis]
        mean = tf.reduce_sum(hidden * mask, 1) / tf.reduce_sum(mask, 1)
        return tf.concat([mean[:, tf.newaxis], labelled], -1)
