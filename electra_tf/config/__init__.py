"""The settings of one pre-training run, and how they are read and written.

A file of `configs/` returns an `ExperimentConfig` as a `ConfigDict`;
`--config.section.field=value` overrides single fields; `freeze` turns the
result into frozen dataclasses, which refuse what cannot work before any
graph exists.
"""

import dataclasses
import os
import runpy
from collections.abc import Mapping
from typing import Any

import ml_collections

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
    """The settings as a locked `ConfigDict`, what a config file returns."""
    settings = ml_collections.ConfigDict(dataclasses.asdict(config)).lock()
    for name, section in vars(config).items():
        if isinstance(section, dict):
            settings[name].unlock()  # its fields are known to its objective
    return settings


def freeze(settings: Mapping[str, Any]) -> ExperimentConfig:
    """Turns a `ConfigDict` or nested mapping into settings of pre-training.

    `ConfigError` for an unknown section or field (names the closest one), or
    values that cannot work. `schema.build` does it for any kind of settings.
    """
    frozen = schema.build(ExperimentConfig, settings)
    split_phases(frozen)
    return frozen


def run_file(
    path: str | os.PathLike[str], argument: str = ""
) -> ml_collections.ConfigDict:
    """Runs a config file, as `--config` takes it; returns its settings.

    `argument` is that of `get_config`, as in `FILE:ARGUMENT`.
    """
    name, _, own = installed.find_config(os.fspath(path)).partition(":")
    arguments = filter(None, [argument or own])
    return runpy.run_path(name)["get_config"](*arguments)


def load_file(
    path: str | os.PathLike[str], argument: str = ""
) -> ExperimentConfig:
    """Runs a config file of pre-training, see `run_file`, and freezes it."""
    return freeze(run_file(path, argument))
