"""Finds the class of a kind of task by its name."""

import importlib

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.tasks import base

# Exports of this kind have another name.
_EXPORTED = {"question_answering": "qa"}


def find_kind(name: str) -> type[base.Task]:
    """Imports the class that defines a kind of task.

    Args:
        name: a key of `finetuning_config.TASK_KINDS`, or a module of the
            user's own that defines one subclass of `Task`.

    Raises:
        ConfigError: if there is no such class.
    """
    name = _EXPORTED.get(name, name)
    if name in finetuning_config.TASK_KINDS:
        path = f"electra_tf.tasks.{finetuning_config.TASK_KINDS[name]}"
        module_name, _, class_name = path.rpartition(".")
        module = importlib.import_module(module_name)
        known: type[base.Task] = getattr(module, class_name)
        return known
    finetuning_config.require_kind(name)
    own = [
        value
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, type)
        and issubclass(value, base.Task)
        and value.__module__ == name
    ]
    schema.require(
        len(own) == 1 and own[0].kind == name,
        f"The module {name} must define one subclass of `Task`, with the "
        f"attribute `kind = __name__`. Received: {len(own)} classes. "
        "CONTRIBUTING.md shows an example.",
    )
    return own[0]
