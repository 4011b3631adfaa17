"""The settings of one pre-training run: typed, validated, frozen.

A file of `configs/` returns an `ExperimentConfig` as a `ConfigDict`;
`--config.section.field=value` overrides single fields; `freeze` turns the
result into frozen dataclasses, which refuse what cannot work before any
graph exists. Names that users of the original know are kept.
"""

import dataclasses
import importlib.util
import json
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

import ml_collections

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.config.schema import require as require
from electra_tf.config.schema import require_choice as require_choice
from electra_tf.config.sections import PRECISIONS as PRECISIONS
from electra_tf.config.sections import DataConfig as DataConfig
from electra_tf.config.sections import EncoderConfig as EncoderConfig
from electra_tf.config.sections import GeneratorConfig as GeneratorConfig
from electra_tf.config.sections import MaskingConfig as MaskingConfig
from electra_tf.config.sections import ObjectiveConfig as ObjectiveConfig
from electra_tf.config.sections import OptimizerConfig as OptimizerConfig
from electra_tf.config.sections import TrainingConfig as TrainingConfig

_Config = typing.TypeVar("_Config")


@schema.frozen
class ExperimentConfig:
    """All sections of a pre-training run."""

    encoder: EncoderConfig = EncoderConfig()
    generator: GeneratorConfig = GeneratorConfig()
    masking: MaskingConfig = MaskingConfig()
    objective: ObjectiveConfig = ObjectiveConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()

    def __post_init__(self) -> None:
        length = self.data.max_seq_length
        rows = self.encoder.max_position_embeddings
        require(
            length <= rows,
            "`data.max_seq_length` must not exceed "
            "`encoder.max_position_embeddings`. Received: "
            f"max_seq_length={length}, max_position_embeddings={rows}. "
            "Raise the latter.",
        )
        batch, streams = self.training.train_batch_size, self.data.num_streams
        require(
            batch % streams == 0,
            "`training.train_batch_size` must be a multiple of "
            f"`data.num_streams`. Received: train_batch_size={batch}, "
            f"num_streams={streams}. Use --config.data.num_streams="
            f"{max(n for n in range(1, streams + 1) if batch % n == 0)}.",
        )
        self._check_generator()
        self.check_devices(1)

    def _check_generator(self) -> None:
        if not self.generator.has_encoder:
            return
        try:
            self.generator.encoder_config(self.encoder)
        except errors.ConfigError as error:
            raise errors.ConfigError(
                "`generator.generator_hidden_size` must give a width that the "
                "generator's heads, 64 wide unless set, divide. Received: "
                f"generator_hidden_size={self.generator.generator_hidden_size} "
                f"of {self.encoder.hidden_size}: {error}"
            ) from error

    def check_devices(self, num_replicas: int) -> None:
        """Raises `ConfigError` if devices cannot share the streams evenly."""
        parts = num_replicas * self.training.num_micro_batches
        streams = self.data.num_streams
        require(
            streams % parts == 0,
            "`data.num_streams` must be a multiple of replicas x "
            "micro-batches, because a stream is never split. Received: "
            f"num_streams={streams}, replicas={num_replicas}, "
            f"num_micro_batches={self.training.num_micro_batches}. Use "
            f"--config.data.num_streams={-(-streams // parts) * parts} and a "
            "train_batch_size that it divides, or other numbers of replicas "
            "or micro-batches.",
        )


def to_config_dict(config: Any) -> ml_collections.ConfigDict:
    """The settings as a `ConfigDict`, what a config file returns."""
    return ml_collections.ConfigDict(dataclasses.asdict(config))


def freeze(settings: Mapping[str, Any]) -> ExperimentConfig:
    """Builds the settings of a pre-training run, as `freeze_as` does."""
    return freeze_as(settings, ExperimentConfig)


def freeze_as(
    settings: Mapping[str, Any], kind: type[_Config], name: str = ""
) -> _Config:
    """Turns a `ConfigDict` or nested mapping into a config of a kind.

    `name` is what the settings are of, for messages. `ConfigError` for an
    unknown section or field (names the closest one), or values that cannot
    work.
    """
    return schema.build(kind, settings, name)


def load_file(path: pathlib.Path, argument: str = "") -> ExperimentConfig:
    """Runs a file of `configs/pretrain` and freezes what it returns.

    `argument` goes to `get_config`, as in `--config=FILE:ARGUMENT`.
    """
    return freeze(run_file(path, argument))


def run_file(path: pathlib.Path, argument: str = "") -> Mapping[str, Any]:
    """Calls the `get_config` of a file of `configs/`; see `load_file`."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise errors.ConfigError(f"{path} is not a Python file of configs/.")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.get_config(*([argument] if argument else []))


def to_json(config: ExperimentConfig) -> str:
    """The settings as indented JSON, what `model_dir/config.json` holds."""
    return schema.to_json(config)


def from_json(text: str) -> ExperimentConfig:
    """Reads what `to_json` wrote; raises as `freeze` does."""
    return freeze(json.loads(text))


def load_json(path: pathlib.Path) -> ExperimentConfig:
    """Reads what `to_json` wrote; `ConfigError` names a damaged file."""
    return schema.read(ExperimentConfig, path)
