"""What an encoder's representation is worth, without a leaderboard.

One call for one pre-trained model: a linear probe and a short fine-tune for
each task, on a part of its training data. With the defaults three tasks take
about a minute of CPU time for a model of 2 layers of 128 and rows of 64
tokens. The scores compare such models with each other, not with published
results: those come from `scripts/run_finetuning.py`.
"""

import pathlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import batches
from electra_tf.finetuning import encoders
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import optimizer
from electra_tf.finetuning import predictor
from electra_tf.finetuning import probing
from electra_tf.tasks import catalog
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.training import training_run

MAX_EXAMPLES = 4_000
FINETUNE_STEPS = 100
LEARNING_RATE = 5e-4
_BATCH_SIZE = 32
_PERCENT = 100.0


def measure_loaded_encoder(
    loaded: encoders.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
    *,
    seed: int = 1,
    max_examples: int = MAX_EXAMPLES,
    finetune_steps: int = FINETUNE_STEPS,
) -> dict[str, float]:
    """Scores of an encoder in memory: a pre-trained or a random one.

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

    Raises:
        ValueError: for an unknown task, or data that are not as published.
        FileNotFoundError: if a task is not there.
    """
    for name, value in (
        ("max_examples", max_examples),
        ("finetune_steps", finetune_steps),
    ):
        if value < 0:
            raise ValueError(f"`{name}` must be at least 0. Received: {value}.")
    results = {}
    # All files are looked at before the first minute of work.
    for task, train, dev in _read_rows(
        loaded, tasks_dir, task_names, max_examples, seed
    ):
        outputs = probing.probe(loaded.encoder, train, dev)
        results[f"{task.name}_probe"] = _score(task, dev, outputs)
        if finetune_steps:
            before = [variable.numpy() for variable in loaded.encoder.variables]
            outputs = fine_tune(
                loaded, task, train, dev, num_steps=finetune_steps, seed=seed
            )
            results[f"{task.name}_finetune"] = _score(task, dev, outputs)
            for variable, value in zip(
                loaded.encoder.variables, before, strict=True
            ):
                variable.assign(value)
    return results


def measure_guessing(
    loaded: encoders.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
) -> dict[str, float]:
    """What each task gives to who always says the commonest training label.

    Args:
        loaded: gives the vocabulary and the length of rows.
        tasks_dir, task_names: as in `measure_loaded_encoder`.

    Returns:
        Task to its metric as a share.
    """
    return {
        task.name: _score(task, dev, probing.guess(train, dev))
        for task, train, dev in _read_rows(loaded, tasks_dir, task_names)
    }


def fine_tune(
    loaded: encoders.LoadedEncoder,
    task: task_lib.Task,
    train: rows_lib.Rows,
    dev: rows_lib.Rows,
    *,
    num_steps: int,
    seed: int,
    learning_rate: float = LEARNING_RATE,
) -> task_lib.Outputs:
    """What a head says of `dev` after a few steps of everything on `train`.

    Rates are the same at all depths: after so few steps, slow lower layers
    would stay where they were.

    Args:
        loaded: the encoder; its weights are changed.
        task: what the rows are of.
        train: rows to train on, in batches of 32.
        dev: rows to predict.
        num_steps: updates; a tenth of them is warm-up.
        seed: of the head, the order of the rows, and dropout.
        learning_rate: peak.

    Raises:
        NonFiniteLossError: if the loss stops being a number.
    """
    head = task.build_head(loaded.settings.hidden_size, seed)
    model = model_lib.FinetuningModel(loaded.encoder, {task.name: head}, seed)
    options = finetuning_config.FinetuningOptimizerConfig(
        learning_rate=learning_rate, layerwise_lr_decay=1.0
    )
    model.optimizer = optimizer.build_optimizer(
        options, num_steps, loaded.settings.num_hidden_layers
    )
    model.optimizer.build(model.trainable_variables)
    table = batches.RowTable({task.name: train}, {task.name: head.columns})
    order = batches.order_for_training(
        train.lengths, _BATCH_SIZE, num_steps, seed
    )
    dataset = batches.build_training_dataset(table, order, 0)
    # Batches of any length: traced once.
    step = tf.function(
        model.training_step,
        input_signature=[dataset.element_spec],
        autograph=False,
    )
    for number, features in enumerate(dataset):
        statistics = {k: v.numpy() for k, v in step(features).items()}
        training_run.require_finite(statistics, f"at step {number + 1}")
    return predictor.Predictor(
        tf.distribute.get_strategy(), model, 2 * _BATCH_SIZE
    ).predict(task.name, dev)


def _score(
    task: task_lib.Task, dev: rows_lib.Rows, outputs: task_lib.Outputs
) -> float:
    examples = task.read("dev")
    predictions = task.decode(examples, dev, outputs)
    return task.score(examples, predictions)[task.metric] / _PERCENT


def _read_rows(
    loaded: encoders.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
    max_examples: int = 0,
    seed: int = 0,
) -> Iterator[tuple[task_lib.Task, rows_lib.Rows, rows_lib.Rows]]:
    """Each task with rows to learn from, as many as wanted, and `dev`."""
    tokenizer = tokenizer_lib.Tokenizer(loaded.vocabulary)
    for task in _read_tasks(task_names, tasks_dir):
        length = min(
            loaded.settings.max_position_embeddings, task.max_seq_length
        )
        chosen = _choose(task.read("train"), max_examples, seed)
        train = task.build_rows(chosen, tokenizer, length, is_training=True)
        dev = task.build_rows(task.read("dev"), tokenizer, length, False)
        yield task, train, dev


def _read_tasks(
    names: Sequence[str], tasks_dir: pathlib.Path
) -> list[task_lib.Task]:
    """The tasks, after a look at all their files."""
    settings = finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(
            names=",".join(names),
            data_dir=str(tasks_dir),
            double_unordered=False,
        )
    )
    tasks = catalog.build_tasks(settings)
    for task in tasks:
        for split in ("train", "dev"):
            task.read(split)
    return tasks


def _choose(
    examples: Sequence[Any], max_examples: int, seed: int
) -> Sequence[Any]:
    """All examples, or as many as wanted, drawn by the seed."""
    if not 0 < max_examples < len(examples):
        return examples
    order = np.random.default_rng(seed).permutation(len(examples))
    return [examples[place] for place in order[:max_examples]]
