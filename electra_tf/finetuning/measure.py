"""What an encoder's representation is worth, without a leaderboard.

One call for one pre-trained model: a linear probe and a short fine-tune for
each task, on a part of its training data. With the defaults three tasks take
about a minute of CPU time for a model of 2 layers of 128 and rows of 64
tokens. The scores compare such models with each other, not with published
results: those come from `scripts/run_finetuning.py`.
"""

import pathlib
import warnings
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import threadpoolctl
from sklearn import exceptions
from sklearn import linear_model
from sklearn import pipeline
from sklearn import preprocessing

from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import task_data
from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads
from electra_tf.tasks import catalog
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.training import training_run

MAX_EXAMPLES = 4_000
FINETUNE_STEPS = 100
_LEARNING_RATE = 5e-4
_BATCH_SIZE = 32
_PREDICTION_BATCH_SIZE = 64
# Part of what the score means: the last small steps of a fit would double its
# time and hardly move the score, and every encoder gets the same number.
_MAX_ITERATIONS = 100
_POSITIONS = "word_positions"


def measure_loaded_encoder(
    loaded: model_lib.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
    *,
    seed: int = 1,
    max_examples: int = MAX_EXAMPLES,
    finetune_steps: int = FINETUNE_STEPS,
) -> dict[str, float]:
    """Scores an encoder in memory, a pre-trained or a random one.

    Args:
        loaded: the encoder; its weights are the same afterwards.
        tasks_dir: folder of the official files, see `tasks.files.find_file`.
        task_names: classification and tagging tasks of the catalog.
        seed: of the choice of examples, the new layers, order and dropout.
        max_examples: training sentences per task, drawn by `seed`; 0 for all.
            Scores are always on the whole `dev` split.
        finetune_steps: updates of each fine-tune; 0 for none.

    Returns:
        `{task}_probe` and, unless there are no steps, `{task}_finetune`: the
        task's metric as a share, 1 at best.
    """
    results = {}
    for task, train, dev in _read_rows(
        loaded, tasks_dir, task_names, max_examples, seed
    ):
        outputs = probe(loaded.encoder, train, dev)
        results[f"{task.name}_probe"] = _score(task, dev, outputs)
        if finetune_steps:
            before = [variable.numpy() for variable in loaded.encoder.variables]
            outputs = _fine_tune(loaded, task, train, dev, finetune_steps, seed)
            results[f"{task.name}_finetune"] = _score(task, dev, outputs)
            for variable, value in zip(
                loaded.encoder.variables, before, strict=True
            ):
                variable.assign(value)
    return results


def measure_guessing(
    loaded: model_lib.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
) -> dict[str, float]:
    """Scores the answer that is always the commonest training label.

    `loaded` gives the vocabulary and the length of rows. Arguments and result
    are otherwise those of `measure_loaded_encoder`, without endings.
    """
    found = {}
    for task, train, dev in _read_rows(loaded, tasks_dir, task_names):
        labels, is_told = _flat_labels(train)
        counts = np.bincount(labels[is_told]).astype(np.float64)
        logits = [np.tile(counts, (n, 1)) for n in _num_labels(dev)]
        found[task.name] = _score(task, dev, _outputs(dev, logits))
    return found


def _read_rows(
    loaded: model_lib.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
    max_examples: int = 0,
    seed: int = 0,
) -> Iterator[tuple[task_lib.Task, rows_lib.Rows, rows_lib.Rows]]:
    """Yields tasks with the wanted training rows and all `dev` rows."""
    tokenizer = tokenizer_lib.Tokenizer(loaded.vocabulary)
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(
            names=",".join(task_names),
            data_dir=str(tasks_dir),
            double_unordered=False,
        )
    )
    # All files are read before the first minute of work.
    tasks = [
        (task, task.read("train"), task.read("dev"))
        for task in catalog.build_tasks(settings)
    ]
    for task, train, dev in tasks:
        length = min(
            loaded.settings.max_position_embeddings, task.max_seq_length
        )
        chosen = _choose(train, max_examples, seed)
        yield (
            task,
            task.build_rows(chosen, tokenizer, length, is_training=True),
            task.build_rows(dev, tokenizer, length, is_training=False),
        )


def _choose(
    examples: Sequence[Any], max_examples: int, seed: int
) -> Sequence[Any]:
    if not 0 < max_examples < len(examples):
        return examples
    order = np.random.default_rng(seed).permutation(len(examples))
    return [examples[place] for place in order[:max_examples]]


def _score(
    task: task_lib.Task, dev: rows_lib.Rows, outputs: task_lib.Outputs
) -> float:
    examples = task.read("dev")
    predictions = task.decode(examples, dev, outputs)
    return task.score(examples, predictions)[task.metric] / 100.0


def _fine_tune(
    loaded: model_lib.LoadedEncoder,
    task: task_lib.Task,
    train: rows_lib.Rows,
    dev: rows_lib.Rows,
    num_steps: int,
    seed: int,
) -> task_lib.Outputs:
    """Trains everything for a few steps; predicts `dev`."""
    head = task.build_head(loaded.settings.hidden_size, seed)
    model = model_lib.FinetuningModel(loaded.encoder, {task.name: head}, seed)
    # After so few steps, slow lower layers would stay where they were.
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
    # Batches of any length: traced once.
    step = tf.function(
        model.training_step,
        input_signature=[dataset.element_spec],
        autograph=False,
    )
    for number, features in enumerate(dataset):
        statistics = {k: v.numpy() for k, v in step(features).items()}
        training_run.require_finite(statistics, f"at step {number + 1}")
    return _predict(model, task.name, dev)


def _predict(
    model: model_lib.FinetuningModel, name: str, rows: rows_lib.Rows
) -> task_lib.Outputs:
    strategy = tf.distribute.get_strategy()
    predictor = model_lib.Predictor(strategy, model, _PREDICTION_BATCH_SIZE)
    return predictor.predict(name, rows)


def probe(
    encoder: encoder_lib.Encoder, train: rows_lib.Rows, dev: rows_lib.Rows
) -> task_lib.Outputs:
    """Fits a linear model to `train` and returns its `logits` for `dev`.

    Nothing of the encoder is trained. What the linear model sees of its last
    layer is for classification the mean over all tokens beside the vector of
    [CLS] (the objectives of pre-training give [CLS] alone little to hold), for
    tagging the vector of each word's first piece.

    Each number is standardized over the training data. The model is logistic
    regression with an L2 penalty of 1 / (2 C) = 0.5 on the weights against the
    summed loss, fitted by at most 100 steps of L-BFGS from zero. There is
    nothing random in it.
    """
    labels, is_told = _flat_labels(train)
    found = np.unique(labels[is_told])
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
    vectors = np.concatenate(_collect_vectors(encoder, train))[is_told]
    # Products this small are thirty times slower on several threads when
    # another process has the cores, and one thread always adds in one order.
    with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
        model.fit(vectors, labels[is_told])
        logits = [_logits(model, row) for row in _collect_vectors(encoder, dev)]
    return _outputs(dev, logits)


def _logits(model: pipeline.Pipeline, vectors: np.ndarray) -> np.ndarray:
    """`[n, classes]`, with -inf for classes that were not in the training."""
    classes = model.classes_
    full = np.full((len(vectors), classes.max() + 1), -np.inf)
    if len(vectors):
        full[:, classes] = model.predict_log_proba(vectors)
    return full


def _num_labels(rows: rows_lib.Rows) -> np.ndarray:
    """How many labels each row has: one, or one for each word."""
    if _POSITIONS in rows.ragged:
        return rows.ragged[_POSITIONS].lengths
    return np.ones(rows.num_rows, int)


def _outputs(
    rows: rows_lib.Rows, logits: Sequence[np.ndarray]
) -> task_lib.Outputs:
    """Logits `[labels, classes]` of each row, as a head gives them."""
    if _POSITIONS in rows.ragged:
        return {"logits": logits}
    return {"logits": [row[0] for row in logits]}


def _flat_labels(rows: rows_lib.Rows) -> tuple[np.ndarray, np.ndarray]:
    """The labels of all rows, flat, and which of them are told."""
    if "tags" in rows.ragged:
        weights = rows.ragged["tag_weights"].values
        return rows.ragged["tags"].values, weights > 0
    if "label" not in rows.columns:
        raise ValueError(
            "A probe is fitted to classification or tagging. Received a task "
            f"with the columns {[*rows.columns, *rows.ragged]}. Fine-tune it."
        )
    return rows.columns["label"], np.ones(rows.num_rows, bool)


def _collect_vectors(
    encoder: encoder_lib.Encoder, rows: rows_lib.Rows
) -> Sequence[np.ndarray]:
    """The vectors of each row that have labels, `[labels, D or 2D]`."""
    head = _VectorHead(is_tagging=_POSITIONS in rows.ragged)
    model = model_lib.FinetuningModel(encoder, {"probe": head})
    return _predict(model, "probe", rows)["vectors"]


class _VectorHead(task_heads.TaskHead):
    """Predicts what a linear model sees: one vector for each label."""

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
        """Raises: nothing is learned by gradients."""
        raise NotImplementedError

    def predict(self, hidden: tf.Tensor, features: task_heads.Tensors) -> dict:
        """Returns `vectors`, `[B, labels, D or 2D]`."""
        if _POSITIONS in self.columns:
            positions = features[_POSITIONS]
            return {"vectors": masking.gather_positions(hidden, positions)}
        mask = tf.cast(features["input_mask"], hidden.dtype)[..., tf.newaxis]
        mean = tf.reduce_sum(hidden * mask, 1) / tf.reduce_sum(mask, 1)
        vectors = tf.concat([mean, hidden[:, 0]], -1)[:, tf.newaxis]
        return {"vectors": vectors}
