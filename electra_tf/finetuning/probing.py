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

from electra_tf.finetuning import batches
from electra_tf.finetuning import rows as rows_lib
from electra_tf.finetuning.tasks import task as task_lib
from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads

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
    vectors, labels = _collect(encoder, train), _labels(train)
    flat = np.concatenate(labels)
    is_told = np.concatenate(_weights(train)) > 0
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
    is_told = np.concatenate(_weights(train)) > 0
    counts = np.bincount(np.concatenate(_labels(train))[is_told])
    logits = counts.astype(np.float64)
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


def _labels(rows: rows_lib.Rows) -> list[np.ndarray]:
    """The labels of each row, one or several."""
    if "tags" in rows.ragged:
        tags = rows.ragged["tags"]
        return [tags[row] for row in range(rows.num_rows)]
    if "label" not in rows.columns:
        raise ValueError(
            "A probe is fitted to classification or tagging. Received a task "
            f"with the columns {[*rows.columns, *rows.ragged]}. Fine-tune it."
        )
    return list(rows.columns["label"][:, np.newaxis])


def _weights(rows: rows_lib.Rows) -> list[np.ndarray]:
    if "tag_weights" not in rows.ragged:
        return [np.ones(1)] * rows.num_rows
    weights = rows.ragged["tag_weights"]
    return [weights[row] for row in range(rows.num_rows)]


def _collect(
    encoder: encoder_lib.Encoder, rows: rows_lib.Rows
) -> list[np.ndarray]:
    """The labelled vectors of each row, `[labels, D or 2D]`."""
    columns = {}
    is_tagging = _POSITIONS in rows.ragged
    if is_tagging:
        columns[_POSITIONS] = task_heads.Column(is_ragged=True)
    table = batches.RowTable({"probe": rows}, {"probe": columns})
    compute = tf.function(
        lambda features: _vectors(encoder, features),
        autograph=False,
        reduce_retracing=True,
    )
    found: list[Any] = [None] * rows.num_rows
    order = batches.order_for_prediction(rows.lengths, _BATCH_SIZE)
    for chosen, length in zip(order.rows, order.lengths, strict=True):
        vectors = compute(table.batch(tf.constant(chosen), int(length)))
        for row, vector in zip(chosen, vectors.numpy(), strict=True):
            found[row] = vector
    if is_tagging:
        counts = rows.ragged[_POSITIONS].lengths
        found = [v[:n] for v, n in zip(found, counts, strict=True)]
    return found


def _vectors(
    encoder: encoder_lib.Encoder, features: dict[str, tf.Tensor]
) -> tf.Tensor:
    """`[B, labels, D or 2D]`, one vector for each label."""
    hidden = encoder(
        features["input_ids"], features["input_mask"], features["segment_ids"]
    ).sequence_output
    positions = features.get(f"probe/{_POSITIONS}")
    if positions is not None:
        return masking.gather_positions(hidden, positions)
    mask = tf.cast(features["input_mask"], hidden.dtype)[..., tf.newaxis]
    mean = tf.reduce_sum(hidden * mask, 1) / tf.reduce_sum(mask, 1)
    return tf.concat([mean, hidden[:, 0]], -1)[:, tf.newaxis]
