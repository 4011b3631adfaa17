"""Builds every task from its name."""

import types
from collections.abc import Mapping, Sequence

from electra_tf.config import schema
from electra_tf.tasks import base
from electra_tf.tasks.question_answering import answering_task
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.sentences import glue
from electra_tf.tasks.tagging import tagging_task

ALIASES: Mapping[str, str] = {
    "sst": "sst2",
    "sts": "stsb",
    "squad": "squad2",
    "squadv1": "squad1",
    "chunk": "chunking",
}
"""Maps the original's name of a task, also in variable names, to ours."""

TASK_NAMES = (*glue.NAMES, *records.SOURCES, tagging_task.CHUNKING, base.OWN)
"""The names that `task.names` may list."""


def build_task(
    name: str,
    settings: base.Settings,
    labels: Mapping[str, Sequence[str]] = types.MappingProxyType({}),
) -> base.Task:
    """Builds the task of one of `TASK_NAMES` or `ALIASES`.

    `labels` maps tasks to labels of a trained model, which replace the files'.
    """
    task_name = ALIASES.get(name, name)
    if task_name == base.OWN:
        kind = base.find_kind(settings.own.kind)
        task = kind.build_own(settings, labels.get(task_name, ()))
        task.test_splits = tuple(s for s in task.splits if s == "test")
    elif task_name in glue.NAMES:
        task = glue.build_task(task_name, settings)
    elif task_name in records.SOURCES:
        task = answering_task.build_task(task_name, settings)
    elif task_name == tagging_task.CHUNKING:
        task = tagging_task.build_chunking(settings)
    else:
        raise ValueError(
            "`task.names` must list tasks between commas, or be glue alone. "
            f"Received: {name!r}. {schema.suggest(name, TASK_NAMES)}"
        )
    if labels.get(task.name):
        task.use_labels(labels[task.name])
    return task


def build_tasks(
    settings: base.Settings,
    labels: Mapping[str, Sequence[str]] = types.MappingProxyType({}),
) -> list[base.Task]:
    """Builds all tasks that a config names; `ax` is the task `mnli`."""
    tasks = [build_task(name, settings, labels) for name in settings.task_names]
    names = [task.name for task in tasks]
    if not tasks or len(set(names)) < len(names):
        raise ValueError(
            "`task.names` must list one or more different tasks out of "
            f"{', '.join(TASK_NAMES)}. Received: {settings.task.names!r}"
            f"{f', which are {names}' if names else ''}. Set "
            "task.names."
        )
    schema.require(
        set(labels) <= set(names),
        f"Labels must be of the tasks {', '.join(names)}. Received: labels of "
        f"{', '.join(labels)}.",
    )
    schema.require(
        len(tasks) == 1 or not any(task.is_trained_alone for task in tasks),
        "Multiple choice or ranking must be the only task. Received: "
        f"task.names={settings.task.names!r}. Train two models.",
    )
    for task in tasks if settings.task.hidden_layer else ():
        if not task.takes_hidden_layer:
            raise ValueError(
                "`task.hidden_layer` is not for tagging and questions. "
                f"Received: the task {task.name!r}. Remove task.hidden_layer."
            )
        task.has_hidden_layer = True
    return tasks
