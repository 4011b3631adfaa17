"""Fine-tuned trials as portable models, and back.

A converted model is a trial that was not trained here: config, vocabulary and
one checkpoint, so export takes it; it has no scores.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import prepared as prepared_lib
from electra_tf.finetuning.trials import trial_dir as trial_dir_lib
from electra_tf.formats import layout
from electra_tf.formats import own_run
from electra_tf.formats import portable
from electra_tf.tasks import catalog
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import glue
from electra_tf.tasks.sentences import own
from electra_tf.tasks.sentences import task as sentence_task
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints

# Of the files that a converted classifier of pairs would be scored on.
_PAIR_COLUMN = "text_pair"


def read(folder: pathlib.Path, name: str = "") -> portable.PortableModel:
    """A trial's weights, those of its scores.

    Args:
        folder: of the trial.
        name: of the task to take; may be empty if there is one.

    Raises:
        FileNotFoundError: if there is no checkpoint.
        ModelError: if there is no trial.
        ModelError: if the checkpoint is damaged.
        ModelError: if it lacks tensors, or has some that nothing reads, or
            a vocabulary of another size.
        ValueError: for a task that it was not trained on.
    """
    description = trial_dir_lib.load(folder)
    vocabulary = vocabulary_lib.Vocabulary.load(folder)
    own_run.resolve_vocab_size(description.encoder, vocabulary, folder)
    tasks = _build_tasks(folder, description, vocabulary)
    task = tasks[choose_task(folder, list(tasks), name)]
    checkpoint = trial_dir_lib.final_checkpoint(folder, description.settings)
    tensors = checkpoints.load_tensors(checkpoint, "model")
    others = [n for n in tasks if n != task.name]
    left_out = tuple(f"{portable.TASK_HEADS}/{other}/" for other in others)
    model = portable.PortableModel(
        {p: v for p, v in tensors.items() if not p.startswith(left_out)},
        description.encoder,
        vocabulary=vocabulary,
        task=_describe(task, description.labels.get(task.name, ())),
        step=checkpoints.step_of(checkpoint),
        origin=f"trial {checkpoint}",
        notes=tuple(f"left out the head of {other}" for other in others),
    )
    layout.check(model)
    return model


def _build_tasks(
    folder: pathlib.Path,
    description: trial_dir_lib.TrialDescription,
    vocabulary: vocabulary_lib.Vocabulary,
) -> Mapping[str, task_lib.Task]:
    try:
        return prepared_lib.PreparedTasks(
            description.settings,
            vocabulary,
            description.encoder.max_position_embeddings,
            description.labels,
        ).tasks
    except (ValueError, LookupError) as error:
        raise errors.ModelError(
            f"{folder / trial_dir_lib.CONFIG_FILE} must describe tasks and "
            f"their labels. Received: {error} Restore the file."
        ) from error


def choose_task(folder: pathlib.Path, names: list[str], name: str) -> str:
    """The task of a trial that is meant.

    Args:
        folder: of the trial, for the message.
        names: of its tasks.
        name: what was asked for; may be empty if there is one.

    Raises:
        ValueError: if that is not one of them.
    """
    if not name and len(names) == 1:
        return names[0]
    if name not in names:
        received = repr(name) if name else "no --task"
        raise ValueError(
            f"{folder} was trained on {', '.join(names)}; a model of one of "
            f"them is wanted. Received: {received}. Give --task={names[0]}, "
            "for example."
        )
    return name


def _describe(
    task: task_lib.Task,
    labels: tuple[str, ...],
) -> portable.PortableTask:
    has_hidden_layer = (
        isinstance(task, sentence_task.TextTask) and task.has_hidden_layer
    )
    described = portable.PortableTask(
        task.name,
        task.kind,
        labels,
        has_hidden_layer,
        has_pairs=task.name == own.NAME and task.has_pairs,
    )
    if isinstance(task, sentence_task.RegressionTask):
        value_range = float(task.min_value), float(task.max_value)
        described = dataclasses.replace(described, value_range=value_range)
    return described


def write(
    model: portable.PortableModel, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes a trial that can be exported.

    A model of a task that has no name here becomes one of a user's own.

    Args:
        model: fine-tuned, with its vocabulary.
        folder: exists and is empty.

    Returns:
        The model as it was written.

    Raises:
        ModelError: if the vocabulary or the labels are missing, or if the
            task's head has other tensors or shapes.
    """
    vocabulary = model.vocabulary
    if vocabulary is None or model.task is None:
        raise errors.ModelError(
            "A trial holds its task and the vocabulary that its ids mean. "
            f"Received: {model.origin} without. Give --vocab_file."
        )
    model, task = _with_known_task(model, model.task)
    settings = _settings(task, model)
    labels = _labels(model, task)
    task = dataclasses.replace(task, labels=labels)
    model = dataclasses.replace(model, task=task)
    _require_head(model, settings, labels)
    trial_dir_lib.claim(
        folder,
        trial_dir_lib.TrialDescription(
            settings,
            model.encoder,
            {task.name: labels},
            f"converted from {model.origin}",
        ),
        vocabulary,
    )
    checkpoints.save(
        folder,
        model.step,
        {f"model/{path}": value for path, value in model.tensors.items()},
        {"best_step": None, "converted from": model.origin},
        keep=1,
    )
    return model


def with_known_labels(model: portable.PortableModel) -> portable.PortableModel:
    """The model; its labels are its task's own ones if its files name none.

    Args:
        model: of any kind. That of a task whose labels differ from data to
            data stays as it is.
    """
    task = model.task
    if task is None or task.labels or not _is_known(task):
        return model
    task = dataclasses.replace(task, labels=_catalog_labels(task.name))
    return dataclasses.replace(model, task=task)


def _with_known_task(
    model: portable.PortableModel, task: portable.PortableTask
) -> tuple[portable.PortableModel, portable.PortableTask]:
    """The model, its task called `own` if it is none of the catalog."""
    if task.name == own.NAME or _is_known(task):
        return model, task
    head = f"{portable.TASK_HEADS}/"
    renamed = {
        path: value
        for path, value in model.tensors.items()
        if not path.startswith(head)
    } | portable.rename_part(model.tensors, head + task.name, head + own.NAME)
    reads_pairs = (
        task.kind in ("classification", "regression")
        and task.name in glue.TASKS
        and glue.TASKS[task.name].has_pairs
    )
    task = dataclasses.replace(
        task, name=own.NAME, has_pairs=task.has_pairs or reads_pairs
    )
    return dataclasses.replace(model, tensors=renamed, task=task), task


def _is_known(task: portable.PortableTask) -> bool:
    """Whether the catalog has this task, kind, range, with these labels."""
    if task.name not in catalog.TASK_NAMES:
        return False
    settings = finetuning_config.FinetuningConfig()
    described = _describe(catalog.build_task(task.name, settings), ())
    if (described.kind, described.value_range) != (task.kind, task.value_range):
        return False
    known = _catalog_labels(task.name)
    return not (known and task.labels) or set(known) == set(task.labels)


def _catalog_labels(name: str) -> tuple[str, ...]:
    """Labels of a named task; empty if its files tell, or for no task."""
    if name not in catalog.TASK_NAMES:
        return ()
    settings = finetuning_config.FinetuningConfig()
    try:
        return tuple(catalog.build_task(name, settings).labels)
    except (OSError, ValueError):
        return ()


def _settings(
    task: portable.PortableTask, model: portable.PortableModel
) -> finetuning_config.FinetuningConfig:
    sections: dict[str, Any] = {
        "task": finetuning_config.TaskConfig(
            names=task.name, hidden_layer=task.has_hidden_layer
        )
    }
    if task.name == own.NAME:
        # A label with a comma cannot stand there; the trial lists all apart.
        is_listable = not any("," in label for label in task.labels)
        sections["own"] = finetuning_config.OwnTaskConfig(
            kind=task.kind,
            labels=",".join(task.labels) if is_listable else "",
            text_pair_column=_PAIR_COLUMN if task.has_pairs else "",
            min_value=task.value_range[0],
            max_value=task.value_range[1],
        )
    if task.kind == "qa":
        sections["qa"] = _answering_settings(task, model)
    return finetuning_config.FinetuningConfig(**sections)


def _answering_settings(
    task: portable.PortableTask, model: portable.PortableModel
) -> finetuning_config.QuestionAnsweringConfig:
    """Which of the optional layers of the head there are, by their names."""
    head = f"{portable.TASK_HEADS}/{task.name}/"
    layers = {
        path.removeprefix(head).split("/")[0]
        for path in model.tensors
        if path.startswith(head)
    }
    # start, end, and up to two of the classifier; the joint one has a name.
    num_plain = len(layers - {"qa_hidden"})
    return finetuning_config.QuestionAnsweringConfig(
        joint_prediction="qa_hidden" in layers,
        answerable_classifier=num_plain > 2,
        answerable_uses_start_logits=num_plain > 3,
    )


def _labels(
    model: portable.PortableModel, task: portable.PortableTask
) -> tuple[str, ...]:
    """The model's labels, or those that its task always has."""
    if task.kind in ("regression", "qa"):
        return ()
    if task.labels:
        return task.labels
    known = _catalog_labels(task.name)
    if not known:
        raise errors.ModelError(
            f"The labels of {task.name!r} must be known, in the order of the "
            f"outputs. Received: none in {model.origin}. Give them with "
            "--labels=NAME,NAME,..."
        )
    return known


def _require_head(
    model: portable.PortableModel,
    settings: finetuning_config.FinetuningConfig,
    labels: tuple[str, ...],
) -> None:
    """Raises `ModelError` unless the task's head has these tensors."""
    task = model.task
    if task is None or model.vocabulary is None:
        return
    try:
        tasks = prepared_lib.PreparedTasks(
            settings,
            model.vocabulary,
            model.encoder.max_position_embeddings,
            {task.name: labels},
        ).tasks
        head = tasks[task.name].build_head(model.encoder.hidden_size, seed=1)
    except (errors.ConfigError, ValueError) as error:
        raise errors.ModelError(
            f"{model.origin} does not fit a task here: {error}"
        ) from error
    variables = {v.path: v for v in head.variables}
    beginning = f"{portable.TASK_HEADS}/"
    found = {
        path: value
        for path, value in model.tensors.items()
        if path.startswith(beginning)
    }
    checkpoints.require_equal_layout(model.origin, found, variables)
