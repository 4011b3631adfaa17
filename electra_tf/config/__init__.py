"""Reads and writes the settings of a pre-training run.

A file of `configs/` returns an `ExperimentConfig` as a `ConfigDict`;
`--config.section.field=value` overrides single fields; `freeze` turns the
result into frozen dataclasses, which refuse bad values before any graph exists.
"""

import dataclasses
import os
import pathlib
import runpy
from collections.abc import Mapping
from typing import Any

import ml_collections

from electra_tf import errors
from electra_tf import installed
from electra_tf.config import schema
from electra_tf.config.schema import require as require
from electra_tf.config.schema import require_choice as require_choice
from electra_tf.config.schema import to_json as to_json
from electra_tf.config.sections import PRECISIONS as PRECISIONS
from electra_tf.config.sections import DataConfig as DataConfig
from electra_tf.config.sections import EncoderConfig as EncoderConfig
from electra_tf.config.sections import ExperimentConfig as ExperimentConfig
from electra_tf.config.sections import GeneratorConfig as GeneratorConfig
from electra_tf.config.sections import MaskingConfig as MaskingConfig
from electra_tf.config.sections import OptimizerConfig as OptimizerConfig
from electra_tf.config.sections import RowPhase as RowPhase
from electra_tf.config.sections import TrainingConfig as TrainingConfig
from electra_tf.config.sections import split_phases as split_phases


def to_config_dict(config: Any) -> ml_collections.ConfigDict:
    """Returns the settings as a locked `ConfigDict`, for a config file."""
    settings = ml_collections.ConfigDict(dataclasses.asdict(config)).lock()
    for name, section in vars(config).items():
        if isinstance(section, dict):
            settings[name].unlock()  # only the objective knows the fields
    return settings


def freeze(settings: Mapping[str, Any]) -> ExperimentConfig:
    """Turns a `ConfigDict` or nested mapping into settings of pre-training.

    Raises `ConfigError` for an unknown section or field, or for bad values.
    """
    frozen = schema.build(ExperimentConfig, settings)
    split_phases(frozen)
    return frozen


def run_file(
    path: str | os.PathLike[str],
    argument: str = "",
    function: str = "get_config",
) -> Any:
    """Calls a function of a config file that `--config` or `--study` names.

    The function gets `argument`, or the text after a colon in `path`. Raises
    `ConfigError` if the file or the function does not exist.
    """
    name, _, own = installed.find_config(os.fspath(path)).partition(":")
    if not pathlib.Path(name).is_file():
        near = schema.find_near(name, installed.config_names())
        raise errors.ConfigError(
            f"There is no {function.removeprefix('get_')} {name or repr(name)}"
            f". {near}electra-new-config writes a config of your own, "
            "electra-study --list names the studies."
        )
    defined = runpy.run_path(name)
    require(function in defined, f"{name} must have a function {function}().")
    return defined[function](*filter(None, [argument or own]))


def load_file(
    path: str | os.PathLike[str], argument: str = ""
) -> ExperimentConfig:
    """Runs a config file of pre-training, see `run_file`, and freezes it."""
    return freeze(run_file(path, argument))
