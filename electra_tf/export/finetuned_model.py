"""A fine-tuned trial as a SavedModel that takes raw text.

The folder is made as that of a pre-trained model (`saved_model`): checked in a
fresh process, and complete or not there.
"""

import dataclasses
import json
import pathlib
from typing import Any

import tensorflow as tf

import electra_tf
from electra_tf.export import finetuned_documentation
from electra_tf.export import saved_model
from electra_tf.export import trained_trial
from electra_tf.finetuning import trial_dir as trial_dir_lib
from electra_tf.tasks.question_answering import task as qa_task
from electra_tf.tasks.sentences import regression
from electra_tf.tasks.tagging import task as tagging_task
from electra_tf.training import checkpoints


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
    trial = trained_trial.find_trial(model_dir)
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
    task: str = "",
) -> saved_model.ExportedModel:
    """Exports one task of a trial.

    Args:
        folder: of the trial: config.json, vocabulary, checkpoints.
        export_dir: folder to create.
        options: which weights, how precisely, how long; None takes the
            defaults, rows as long as in training among them.
        task: name of the task; may be empty if the trial has one.

    Raises:
        FileExistsError: if `export_dir` exists.
        FileNotFoundError: if the folder lacks what a trial leaves there.
        ValueError: for a task that the trial has not, averaged weights, or
            weights that do not fit.
        SelfCheckError: if the saved model answers otherwise when loaded.
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
        trained = trained_trial.load_task(
            folder, task, options.checkpoint, options.precision,
            options.max_length,
        )  # fmt: skip
    trained.module.prepare(options.weights, options.device)
    facts = _collect_facts(folder, trained, options)
    content = json.dumps(dataclasses.asdict(trained.description), indent=2)
    difference = saved_model.write(
        trained.module,
        trained.vocabulary,
        export_dir,
        saved_model.Companions(
            facts, content + "\n", finetuned_documentation.render_readme(facts)
        ),
    )
    return saved_model.ExportedModel(export_dir, trained.checkpoint, difference)


def _collect_facts(
    folder: pathlib.Path,
    trained: trained_trial.TrainedTask,
    options: saved_model.ExportOptions,
) -> dict[str, Any]:
    """What export.json holds."""
    module, task, path = trained.module, trained.task, trained.checkpoint
    result = trial_dir_lib.read_result(folder)
    scores = result.scores.get(task.name, {}) if result else {}
    facts: dict[str, Any] = {
        "task": task.name,
        "kind": module.kind,
        "signatures": list(module.signature_names),
        "labels": list(trained.labels),
        "scores": {split: dict(s.metrics) for split, s in scores.items()},
        "checkpoint": f"{folder.resolve().name}/{path.name}",
        "step": checkpoints.step_of(path),
        "seed": trained.description.settings.training.seed,
        "source": trained.description.source,
        "precision": options.precision,
        "stored_weights": options.weights,
        "device": options.device,
        "max_length": module.max_length,
        "num_positions": module.num_positions,
        "trained_length": trained.row_length,
        "electra_tf": electra_tf.__version__,
        "tensorflow": tf.__version__,
    }
    if isinstance(task, regression.RegressionTask):
        facts |= {"min_value": task.min_value, "max_value": task.max_value}
    if isinstance(task, tagging_task.TaggingTask):
        facts["cuts_early"] = task.cuts_early
    if isinstance(task, qa_task.QuestionAnsweringTask):
        for name in ("max_query_length", "doc_stride", "max_answer_length",
                     "qa_na_threshold"):  # fmt: skip
            facts[name] = getattr(task.settings, name)
    return facts
