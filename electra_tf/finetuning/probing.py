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
from typing import Any

import numpy as np
import tensorflow as tf
import threadpoolctl
from sklearn import exceptions
from sklearn import linear_model
from sklearn import pipeline
from sklearn import preprocessing

from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import predictor as predictor_lib
from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib

_BATCH_SIZE = 64
# Part of what the score means: the last small steps of a fit would double its
# time and hardly move the score, and every encoder gets the same number.
_MAX_ITERATIONS = 100
_POSITIONS = "word_positions"


def probe(
    encoder: encoder_lib.Encoder, train: rows_lib.Rows, dev: rows_lib.Rows
) -> task_lib.Outputs:
    """The `logits` of a linear model that was fitted to `train`, for `dev`.

    They are what a task's head would give, ready for `Task.decode`.

    Args:
        encoder: it is not changed.
        train: rows of a classification or tagging task to learn from.
        dev: rows of the same task.

    Raises:
        ValueError: if the task is of another kind, or all labels of `train`
            are the same.
    """
    vectors = _collect(encoder, train)
    flat, is_told = _labels(train)
    found = np.unique(flat[is_told])
    if len(found) < 2:
        raise ValueError(
            "A probe must be fitted to at least two different labels. "
            f"Received: {is_told.sum()} times label {found.tolist()}. Take "
            "more examples (max_examples)."
        )
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(),
        linear_model.LogisticRegression(C=1.0, max_iter=_MAX_ITERATIONS),
    )
    # Products this small are thirty times slower on several threads when
    # another process has the cores, and one thread always adds in one order.
    with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        model.fit(np.concatenate(vectors)[is_told], flat[is_told])
        logits = [_logits(model, row) for row in _collect(encoder, dev)]
    if _POSITIONS not in dev.ragged:
        return {"logits": [row[0] for row in logits]}
    return {"logits": logits}


def guess(train: rows_lib.Rows, dev: rows_lib.Rows) -> task_lib.Outputs:
    """The `logits` of who reads nothing: the commonest label, everywhere.

    Args:
        train: rows of a classification or tagging task, whose labels count.
        dev: rows of the same task.

    Raises:
        ValueError: if the task is of another kind.
    """
    flat, is_told = _labels(train)
    logits = np.bincount(flat[is_told]).astype(np.float64)
    if _POSITIONS not in dev.ragged:
        return {"logits": [logits] * dev.num_rows}
    lengths = dev.ragged[_POSITIONS].lengths
    return {"logits": [np.tile(logits, (count, 1)) for count in lengths]}


def _logits(model: pipeline.Pipeline, vectors: np.ndarray) -> np.ndarray:
    """`[n, classes]`, with -inf for classes that were not in the training."""
    classes = model.classes_
    full = np.full((len(vectors), classes.max() + 1), -np.inf)
    if len(vectors):
        full[:, classes] = model.predict_log_proba(vectors)
    return full


def _labels(rows: rows_lib.Rows) -> tuple[np.ndarray, np.ndarray]:
    """The labels of all rows, flat, and which of them are told."""
    if "tags" in rows.ragged:
        return (
            rows.ragged["tags"].values,
            rows.ragged["tag_weights"].values > 0,
        )
    if "label" not in rows.columns:
        raise ValueError(
            "A probe is fitted to classification or tagging. Received a task "
            f"with the columns {[*rows.columns, *rows.ragged]}. Fine-tune it."
        )
    return rows.columns["label"], np.ones(rows.num_rows, bool)


def _collect(
    encoder: encoder_lib.Encoder, rows: rows_lib.Rows
) -> list[np.ndarray]:
    """The labelled vectors of each row, `[labels, D or 2D]`."""
    head = _VectorHead(is_tagging=_POSITIONS in rows.ragged)
    model = model_lib.FinetuningModel(encoder, {"probe": head})
    strategy = tf.distribute.get_strategy()
    predictor = predictor_lib.Predictor(strategy, model, _BATCH_SIZE)
    return list(predictor.predict("probe", rows)["vectors"])


class _VectorHead(task_heads.TaskHead):
    """What a linear model sees: one vector for each label."""

    def __init__(self, is_tagging: bool) -> None:
        super().__init__(name="probe")
        self.columns = {}
        if is_tagging:
            self.columns = {_POSITIONS: task_heads.Column(is_ragged=True)}
            self.padded_outputs = {"vectors": _POSITIONS}
        self.prediction_columns = tuple(self.columns)

    def compute_losses(
        self, hidden: tf.Tensor, features: task_heads.Tensors, seed: Any
    ) -> tf.Tensor:
        """Nothing is learned by gradients."""
        raise NotImplementedError

    def predict(self, hidden: tf.Tensor, features: task_heads.Tensors) -> dict:
        """`vectors`, `[B, labels, D or 2D]`."""
        if _POSITIONS in self.columns:
            positions = features[_POSITIONS]
            return {"vectors": masking.gather_positions(hidden, positions)}
        mask = tf.cast(features["input_mask"], hidden.dtype)[..., tf.newaxis]
        mean = tf.reduce_sum(hidden * mask, 1) / tf.reduce_sum(mask, 1)
        vectors = tf.concat([mean, hidden[:, 0]], -1)[:, tf.newaxis]
        return {"vectors": vectors}
