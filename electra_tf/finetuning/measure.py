"""What an encoder's representation is worth, without a leaderboard.

One call for one pre-trained model: a linear probe and a short fine-tune for
each task, on a part of its training data. With the defaults three tasks take
76 seconds of CPU time (cores that other programs had too) for a model of 2
layers of 128 and rows of 64 tokens. The scores compare such models with each
other, not with published results.
"""

import functools
import pathlib
from collections.abc import Sequence

import numpy as np

from electra_tf.finetuning import encoders
from electra_tf.finetuning import features as features_lib
from electra_tf.finetuning import probing
from electra_tf.finetuning import short_finetune
from electra_tf.finetuning import tasks
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

MAX_EXAMPLES = 4_000
FINETUNE_STEPS = 100


def measure_encoder(
    model_dir: pathlib.Path,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
    *,
    checkpoint: str = "latest",
    seed: int = 1,
    max_examples: int = MAX_EXAMPLES,
    finetune_steps: int = FINETUNE_STEPS,
) -> dict[str, float]:
    """Scores of a pre-trained encoder; the run's folder is only read.

    Args:
        model_dir: folder of a pre-training run.
        tasks_dir: folder of the official files, see `Task.find_folder`.
        task_names: keys of `TASKS`.
        checkpoint: `latest`, `best`, or the folder of one.
        seed: of the choice of examples, the new layers, order and dropout.
        max_examples: training sentences per task, drawn by `seed`; 0 for all.
            Scores are always on the whole `dev` split.
        finetune_steps: updates of each fine-tune; 0 for none.

    Returns:
        `{task}_probe` and, unless there are no steps, `{task}_finetune`, in
        the task's metric.

    Raises:
        ValueError: for an unknown task, data that are not as published, or a
            checkpoint that does not fit its run.
        FileNotFoundError: if a task or the checkpoint is not there.
    """
    loaded = encoders.load_encoder(model_dir, checkpoint)
    return measure_loaded_encoder(
        loaded,
        tasks_dir,
        task_names,
        seed=seed,
        max_examples=max_examples,
        finetune_steps=finetune_steps,
    )


def measure_loaded_encoder(
    loaded: encoders.LoadedEncoder,
    tasks_dir: pathlib.Path,
    task_names: Sequence[str],
    *,
    seed: int = 1,
    max_examples: int = MAX_EXAMPLES,
    finetune_steps: int = FINETUNE_STEPS,
) -> dict[str, float]:
    """Scores of an encoder in memory, for instance a random one.

    Args:
        loaded: the encoder; its weights are the same afterwards.
        tasks_dir, task_names, seed, max_examples, finetune_steps: as in
            `measure_encoder`.

    Returns:
        As `measure_encoder`.
    """
    for name, value in (
        ("max_examples", max_examples),
        ("finetune_steps", finetune_steps),
    ):
        if value < 0:
            raise ValueError(f"`{name}` must be at least 0. Received: {value}.")
    encoder = loaded.encoder
    results = {}
    # All folders before the first minute of work.
    chosen = tasks.select_tasks(task_names)
    folders = [task.find_folder(tasks_dir) for task in chosen]
    for task, folder in zip(chosen, folders, strict=True):
        train, dev = (
            _load_features(task, folder, split, loaded, limit, seed)
            for split, limit in (("train", max_examples), ("dev", 0))
        )
        results[f"{task.name}_probe"] = probing.probe(encoder, task, train, dev)
        if finetune_steps:
            before = [variable.numpy() for variable in encoder.variables]
            results[f"{task.name}_finetune"] = short_finetune.fine_tune(
                encoder, task, train, dev, num_steps=finetune_steps, seed=seed
            )
            for variable, value in zip(encoder.variables, before, strict=True):
                variable.assign(value)
    return results


def _load_features(
    task: tasks.Task,
    folder: pathlib.Path,
    split: str,
    loaded: encoders.LoadedEncoder,
    max_examples: int,
    seed: int,
) -> features_lib.Features:
    status = (folder / task.files[split]).stat()
    return _tokenize_file(
        task.name,
        folder,
        split,
        loaded.vocabulary,
        loaded.settings.data.max_seq_length,
        max_examples,
        seed if max_examples else 0,
        (status.st_mtime_ns, status.st_size),
    )


# Trials of a task in one process tokenize its files once.
@functools.lru_cache(maxsize=32)
def _tokenize_file(
    task_name: str,
    folder: pathlib.Path,
    split: str,
    vocabulary: vocabulary_lib.Vocabulary,
    length: int,
    max_examples: int,
    seed: int,
    file_version: tuple[int, int],
) -> features_lib.Features:
    """The arrays of a split; `file_version` only tells changed files apart."""
    task = tasks.TASKS[task_name]
    examples = task.read(folder, split)
    if 0 < max_examples < len(examples.texts):
        order = np.random.default_rng(seed).permutation(len(examples.texts))
        rows = order[:max_examples]
        examples = tasks.Examples(
            tuple(examples.texts[row] for row in rows),
            tuple(examples.labels[row] for row in rows),
        )
    return features_lib.build_features(
        examples, task.kind, _build_tokenizer(vocabulary), length
    )


@functools.lru_cache(maxsize=4)
def _build_tokenizer(
    vocabulary: vocabulary_lib.Vocabulary,
) -> tokenizer_lib.Tokenizer:
    return tokenizer_lib.Tokenizer(vocabulary)
