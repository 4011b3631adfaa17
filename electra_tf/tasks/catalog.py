"""All tasks, by name."""

from collections.abc import Sequence

from electra_tf.config import finetuning as finetuning_config
from electra_tf.formats import parameter_names
from electra_tf.tasks import own
from electra_tf.tasks import tables
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import glue_source
from electra_tf.tasks.sentences import text_task

ALIASES = parameter_names.TASK_ALIASES
"""The original's names of tasks to ours."""

_QUESTION_ANSWERING = (
    "squad1",
    "squad2",
    "newsqa",
    "naturalqs",
    "triviaqa",
    "searchqa",
)
_TAGGING = ("chunking",)
TASK_NAMES = (*glue_source.NAMES, *_QUESTION_ANSWERING, *_TAGGING, own.NAME)
"""What `task.names` may list."""


def build_task(
    name: str, settings: finetuning_config.FinetuningConfig
) -> task_lib.Task:
    """The task of a name; nothing is read yet but labels of one's own task.

    Args:
        name: one of `TASK_NAMES` or `ALIASES`.
        settings: of the fine-tuning.

    Raises:
        ValueError: for a name that there is not.
    """
    known = ALIASES.get(name, name)
    # Imported here, so that a task needs nothing that others need.
    if known in glue_source.NAMES:
        return glue_source.build_task(known, settings)
    if known in _QUESTION_ANSWERING:
        from electra_tf.tasks.question_answering import task as qa

        return qa.build_task(known, settings)
    if known in _TAGGING:
        from electra_tf.tasks.tagging import task as tagging

        return tagging.build_task(known, settings)
    if known == own.NAME:
        return own.build_task(settings)
    raise ValueError(
        f"`task.names` must list some of {', '.join(TASK_NAMES)}, or be glue "
        f"alone. Received: {name!r}."
        f"{tables.nearest(name, (*TASK_NAMES, *ALIASES))}"
    )


def build_tasks(
    settings: finetuning_config.FinetuningConfig,
) -> list[task_lib.Task]:
    """All tasks that a config names, in its order.

    Args:
        settings: of the fine-tuning.

    Raises:
        ValueError: for a name that there is not, none at all, or two that are
            the same task (`mnli` and `ax` share one head).
    """
    tasks = [build_task(name, settings) for name in settings.task_names]
    names = [task.name for task in tasks]
    if not tasks or len(set(names)) < len(names):
        raise ValueError(
            "`task.names` must list one or more different tasks out of "
            f"{', '.join(TASK_NAMES)}. Received: {settings.task.names!r}"
            f"{f', which are {names}' if names else ''}. Set "
            "--config.task.names."
        )
    if settings.task.hidden_layer:
        _add_hidden_layers(tasks)
    return tasks


def _add_hidden_layers(tasks: Sequence[task_lib.Task]) -> None:
    for task in tasks:
        if not isinstance(task, text_task.TextTask):
            raise ValueError(
                "`task.hidden_layer` is for classification and regression. "
                f"Received: it with the task {task.name!r}. Leave it out."
            )
        task.has_hidden_layer = True
