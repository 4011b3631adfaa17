"""What a fine-tuning left in its folder, for those who export it."""

import pathlib
from typing import NamedTuple

from electra_tf import finetuning_config
from electra_tf.export import finetuned_answering
from electra_tf.export import finetuned_module
from electra_tf.export import finetuned_tagging
from electra_tf.finetuning import encoders
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import prepared as prepared_lib
from electra_tf.finetuning import results
from electra_tf.finetuning import trial_dir as trial_dir_lib
from electra_tf.formats import own_run
from electra_tf.tasks import own
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.question_answering import task as qa_task
from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences import glue
from electra_tf.tasks.sentences import regression
from electra_tf.tasks.tagging import task as tagging_task
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints


class TrainedTask(NamedTuple):
    """One task of a trial, with the trial's weights.

    Attributes:
        module: answers what the task asks.
        task: the task.
        labels: in the order of the head's outputs; empty for tasks without.
        vocabulary: of the model.
        description: of the trial.
        checkpoint: that the weights are of.
        row_length: most tokens of the rows that it was trained on.
    """

    module: finetuned_module.FinetunedModule
    task: task_lib.Task
    labels: tuple[str, ...]
    vocabulary: vocabulary_lib.Vocabulary
    description: trial_dir_lib.TrialDescription
    checkpoint: pathlib.Path
    row_length: int


def find_trial(folder: pathlib.Path) -> pathlib.Path | None:
    """The trial that a folder means; None if it is no fine-tuning's.

    Args:
        folder: of a trial; or the output_dir of a fine-tuning, which means the
            trial with the best dev score.

    Raises:
        FileNotFoundError: if no trial of a fine-tuning has finished.
        OSError: if there can be nothing at such a path, or it may not be read.
    """
    _require_readable(folder)
    if own_run.is_trial(folder):
        return folder
    if (folder / trial_dir_lib.CONFIG_FILE).is_file():
        return None
    trials = sorted(folder.glob("trial_*/" + trial_dir_lib.CONFIG_FILE))
    if not trials:
        return None
    number = results.best_trial(folder)
    return folder / f"trial_{number:02d}"


def _require_readable(folder: pathlib.Path) -> None:
    try:
        # Of a file in it: a folder can be seen that may not be looked into.
        (folder / trial_dir_lib.CONFIG_FILE).is_file()
    except OSError as error:
        raise OSError(
            f"A model must lie at a path that can be read. Received: {folder}: "
            f"{error.strerror}. Give another path, or the right to read it."
        ) from error


def load_task(
    folder: pathlib.Path,
    name: str = "",
    checkpoint: str = "latest",
    precision: str = "float32",
    max_length: int = 0,
) -> TrainedTask:
    """A task of a trial.

    Args:
        folder: of the trial.
        name: of the task; may be empty if there is one.
        checkpoint: `latest`, which is the best one where training stopped
            early by the dev score; `best`; or the folder of a checkpoint.
        precision: of the products.
        max_length: tokens at which rows are cut; 0 for the length that it was
            trained with.

    Raises:
        FileNotFoundError: if there is no such checkpoint.
        ModelDirError: if there is no trial.
        CheckpointError: unless the checkpoint holds all weights.
        ValueError: for another task, or a length that cannot be.
    """
    description = trial_dir_lib.load(folder)
    prepared = _prepare(folder, description)
    name = portable_trial.choose_task(folder, list(prepared.tasks), name)
    task, labels = prepared.tasks[name], description.labels.get(name, ())
    encoder = encoders.build_encoder(description.encoder, precision)
    head = task.build_head(
        description.encoder.hidden_size,
        description.settings.training.seed,
        encoder.dtype_policy,
    )
    path = (
        trial_dir_lib.final_checkpoint(folder, description.settings)
        if checkpoint == "latest"
        else checkpoints.find(folder, checkpoint)
    )
    checkpoints.load_weights(
        path, {v.path: v for v in [*encoder.variables, *head.variables]}
    )
    vocabulary = vocabulary_lib.Vocabulary.load(folder)
    module = build_module(
        task,
        finetuned_module.FinetunedLayers(encoder, head),
        tokenizer_lib.Tokenizer(vocabulary),
        description.settings,
        labels,
        max_length or prepared.lengths[name],
    )
    return TrainedTask(
        module, task, labels, vocabulary, description, path,
        prepared.lengths[name],
    )  # fmt: skip


def build_module(
    task: task_lib.Task,
    layers: finetuned_module.FinetunedLayers,
    tokenizer: tokenizer_lib.Tokenizer,
    settings: finetuning_config.FinetuningConfig,
    labels: tuple[str, ...],
    max_length: int,
) -> finetuned_module.FinetunedModule:
    """What answers for a task.

    Args:
        task: of one of the kinds there are.
        layers: with their weights.
        tokenizer: of the encoder's vocabulary.
        settings: of the fine-tuning.
        labels: in the order of the head's outputs.
        max_length: most tokens of a row.

    Raises:
        ValueError: for a kind of task of one's own, which has no signatures.
    """
    has_pairs = _has_pairs(task.name, settings)
    if isinstance(task, classification.ClassificationTask):
        return finetuned_module.ClassificationModule(
            layers, tokenizer, labels, max_length, has_pairs
        )
    if isinstance(task, regression.RegressionTask):
        return finetuned_module.RegressionModule(
            layers, tokenizer, task.min_value, task.max_value, max_length,
            has_pairs,
        )  # fmt: skip
    if isinstance(task, tagging_task.TaggingTask):
        return finetuned_tagging.TaggingModule(
            layers, tokenizer, labels, task.has_spans, max_length,
            task.cuts_early,
        )  # fmt: skip
    if isinstance(task, qa_task.QuestionAnsweringTask):
        return finetuned_answering.AnsweringModule(
            layers, tokenizer, task.settings, max_length
        )
    raise ValueError(
        "Tasks that can be exported are those of classification, regression, "
        f"tagging and question answering. Received: {task.name!r}, a "
        f"{type(task).__name__}. Write a FinetunedModule for it."
    )


def _prepare(
    folder: pathlib.Path, description: trial_dir_lib.TrialDescription
) -> prepared_lib.PreparedTasks:
    """The trial's tasks; none of their files is read."""
    return prepared_lib.PreparedTasks(
        description.settings,
        vocabulary_lib.Vocabulary.load(folder),
        description.encoder.max_position_embeddings,
        description.labels,
    )


def _has_pairs(name: str, settings: finetuning_config.FinetuningConfig) -> bool:
    if name == own.NAME:
        return bool(settings.own.text_pair_column)
    return glue.has_pairs(name)
