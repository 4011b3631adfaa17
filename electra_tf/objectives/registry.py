"""Finds objectives by name and completes the section `objective` of a config.

An objective is a file of this folder or a module of the user's. It is imported
when it is asked for, since that imports TensorFlow.
"""

import dataclasses
import importlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.text import vocabulary as vocabulary_lib

if TYPE_CHECKING:
    from electra_tf.objectives import base

NAMES: Mapping[str, str] = {
    "adversarial": "Adversarial",
    "all_tokens_mlm": "AllTokensMLM",
    "electra": "Electra",
    "electra_15": "Electra15",
    "electric": "Electric",
    "fast_electra": "FastElectra",
    "mlm": "MaskedLM",
    "replace_mlm": "ReplaceMLM",
    "sentence_order": "SentenceOrder",
    "two_stage": "TwoStage",
}
"""Objectives by name: the name is also the module; the value is its class."""

DETECTION, ENERGY, MASKED_LM = "electra", "electric", "mlm"
"""The original's objectives. Models of other formats, whose files tell only
that there is a discriminator or a masked LM, are read as one of them."""


def find_class(name: str) -> "type[base.PretrainingModel]":
    """Returns the class of an objective.

    Raises:
        ConfigError: if there is no such objective and no such module.
    """
    if name not in NAMES:
        return _import_objective(name)
    module = importlib.import_module(f"{__package__}.{name}")
    named: type[base.PretrainingModel] = getattr(module, NAMES[name])
    return named


def find_name(objective: "type[base.PretrainingModel]") -> str:
    """Returns the name of an objective in configs."""
    return objective.__module__.removeprefix(f"{__package__}.")


def find(settings: config.ExperimentConfig) -> "type[base.PretrainingModel]":
    """Returns the class of the objective of checked settings.

    Raises:
        ConfigError: if the objective is unknown, or refuses the settings.
    """
    return find_class(complete(settings).objective["name"])


def complete(settings: config.ExperimentConfig) -> config.ExperimentConfig:
    """Adds the objective's missing fields to the settings and checks them.

    Fields that only other objectives read must have their defaults, and are
    left out of the result.

    Raises:
        ConfigError: for an unknown objective, an unknown field, a field that
            has no effect, or values that do not fit each other.
    """
    name = settings.objective["name"]
    objective = find_class(name)
    names = {field.name for field in dataclasses.fields(objective.Settings)}
    fields = {k: v for k, v in settings.objective.items() if k in names}
    for field in settings.objective.keys() - names:
        _require_default(objective, name, field, settings.objective[field])
    parsed: Any = schema.build(objective.Settings, fields, section="objective")
    completed = dataclasses.replace(
        settings, objective=dataclasses.asdict(parsed)
    )
    objective.check_settings(completed)
    completed.check_warm_up(objective.stages(completed))
    return completed


def build_model(
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    token_counts: Any = None,
    is_packed: bool = False,
) -> "base.PretrainingModel":
    """Builds a config's model; `PretrainingModel` explains the arguments."""
    settings = complete(settings)
    objective = find_class(settings.objective["name"])
    return objective(settings, vocabulary, token_counts, is_packed)


def _require_default(
    objective: "type[base.PretrainingModel]", name: str, field: str, value: Any
) -> None:
    readers = {
        reader: declared.default
        for reader in NAMES
        for declared in dataclasses.fields(find_class(reader).Settings)
        if declared.name == field
    }
    if not readers:
        names = [each.name for each in dataclasses.fields(objective.Settings)]
        raise errors.ConfigError(
            f"Unknown field 'objective.{field}' of the objective {name!r}. "
            f"{schema.suggest(field, names)}"
        )
    config.require(
        value in readers.values(),
        f"`objective.{field}` has no effect on {name!r}. Received: {value!r}. "
        f"Leave it out, or set `objective.name` to: {', '.join(readers)}.",
    )


def _import_objective(name: str) -> "type[base.PretrainingModel]":
    from electra_tf.objectives import base

    unknown = errors.ConfigError(
        f"`objective.name` must be one of {', '.join(NAMES)}, or a module "
        f"of your own in a package that can be imported. Received: {name!r}."
    )
    if not re.fullmatch(r"\w+(\.\w+)*", name):
        raise unknown
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise unknown from error
    defined = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, base.PretrainingModel)
        and value.__module__ == name
    ]
    config.require(
        len(defined) == 1,
        f"The module {name} must define one subclass of `PretrainingModel`. "
        f"Received: {len(defined)}. CONTRIBUTING.md shows an example.",
    )
    return defined[0]
