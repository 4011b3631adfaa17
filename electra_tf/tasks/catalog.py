"""All tasks, by name."""

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.formats import parameter_names
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.question_answering import records
from electra_tf.tasks.question_answering import task as qa
from electra_tf.tasks.sentences import comparisons
from electra_tf.tasks.sentences import glue
from electra_tf.tasks.sentences import own
from electra_tf.tasks.sentences import task as sentence_task
from electra_tf.tasks.tagging import task as tagging

ALIASES = parameter_names.TASK_ALIASES
"""The original's names of tasks to ours."""

Settings = finetuning_config.FinetuningConfig

_OWN_KINDS = {"tagging": tagging.build_own_task, "qa": qa.build_own_task}
TASK_NAMES = (*glue.NAMES, *records.SOURCES, tagging.CHUNKING, own.NAME)
"""What `task.names` may list."""


def build_task(name: str, settings: Settings) -> task_lib.Task:
    """Builds the task of one of `TASK_NAMES` or `ALIASES`."""
    known = ALIASES.get(name, name)
    if known in glue.NAMES:
        return glue.build_task(known, settings)
    if known in records.SOURCES:
        return qa.build_task(known, settings)
    if known == tagging.CHUNKING:
        return tagging.build_chunking(settings)
    if known == own.NAME:
        build = _OWN_KINDS.get(settings.own.kind, own.build_task)
        task: task_lib.Task = build(settings)
        # It is scored if it has labels.
        task.test_splits = tuple(s for s in task.splits if s == "test")
        return task
    raise ValueError(
        "`task.names` must list tasks between commas, or be glue alone. "
        f"Received: {name!r}. {schema.suggest(name, TASK_NAMES)}"
    )


def build_tasks(settings: Settings) -> list[task_lib.Task]:
    """Builds all tasks that a config names; `mnli` and `ax` are the same."""
    tasks = [build_task(name, settings) for name in settings.task_names]
    names = [task.name for task in tasks]
    if not tasks or len(set(names)) < len(names):
        raise ValueError(
            "`task.names` must list one or more different tasks out of "
            f"{', '.join(TASK_NAMES)}. Received: {settings.task.names!r}"
            f"{f', which are {names}' if names else ''}. Set "
            "--config.task.names."
        )
    compared = [isinstance(x, comparisons.ComparisonTask) for x in tasks]
    schema.require(
        len(tasks) == 1 or not any(compared),
        "Multiple choice and ranking are learned alone. Received: "
        f"task.names={settings.task.names!r}. Train two models.",
    )
    for task in tasks if settings.task.hidden_layer else ():
        if not isinstance(task, sentence_task.TextTask):
            raise ValueError(
                "`task.hidden_layer` is not for tagging and questions. "
                f"Received: it with the task {task.name!r}. Leave it out."
            )
        task.has_hidden_layer = True
    return tasks
