"""Fine-tuned trials as portable models, and back.

A converted model is a trial that was not trained here: config, vocabulary and
one checkpoint, so export takes it. It has scores if it comes from a trial.
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
    """One task of a trial without its weights: settings and scores."""

    task: portable.PortableTask
    description: trial_lib.TrialDescription  # of this task alone
    result: trial_lib.TrialResult | None  # likewise; None if it has no scores


def read_trial(
    folder: pathlib.Path, name: str = "", is_whole: bool = True
) -> portable.PortableModel:
    """Reads one task of a trial, and if whole the weights of its scores."""
    description = trial_lib.read_description(folder)
    vocabulary = vocabulary_lib.Vocabulary.load(folder)
    networks.resolve_vocab_size(description.encoder, vocabulary.size, folder)
    try:
        tasks = task_data.PreparedTasks(
            description.settings,
            vocabulary,
            description.encoder.max_position_embeddings,
            description.labels,
            description.conventions,
        ).tasks
    except (ValueError, LookupError) as error:
        raise errors.ModelError(
            f"{folder / trial_lib.CONFIG_FILE} must describe tasks and "
            f"their labels. Received: {error} Restore the file."
        ) from error
    task = tasks[results.choose_task(folder, list(tasks), name)]
    settings = description.settings
    checkpoint = trial_lib.final_checkpoint(folder, settings)
    others = [other for other in tasks if other != task.name]
    left_out = tuple(f"{portable.TASK_HEADS}/{other}/" for other in others)
    tensors = checkpoints.load_tensors(checkpoint, "model") if is_whole else {}
    labels = description.labels.get(task.name, ())
    conventions = (description.conventions or {}).get(task.name)
    portable_task = portable.describe_task(task, labels, conventions)
    # Settings of an own task are refused where there is none.
    none = finetuning_config.OwnTaskConfig()
    settings = dataclasses.replace(
        settings,
        task=dataclasses.replace(settings.task, names=task.name),
        own=settings.own if task.name == base.OWN else none,
    )
    description = dataclasses.replace(
        description, settings=settings, labels={task.name: labels}
    )
    result = trial_lib.read_result(folder)
    if result is not None:
        scores = {n: v for n, v in result.scores.items() if n == task.name}
        result = dataclasses.replace(result, scores=scores)
    model = portable.PortableModel(
        {p: v for p, v in tensors.items() if not p.startswith(left_out)},
        description.encoder,
        vocabulary=vocabulary,
        task=portable_task,
        step=checkpoints.step_of(checkpoint),
        origin=f"trial {checkpoint}",
        notes=tuple(f"left out the head of {other}" for other in others),
        history=History(portable_task, description, result),
    )
    if is_whole:
        portable.check(model)
    return model


def write_trial(
    model: portable.PortableModel, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes a fine-tuned model as a trial into an empty folder.

    A model of a task that has no name here becomes one of a user's own.
    Returns the model as it was written.
    """
    vocabulary = model.require_vocabulary()
    task = cast(portable.PortableTask, model.task)  # It is fine-tuned.
    old_head = task.head
    if task.name != base.OWN and _find_standard(task) is None:
        # It reads pairs if it did.
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
    known = _find_conventions(task)
    conventions = {task.name: known} if known else None
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
    if result and task.name in result.scores:  # It may have another name now.
        trial_lib.write_result(folder, result)
    return model


def place(path: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes a fine-tuned model of any format as a trial that can be scored.

    A pre-trained one is none, and leaves nothing.
    """
    found = installed.find_model(path)
    trial = results.find_trial(found)
    model = read_trial(trial) if trial else reading.read_model(found)
    if model.task is None:
        return
    with atomic.creating_folder(folder) as partial:
        write_trial(model, partial)
        if trial_lib.read_result(partial) is None:
            unknown = trial_lib.TrialResult(
                seed=1,
                scores={},
                metrics={},
                num_steps=model.step,
                origin=model.origin,
                seconds=0.0,
                device="",
                versions={},
            )
            trial_lib.write_result(partial, unknown)


def adopt_files(
    folder: pathlib.Path, settings: finetuning_config.FinetuningConfig
) -> finetuning_config.FinetuningConfig:
    """Returns settings to score a trial with, by those of a model in it.

    A model that was trained elsewhere says of which task it is; everything
    about files is as `settings` have it. Those of other trials are unchanged.
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
    known = base.find_kind(task.kind).restore_conventions(task.options)
    return dataclasses.asdict(known) if known else None


def with_known_labels(model: portable.PortableModel) -> portable.PortableModel:
    """Fills in the task's standard labels when the files have none."""
    task = model.task
    return dataclasses.replace(model, task=task and _with_labels(task))


def _with_labels(task: portable.PortableTask) -> portable.PortableTask:
    standard = None if task.labels else _find_standard(task)
    labels = standard.labels if standard else task.labels
    return dataclasses.replace(task, labels=labels)


def _find_standard(
    task: portable.PortableTask,
) -> portable.PortableTask | None:
    """The catalog's task of this name, kind and range, with these labels."""
    if task.name not in catalog.TASK_NAMES:
        return None
    known = catalog.build_task(task.name, finetuning_config.FinetuningConfig())
    try:
        labels = tuple(known.labels)
    except (OSError, ValueError):
        labels = ()  # Only its files tell.
    standard = portable.describe_task(known, labels, _find_conventions(task))
    if (standard.kind, standard.options) != (task.kind, task.options):
        return None
    if task.labels and labels and set(labels) != set(task.labels):
        return None
    return standard


def reads_pairs(task: portable.PortableTask) -> bool:
    """Whether a model of a task reads pairs of texts, told or known."""
    is_known = base.find_kind(task.kind).takes_pairs
    spec = glue.TASKS.get(task.name) if is_known else None
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
        # A label with a comma cannot stand there; the trial lists all apart.
        if not any("," in label for label in task.labels):
            sections["own"]["labels"] = ",".join(task.labels)
        if task.has_pairs:
            sections["own"]["text_pair_column"] = "text_pair"
    return schema.build(finetuning_config.FinetuningConfig, sections)
