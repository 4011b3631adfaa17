"""Converts fine-tuned trials to portable models, and back.

A converted model is a trial with config, vocabulary and one checkpoint, so that
exports can read it. It has scores only if it was made from a trial.
"""

import dataclasses
import pathlib
from typing import Any, NamedTuple, cast

from electra_tf import errors
from electra_tf import installed
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import results
from electra_tf.finetuning import task_data
from electra_tf.finetuning import trial as trial_lib
from electra_tf.formats import portable
from electra_tf.formats import reading
from electra_tf.modeling import networks
from electra_tf.processes import atomic
from electra_tf.tasks import base
from electra_tf.tasks import catalog
from electra_tf.tasks.sentences import glue
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints


class History(NamedTuple):
    """One task of a trial: its settings and scores, without weights."""

    task: portable.PortableTask
    description: trial_lib.TrialDescription  # settings of this task
    result: trial_lib.TrialResult | None  # scores of this task, if any
    prepared: base.Task  # with its labels and conventions
    row_length: int  # most tokens of a row
    checkpoint: pathlib.Path


def read_trial(
    folder: pathlib.Path, name: str = "", which: str = "latest"
) -> portable.PortableModel:
    """Reads one task of a trial.

    The weights are those of its scores, or of `which` checkpoint.
    """
    description = trial_lib.read_description(folder)
    vocabulary = vocabulary_lib.Vocabulary.load(folder)
    networks.resolve_vocab_size(description.encoder, vocabulary.size, folder)
    try:
        prepared = task_data.PreparedTasks(
            description.settings,
            vocabulary,
            description.encoder.max_position_embeddings,
            description.labels,
            description.conventions,
        )
    except (ValueError, LookupError) as error:
        raise errors.ModelError(
            f"{folder / trial_lib.CONFIG_FILE} must describe tasks and "
            f"their labels. Received: {error} Restore the file."
        ) from error
    name = results.choose_task(folder, list(prepared.tasks), name)
    task, settings = prepared.tasks[name], description.settings
    if which == "latest":
        checkpoint = trial_lib.final_checkpoint(folder, settings)
    else:
        checkpoint = checkpoints.find(folder, which)
    others = [other for other in prepared.tasks if other != task.name]
    left_out = tuple(f"{portable.TASK_HEADS}/{other}/" for other in others)
    tensors = checkpoints.load_tensors(checkpoint, "model")
    labels = description.labels.get(task.name, ())
    conventions = (description.conventions or {}).get(task.name)
    portable_task = portable.describe_task(task, labels, conventions)
    # A config without the task `own` must not set the section `own`.
    default = finetuning_config.OwnTaskConfig()
    settings = dataclasses.replace(
        settings,
        task=dataclasses.replace(settings.task, names=task.name),
        own=settings.own if task.name == base.OWN else default,
    )
    description = dataclasses.replace(
        description, settings=settings, labels={task.name: labels}
    )
    result = trial_lib.read_result(folder)
    if result is not None:
        scores = {n: v for n, v in result.scores.items() if n == task.name}
        result = dataclasses.replace(result, scores=scores)
    about = portable_task, description, result
    model = portable.PortableModel(
        {p: v for p, v in tensors.items() if not p.startswith(left_out)},
        description.encoder,
        vocabulary=vocabulary,
        task=portable_task,
        step=checkpoints.step_of(checkpoint),
        origin=f"trial {checkpoint}",
        notes=tuple(f"left out the head of {other}" for other in others),
        history=History(*about, task, prepared.lengths[name], checkpoint),
    )
    portable.check(model)
    return model


def write_trial(
    model: portable.PortableModel, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes a fine-tuned model as a trial into an empty folder.

    If the catalog lacks the model's task, the trial has the task `own`. Returns
    the model that was written.
    """
    vocabulary = model.require_vocabulary()
    task = cast(portable.PortableTask, model.task)
    old_head = task.head
    if task.name != base.OWN and _find_standard(task) is None:
        task = dataclasses.replace(
            task, name=base.OWN, has_pairs=reads_pairs(task)
        )
    if not base.find_kind(task.kind).outputs_are_labels:
        task = dataclasses.replace(task, labels=())
    else:
        task = _with_labels(task)
        portable.require_labels(task.name, task.labels, model.origin)
    renamed = portable.rename_part(model.tensors, old_head, task.head)
    encoder = portable.take_part(model.tensors, portable.MAIN)
    model = dataclasses.replace(model, tensors=encoder | renamed, task=task)
    portable.check(model)
    fields = _find_conventions(task)
    conventions = {task.name: fields} if fields else None
    description = trial_lib.TrialDescription(
        _settings(task, renamed),
        model.encoder,
        {task.name: task.labels},
        f"{trial_lib.CONVERTED} {model.origin}",
        conventions,
    )
    history: History | None = model.history
    if history is not None and history.task == dataclasses.replace(
        task, labels=history.task.labels
    ):
        description = dataclasses.replace(
            history.description, labels={task.name: task.labels}
        )
    trial_lib.claim(folder, description, vocabulary)
    weights = {f"model/{path}": value for path, value in model.tensors.items()}
    state = {"best_step": None, "converted from": model.origin}
    checkpoints.save(folder, model.step, weights, state, keep=1)
    result = history and history.result
    if result and task.name in result.scores:  # not if the task was renamed
        trial_lib.write_result(folder, result)
    return model


def convert_to_trial(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes a fine-tuned model of any format as a trial that can be scored.

    Writes nothing for a pre-trained model.
    """
    source = installed.find_model(path)
    trial = results.find_trial(source)
    model = read_trial(trial) if trial else reading.read_model(source)
    if model.task is None:
        return
    with atomic.creating_folder(folder) as partial:
        write_trial(model, partial)
        if trial_lib.read_result(partial) is None:
            empty_result = trial_lib.TrialResult(
                seed=1,
                scores={},
                metrics={},
                num_steps=model.step,
                origin=model.origin,
                seconds=0.0,
                device="",
                versions={},
            )
            trial_lib.write_result(partial, empty_result)


def adopt_files(
    folder: pathlib.Path, settings: finetuning_config.FinetuningConfig
) -> finetuning_config.FinetuningConfig:
    """Returns the settings for scoring a trial.

    For a converted model, kind, labels and head come from the model, and the
    files from `settings`. For any other trial, `settings` do not change.
    """
    if not (folder / trial_lib.CONFIG_FILE).is_file():
        return settings
    described = trial_lib.read_description(folder)
    if not described.is_converted:
        return settings
    model, given = described.settings, settings.own
    schema.require(
        given.kind == model.own.kind,
        f"The model is one of {model.own.kind}. Received: own.kind="
        f"{given.kind}. Give --config=configs/finetune/own.py:{model.own.kind}",
    )
    names = "kind", "labels", "min_value", "max_value"
    own = {name: getattr(model.own, name) for name in names}
    if model.own.text_pair_column and not given.text_pair_column:
        own["text_pair_column"] = model.own.text_pair_column
    head = dataclasses.asdict(model.qa)
    head |= {n: getattr(settings.qa, n) for n in trial_lib.DECODING}
    hidden = {"hidden_layer": model.task.hidden_layer}
    return schema.replace_fields(settings, task=hidden, own=own, qa=head)


def _find_conventions(task: portable.PortableTask) -> dict[str, Any] | None:
    conventions = base.find_kind(task.kind).restore_conventions(task.options)
    return dataclasses.asdict(conventions) if conventions else None


def with_known_labels(model: portable.PortableModel) -> portable.PortableModel:
    """Adds the catalog's labels to a model that lacks labels."""
    task = model.task
    return dataclasses.replace(model, task=task and _with_labels(task))


def _with_labels(task: portable.PortableTask) -> portable.PortableTask:
    standard = None if task.labels else _find_standard(task)
    labels = standard.labels if standard else task.labels
    return dataclasses.replace(task, labels=labels)


def _find_standard(
    task: portable.PortableTask,
) -> portable.PortableTask | None:
    """Returns the catalog's task, or None if kind, options or labels differ."""
    if task.name not in catalog.TASK_NAMES:
        return None
    entry = catalog.build_task(task.name, finetuning_config.FinetuningConfig())
    try:
        labels = tuple(entry.labels)
    except (OSError, ValueError):
        labels = ()  # Only its files have the labels.
    conventions = _find_conventions(task)
    standard = portable.describe_task(entry, labels, conventions)
    if (standard.kind, standard.options) != (task.kind, task.options):
        return None
    if task.labels and labels and set(labels) != set(task.labels):
        return None
    return standard


def reads_pairs(task: portable.PortableTask) -> bool:
    """Returns whether a model reads pairs of texts, by itself or by GLUE."""
    takes_pairs = base.find_kind(task.kind).takes_pairs
    spec = glue.TASKS.get(task.name) if takes_pairs else None
    return task.has_pairs or (spec is not None and spec.has_pairs)


def _settings(
    task: portable.PortableTask, head: portable.Tensors
) -> finetuning_config.FinetuningConfig:
    layers = {path.split("/")[2] for path in head}
    kind = base.find_kind(task.kind)
    sections = kind.restore_settings(task.options, layers)
    has_hidden_layer = task.has_hidden_layer
    sections["task"] = {"names": task.name, "hidden_layer": has_hidden_layer}
    own = sections.pop("own", {})
    if task.name == base.OWN:
        sections["own"] = own | {"kind": task.kind}
        # `own.labels` cannot hold a label with a comma. The description of the
        # trial has the labels, too.
        if not any("," in label for label in task.labels):
            sections["own"]["labels"] = ",".join(task.labels)
        if task.has_pairs:
            sections["own"]["text_pair_column"] = "text_pair"
    return schema.build(finetuning_config.FinetuningConfig, sections)
