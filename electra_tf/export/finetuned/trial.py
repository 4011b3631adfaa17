"""A fine-tuned trial as a SavedModel that takes raw text.

The folder is made as that of a pre-trained model (`saved_model`): checked in a
fresh process, and complete or not there.
"""

import dataclasses
import json
import pathlib
from typing import NamedTuple

import tensorflow as tf

from electra_tf.export import saved_model
from electra_tf.export.finetuned import answering
from electra_tf.export.finetuned import module as module_lib
from electra_tf.export.finetuned import sentences
from electra_tf.export.finetuned import tagging
from electra_tf.finetuning import encoders
from electra_tf.finetuning import portable_trial
from electra_tf.finetuning import results
from electra_tf.finetuning import task_data
from electra_tf.finetuning import trial_dir as trial_dir_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints

_MODULES: dict[str, type[module_lib.FinetunedModule]] = {
    "classification": sentences.SentenceModule,
    "regression": sentences.SentenceModule,
    "tagging": tagging.TaggingModule,
    "qa": answering.AnsweringModule,
}


class TrainedTask(NamedTuple):
    """One task of a trial, with the trial's weights.

    Attributes:
        module: answers what the task asks.
        vocabulary: of the model.
        description: of the trial.
        checkpoint: that the weights are of.
        row_length: most tokens of the rows that it was trained on.
    """

    module: module_lib.FinetunedModule
    vocabulary: vocabulary_lib.Vocabulary
    description: trial_dir_lib.TrialDescription
    checkpoint: pathlib.Path
    row_length: int


def export(
    model_dir: pathlib.Path,
    export_dir: pathlib.Path,
    options: saved_model.ExportOptions | None = None,
    task: str = "",
) -> saved_model.ExportedModel:
    """Exports whatever a folder holds.

    Args:
        model_dir: of a pre-training run, of a trial, or the output_dir of a
            fine-tuning, whose best trial is taken.
        export_dir: folder to create.
        options: which weights, how precisely, how long.
        task: of a trial with several.

    Raises:
        ValueError: if a task is asked of a pre-training run; and as
            `saved_model.export_run` and `export_trial`.
    """
    saved_model.refuse_existing(export_dir)
    trial = results.find_trial(model_dir)
    if trial is not None:
        return export_trial(trial, export_dir, options, task)
    if task:
        raise ValueError(
            "Only fine-tuned trials have tasks. Received: "
            f"--task={task} for {model_dir}, which is none. Leave it out, or "
            "name the folder of a trial."
        )
    return saved_model.export_run(model_dir, export_dir, options)


def export_trial(
    folder: pathlib.Path,
    export_dir: pathlib.Path,
    options: saved_model.ExportOptions | None = None,
    name: str = "",
) -> saved_model.ExportedModel:
    """Exports one task of a trial.

    Args:
        folder: of the trial: config.json, vocabulary, checkpoints.
        export_dir: folder to create.
        options: which weights, how precisely, how long; None takes the
            defaults, rows as long as in training among them.
        name: of the task; may be empty if the trial has one.

    Raises:
        FileExistsError: if `export_dir` exists.
        FileNotFoundError: if the folder lacks what a trial leaves there.
        ValueError: for a task that the trial has not, averaged weights, or
            weights that do not fit.
        ExportError: if the saved model answers otherwise when loaded.
    """
    options = options or saved_model.ExportOptions()
    saved_model.refuse_existing(export_dir)
    if options.use_average:
        raise ValueError(
            "Averaged weights are those of pre-training. Received: "
            f"--use_average for the fine-tuned trial {folder}. Leave it out; "
            "fine-tuning can start from them."
        )
    # The CPU always has room, an accelerator may be in use.
    with tf.device("/CPU:0"):
        trained = load_task(
            folder, name, options.checkpoint, options.precision,
            options.max_length,
        )  # fmt: skip
    task = trained.module.task
    result = trial_dir_lib.read_result(folder)
    scores = result.scores.get(task.name, {}) if result else {}
    facts = {
        "task": task.name,
        "kind": trained.module.kind,
        "labels": list(task.labels),
        "scores": {split: dict(s.metrics) for split, s in scores.items()},
        "checkpoint": f"{folder.resolve().name}/{trained.checkpoint.name}",
        "step": checkpoints.step_of(trained.checkpoint),
        "seed": trained.description.settings.training.seed,
        "source": trained.description.source,
        "trained_length": trained.row_length,
        **task.describe_export(),
    }
    difference = saved_model.write(
        trained.module,
        trained.vocabulary,
        export_dir,
        options,
        facts,
        json.dumps(dataclasses.asdict(trained.description), indent=2) + "\n",
    )
    return saved_model.ExportedModel(export_dir, trained.checkpoint, difference)


def load_task(
    folder: pathlib.Path,
    name: str = "",
    checkpoint: str = "latest",
    precision: str = "float32",
    max_length: int = 0,
) -> TrainedTask:
    """A task of a trial; none of its files is read.

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
        ModelError: if there is no trial.
        ModelError: unless the checkpoint holds all weights.
        ValueError: for another task, one of a kind of its own, which has no
            signatures, or a length that cannot be.
    """
    description = trial_dir_lib.load(folder)
    vocabulary = vocabulary_lib.Vocabulary.load(folder)
    prepared = task_data.PreparedTasks(
        description.settings,
        vocabulary,
        description.encoder.max_position_embeddings,
        description.labels,
    )
    name = portable_trial.choose_task(folder, list(prepared.tasks), name)
    task = prepared.tasks[name]
    if task.kind not in _MODULES:
        raise ValueError(
            "Tasks that can be exported are those of classification, "
            "regression, tagging and question answering. Received: "
            f"{task.name!r}, a {type(task).__name__}. Write a FinetunedModule "
            "for it."
        )
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
    module = _MODULES[task.kind](
        encoder,
        head,
        tokenizer_lib.Tokenizer(vocabulary),
        task,
        max_length or prepared.lengths[name],
    )
    return TrainedTask(
        module, vocabulary, description, path, prepared.lengths[name]
    )
