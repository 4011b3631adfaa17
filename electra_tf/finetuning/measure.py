"""Scores an encoder on small tasks by linear probes and short fine-tunings.

The scores compare encoders with each other. To compare with published scores,
use `electra-finetune`.
"""

import pathlib
import statistics
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import threadpoolctl
from sklearn import exceptions
from sklearn import linear_model
from sklearn import pipeline
from sklearn import preprocessing

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import task_data
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import keras_models
from electra_tf.tasks import base
from electra_tf.tasks import catalog
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.training import training_run

_LEARNING_RATE = 5e-4
_BATCH_SIZE = 32
_PREDICTION_BATCH_SIZE = 64
# More steps double the time of a fit and hardly change the score.
_MAX_ITERATIONS = 100
_SEED_STRIDE = 1_000  # between trials; larger than the seeds of runs
_POSITIONS = "word_positions"


def measure_loaded_encoder(
    loaded: model_lib.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
    *,
    seed: int,
    max_examples: int,
    finetune_steps: int,
    finetune_epochs: float = 0.0,
    finetune_trials: int = 1,
) -> dict[str, float]:
    """Scores an encoder and restores its weights.

    `tasks_dir` holds the official files of tasks of the catalog
    (classification, regression or tagging). `seed` determines the choice of
    `max_examples` examples (0: all), new heads, order and dropout. A trial has
    at least `finetune_steps` steps and `finetune_epochs` epochs; if both are 0,
    there is no fine-tuning.

    Returns `{task}_probe` and `{task}_finetune` (mean over trials): the metric
    on the first dev split, at most 1.
    """
    results = {}
    variables = loaded.encoder.variables
    for task, train, dev in _read_rows(
        loaded, tasks_dir, task_names, max_examples, seed
    ):
        outputs = probe(loaded.encoder, train, dev)
        results[f"{task.name}_probe"] = _score(task, dev, outputs)
        epochs = finetune_epochs * train.num_rows / _BATCH_SIZE
        steps, scores = max(finetune_steps, round(epochs)), []
        for trial in range(finetune_trials if steps else 0):
            before = [variable.numpy() for variable in variables]
            trial_seed = seed + _SEED_STRIDE * trial
            outputs = _fine_tune(loaded, task, train, dev, steps, trial_seed)
            scores.append(_score(task, dev, outputs))
            for variable, value in zip(variables, before, strict=True):
                variable.assign(value)
        if scores:
            results[f"{task.name}_finetune"] = statistics.fmean(scores)
    return results


def measure_guessing(
    loaded: model_lib.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
) -> dict[str, float]:
    """Maps each task to the score of a constant prediction.

    The prediction is the most frequent label, or the mean, of the training
    data.
    """
    accuracies = {}
    for task, train, dev in _read_rows(loaded, tasks_dir, task_names):
        _, labels = _known_labels(train)
        if labels.dtype.kind == "f":
            means = [np.full(1, labels.mean())] * dev.num_rows
            accuracies[task.name] = _score(task, dev, {"prediction": means})
            continue
        counts = np.bincount(labels).astype(np.float64)
        num_labels = np.ones(dev.num_rows, int)
        if _POSITIONS in dev.ragged:
            num_labels = dev.ragged[_POSITIONS].lengths
        logits = [np.tile(counts, (n, 1)) for n in num_labels]
        accuracies[task.name] = _score(task, dev, {"logits": logits})
    return accuracies


def read_tasks(
    tasks_dir: pathlib.Path, task_names: Sequence[str]
) -> list[tuple[base.Task, Sequence[Any], Sequence[Any]]]:
    """Reads tasks with their examples of `train` and the first dev split."""
    names, data_dir = ",".join(task_names), str(tasks_dir)
    settings = finetuning_config.FinetuningConfig(
        finetuning_config.TaskConfig(names, data_dir, double_unordered=False)
    )
    return [
        (task, task.read_split("train"), task.read_split(task.dev_splits[0]))
        for task in catalog.build_tasks(settings)
    ]


def _read_rows(
    loaded: model_lib.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
    max_examples: int = 0,
    seed: int = 0,
) -> Iterator[tuple[base.Task, rows_lib.EncodedRows, rows_lib.EncodedRows]]:
    """Yields tasks with `max_examples` training rows and all dev rows."""
    tokenizer = tokenizer_lib.Tokenizer(loaded.vocabulary)
    num_positions = loaded.settings.max_position_embeddings
    for task, train, dev in read_tasks(tasks_dir, task_names):
        if 0 < max_examples < len(train):
            order = np.random.default_rng(seed).permutation(len(train))
            train = [train[index] for index in order[:max_examples]]
        length = min(num_positions, task.max_seq_length)
        yield (
            task,
            task.build_rows(train, tokenizer, length, is_training=True),
            task.build_rows(dev, tokenizer, length, is_training=False),
        )


def _score(
    task: base.Task, dev: rows_lib.EncodedRows, outputs: base.Outputs
) -> float:
    if _POSITIONS not in dev.ragged:
        outputs = {
            name: [np.reshape(row, -1) for row in rows]
            for name, rows in outputs.items()
        }
    examples = task.read_split(task.dev_splits[0])
    predictions = task.decode(examples, dev, outputs)
    return task.score(examples, predictions)[task.metric] / 100.0


def _fine_tune(
    loaded: model_lib.LoadedEncoder,
    task: base.Task,
    train: rows_lib.EncodedRows,
    dev: rows_lib.EncodedRows,
    num_steps: int,
    seed: int,
) -> base.Outputs:
    head = task.build_head(loaded.settings.hidden_size, seed)
    model = model_lib.FinetuningModel(loaded.encoder, {task.name: head}, seed)
    # With layer-wise rates, lower layers would hardly change in few steps.
    options = finetuning_config.FinetuningOptimizerConfig(
        learning_rate=_LEARNING_RATE, layerwise_lr_decay=1.0
    )
    model.optimizer = model_lib.build_optimizer(
        options, num_steps, loaded.settings.num_hidden_layers
    )
    model.optimizer.build(model.trainable_variables)
    table = task_data.RowTable({task.name: train}, {task.name: head.columns})
    order = task_data.order_for_training(
        train.lengths, _BATCH_SIZE, num_steps, seed
    )
    dataset = task_data.build_training_dataset(table, order, 0)
    # The signature avoids a trace for each length.
    step = tf.function(
        model.training_step,
        input_signature=[dataset.element_spec],
        autograph=False,
    )
    for number, features in enumerate(dataset):
        statistics = {k: v.numpy() for k, v in step(features).items()}
        training_run.require_finite(statistics, f"at step {number + 1}")
    strategy = tf.distribute.get_strategy()
    predictor = model_lib.Predictor(strategy, model, _PREDICTION_BATCH_SIZE)
    return predictor.predict(task.name, dev)


def probe(
    encoder: encoder_lib.Encoder,
    train: rows_lib.EncodedRows,
    dev: rows_lib.EncodedRows,
) -> base.Outputs:
    """Fits a linear model to `train`, and predicts `dev`.

    The inputs are standardized outputs of the frozen encoder's last layer: for
    texts the mean over tokens, concatenated with [CLS]; for tagging the first
    piece of each word. Logistic regression with C = 1 and at most 100 steps of
    L-BFGS predicts classes (`logits`), and ridge regression with alpha = 1
    predicts numbers (`prediction`). Nothing is random.
    """
    is_known, labels = _known_labels(train)
    is_number = labels.dtype.kind == "f"
    present = np.unique(labels)
    if not is_number and len(present) < 2:
        raise errors.DataError(
            "A probe needs training examples of at least two labels. Received: "
            f"{len(labels)} examples of one label. Take more examples."
        )
    model = pipeline.make_pipeline(
        preprocessing.StandardScaler(),
        linear_model.Ridge(alpha=1.0)
        if is_number
        else linear_model.LogisticRegression(C=1.0, max_iter=_MAX_ITERATIONS),
    )
    vectors = np.concatenate(_collect_vectors(encoder, train))[is_known]
    dev_vectors = _collect_vectors(encoder, dev)
    # One thread is up to thirty times faster if other processes use the cores,
    # and always adds in the same order.
    with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        model.fit(vectors, labels)
        flat = np.concatenate(dev_vectors)
        if is_number:
            return {"prediction": model.predict(flat)}
        # -inf for classes without training examples
        logits = np.full((len(flat), present.max() + 1), -np.inf)
        logits[:, present] = model.predict_log_proba(flat)
    ends = np.cumsum([len(row) for row in dev_vectors])
    return {"logits": np.split(logits, ends[:-1])}


def _known_labels(rows: rows_lib.EncodedRows) -> tuple[np.ndarray, np.ndarray]:
    """Returns which labels of all rows are known, and the known labels."""
    if "tags" in rows.ragged:
        is_known = rows.ragged["tag_weights"].values > 0
        return is_known, rows.ragged["tags"].values[is_known]
    for name in ("label", "target"):
        if name in rows.columns:
            return np.ones(rows.num_rows, bool), rows.columns[name]
    raise ValueError(
        "A probe is fitted to classification, regression or tagging. Received: "
        f"columns {[*rows.columns, *rows.ragged]}. Fine-tune that task."
    )


def _collect_vectors(
    encoder: encoder_lib.Encoder, rows: rows_lib.EncodedRows
) -> list[np.ndarray]:
    """Computes a vector for each label of each row, `[labels, D or 2D]`."""
    positions = rows.ragged.get(_POSITIONS)

    @tf.function(autograph=False, reduce_retracing=True)
    def run(ids: tf.Tensor, mask: tf.Tensor, segments: tf.Tensor) -> tf.Tensor:
        hidden = encoder(ids, mask, segments, None).sequence_output
        if positions is not None:
            return hidden
        weights = tf.cast(mask, hidden.dtype)[..., tf.newaxis]
        mean = tf.reduce_sum(hidden * weights, 1) / tf.reduce_sum(weights, 1)
        return tf.concat([mean, hidden[:, 0]], -1)[:, tf.newaxis]

    states: list[Any] = [None] * rows.num_rows
    table = task_data.RowTable({"probe": rows}, {"probe": {}})
    order = task_data.order_for_prediction(rows.lengths, _PREDICTION_BATCH_SIZE)
    for chosen, length in zip(order.rows, order.lengths, strict=True):
        batch = table.batch(tf.constant(chosen), int(length))
        vectors = run(*(batch[name] for name in keras_models.FEATURES)).numpy()
        for row, vector in zip(chosen, vectors, strict=True):
            states[row] = vector
            if positions is not None:
                states[row] = vector[positions[row]]
    return states
