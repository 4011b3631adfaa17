"""The settings of one pre-training run: typed, validated, frozen.

A file of `configs/` returns an `ExperimentConfig` as a `ConfigDict`;
`--config.section.field=value` overrides single fields; `freeze` turns the
result into the dataclasses below, which refuse what cannot work before any
graph exists. Names that users of the original know are kept.
"""

import dataclasses
import difflib
import importlib.util
import json
import pathlib
import typing
from collections.abc import Mapping
from typing import Any

import ml_collections

STRATEGIES = ("one_device", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("float32", "bfloat16", "float16")
OPTIMIZERS = ("adam", "lamb")


class ConfigError(ValueError):
    """A setting that cannot work: says expected, received and remedy."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ConfigError(message)


def _require_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    _require(
        value in choices,
        f"`{field}` must be one of {', '.join(choices)}. Received: {value!r}.",
    )


def _require_range(
    field: str, value: float, low: float, high: float = float("inf")
) -> None:
    _require(
        low <= value <= high,
        f"`{field}` must be {low} to {high}. Received: {value}.",
    )


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """Sizes of the discriminator's encoder (paper, Table 6)."""

    vocab_size: int = 30522  # entries; 0 takes the dataset's vocabulary
    embedding_size: int = 128  # width of the embedding tables
    hidden_size: int = 256  # width of every layer
    num_hidden_layers: int = 12
    num_attention_heads: int = 4
    intermediate_size: int = 1024  # width of the feed-forward layer
    max_position_embeddings: int = 512  # rows of the position table
    type_vocab_size: int = 2  # segments
    hidden_dropout_prob: float = 0.1  # 0-1, fraction dropped
    attention_probs_dropout_prob: float = 0.1  # 0-1, fraction dropped
    initializer_range: float = 0.02  # standard deviation, truncated normal

    def __post_init__(self) -> None:
        for name in ("embedding_size", "hidden_size", "num_hidden_layers",
                     "num_attention_heads", "intermediate_size",
                     "max_position_embeddings", "type_vocab_size"):  # fmt: skip
            _require_range(f"encoder.{name}", getattr(self, name), 1)
        _require_range("encoder.vocab_size", self.vocab_size, 0)
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            _require_range(f"encoder.{name}", getattr(self, name), 0, 0.99)
        heads, width = self.num_attention_heads, self.hidden_size
        _require(
            width % heads == 0,
            "`encoder.hidden_size` must be divisible by "
            f"`encoder.num_attention_heads`. Received: hidden_size={width}, "
            f"num_attention_heads={heads}. Use hidden_size="
            f"{width // heads * heads or heads}, or change the heads.",
        )


@dataclasses.dataclass(frozen=True)
class GeneratorConfig:
    """The generator, as fractions of the discriminator (paper, 3.2)."""

    generator_hidden_size: float = 0.25  # fraction of hidden_size
    generator_layers: float = 1.0  # fraction of num_hidden_layers
    untied_generator: bool = True  # False: one encoder serves both towers
    untied_generator_embeddings: bool = False  # True: embeddings of its own
    uniform_generator: bool = False  # samples uniformly, learns nothing

    def __post_init__(self) -> None:
        for name in ("generator_hidden_size", "generator_layers"):
            _require_range(f"generator.{name}", getattr(self, name), 1e-3)
        _require(
            self.untied_generator or not self.untied_generator_embeddings,
            "`generator.untied_generator_embeddings` needs "
            "`generator.untied_generator`: one shared encoder has one set of "
            "embeddings. Received: untied_generator=False, "
            "untied_generator_embeddings=True. Set one of them otherwise.",
        )
        _require(
            not self.uniform_generator or self.weight_tying == "embeddings",
            "A uniform generator has no weights to tie or untie. Leave "
            "`untied_generator` and `untied_generator_embeddings` alone.",
        )

    @property
    def weight_tying(self) -> str:
        """What both towers share: `none`, `embeddings` or `all`."""
        if not self.untied_generator:
            return "all"
        return "none" if self.untied_generator_embeddings else "embeddings"

    def encoder_config(self, discriminator: EncoderConfig) -> EncoderConfig:
        """The generator's encoder sizes, derived as the original does.

        Heads are 64 wide with at least one, the feed-forward layer is four
        times the width. Untied embeddings have the generator's own width.
        """
        if self.weight_tying == "all":
            return discriminator
        width = int(
            round(discriminator.hidden_size * self.generator_hidden_size)
        )
        depth = int(
            round(discriminator.num_hidden_layers * self.generator_layers)
        )
        own = self.weight_tying == "none"
        return dataclasses.replace(
            discriminator,
            hidden_size=width,
            num_hidden_layers=max(depth, 1),
            num_attention_heads=max(1, width // 64),
            intermediate_size=4 * width,
            embedding_size=width if own else discriminator.embedding_size,
        )


@dataclasses.dataclass(frozen=True)
class MaskingConfig:
    """Dynamic masking (paper, 3.1; the original's `pretrain_helpers.mask`)."""

    mask_prob: float = 0.15  # 0-1, fraction of tokens chosen
    replace_prob: float = 0.85  # 0-1, fraction of the chosen shown as [MASK]
    # The original draws positions with replacement, so a position can be drawn
    # twice and then receives the average of two sampled ids (rounded down).
    draw_with_replacement: bool = False

    def __post_init__(self) -> None:
        _require_range("masking.mask_prob", self.mask_prob, 0.001, 0.9)
        _require_range("masking.replace_prob", self.replace_prob, 0, 1)


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig:
    """What is learned: `name` is a key of `pretraining.model.OBJECTIVES`."""

    name: str = "electra"  # joint replaced-token detection (paper, section 2)
    gen_weight: float = 1.0  # weight of the generator's masked-LM loss
    disc_weight: float = 50.0  # weight of the discriminator's loss, lambda
    temperature: float = 1.0  # of the generator's softmax when sampling
    disallow_correct: bool = False  # never sample the original token
    # The original divides by the weights of each replica alone; ours by those
    # of the global batch, so that replicas do not change the result.
    means_per_replica: bool = False

    def __post_init__(self) -> None:
        _require_range("objective.gen_weight", self.gen_weight, 0)
        _require_range("objective.disc_weight", self.disc_weight, 0)
        _require_range("objective.temperature", self.temperature, 1e-3)


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """Where the records are and in which order they are read."""

    dataset_dir: str = ""  # folder made by build_pretraining_dataset.py
    max_seq_length: int = 128  # tokens per row, S; checked with the manifest
    # Canonical streams, C: units of order, randomness, replicas and
    # micro-batches. A run keeps C when the number of devices changes.
    num_streams: int = 16
    shuffle_block: int = 4096  # examples that a stream shuffles together

    def __post_init__(self) -> None:
        _require_range("data.max_seq_length", self.max_seq_length, 8)
        _require_range("data.num_streams", self.num_streams, 1, 2**16)
        _require_range("data.shuffle_block", self.shuffle_block, 1)


@dataclasses.dataclass(frozen=True)
class OptimizerConfig:
    """Optimizer and schedule (the original's `optimization.py`)."""

    name: str = "adam"  # `adam`: without bias correction; or `lamb`
    learning_rate: float = 5e-4  # peak
    num_warmup_steps: int = 10_000
    lr_decay_power: float = 1.0
    weight_decay_rate: float = 0.01
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float = 1.0  # global norm of the reduced gradient

    def __post_init__(self) -> None:
        _require_choice("optimizer.name", self.name, OPTIMIZERS)
        for name in ("learning_rate", "num_warmup_steps", "weight_decay_rate"):
            _require_range(f"optimizer.{name}", getattr(self, name), 0)
        for name in ("lr_decay_power", "epsilon", "clip_norm"):
            _require_range(f"optimizer.{name}", getattr(self, name), 1e-12)
        for name in ("beta_1", "beta_2"):
            _require_range(f"optimizer.{name}", getattr(self, name), 0, 0.99999)


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """How long, on what, how precisely, and what is kept."""

    num_train_steps: int = 1_000_000
    train_batch_size: int = 128  # rows over all replicas and micro-batches, B
    num_micro_batches: int = 1  # parts whose gradients are accumulated
    strategy: str = "one_device"  # one_device, mirrored, multi_worker or tpu
    tpu: str = ""  # name or address for the `tpu` strategy; empty: local
    precision: str = "float32"  # of products; weights and losses stay float32
    jit_compile: str = "auto"  # XLA: `auto` (off on CPU), `on` or `off`
    deterministic: bool = True  # deterministic kernels: equal seeds, equal bits
    seed: int = 1  # of weights, order, masks, samples and dropout
    ema_decay: float = 0.0  # 0 off; else decay per step of averaged weights
    steps_per_loop: int = 50  # steps per call of the compiled loop
    log_steps: int = 100
    eval_steps: int = 5_000  # 0 never
    num_eval_batches: int = 0  # 0 the whole validation split
    save_checkpoints_steps: int = 1_000
    keep_checkpoints: int = 3  # newest ones kept, beside the best
    init_from: str = (
        ""  # model_dir of another run: its weights, fresh optimizer
    )
    peak_flops: float = 0.0  # per device and second; 0: table or measurement

    def __post_init__(self) -> None:
        for name in ("num_train_steps", "train_batch_size", "num_micro_batches",
                     "steps_per_loop", "log_steps", "save_checkpoints_steps",
                     "keep_checkpoints"):  # fmt: skip
            _require_range(f"training.{name}", getattr(self, name), 1)
        for name in ("eval_steps", "num_eval_batches", "peak_flops", "seed"):
            _require_range(f"training.{name}", getattr(self, name), 0)
        _require_range("training.ema_decay", self.ema_decay, 0, 0.999999)
        _require_choice("training.strategy", self.strategy, STRATEGIES)
        _require_choice("training.precision", self.precision, PRECISIONS)
        _require_choice(
            "training.jit_compile", self.jit_compile, ("auto", "on", "off")
        )


@dataclasses.dataclass(frozen=True)
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
        _require(
            length <= rows,
            "`data.max_seq_length` must not exceed "
            "`encoder.max_position_embeddings`. Received: "
            f"max_seq_length={length}, max_position_embeddings={rows}. "
            "Raise the latter.",
        )
        batch, streams = self.training.train_batch_size, self.data.num_streams
        _require(
            batch % streams == 0,
            "`training.train_batch_size` must be a multiple of "
            f"`data.num_streams`. Received: train_batch_size={batch}, "
            f"num_streams={streams}. Use --config.data.num_streams="
            f"{max(n for n in range(1, streams + 1) if batch % n == 0)}.",
        )
        self.check_devices(1)

    def check_devices(self, num_replicas: int) -> None:
        """Checks that replicas and micro-batches can share the streams.

        Args:
            num_replicas: devices that train together.

        Raises:
            ConfigError: if `num_streams` is not a multiple of
                `num_replicas * num_micro_batches`.
        """
        parts = num_replicas * self.training.num_micro_batches
        streams = self.data.num_streams
        _require(
            streams % parts == 0,
            "`data.num_streams` must be a multiple of replicas x "
            "micro-batches, because a stream is never split. Received: "
            f"num_streams={streams}, replicas={num_replicas}, "
            f"num_micro_batches={self.training.num_micro_batches}. Use "
            f"--config.data.num_streams={-(-streams // parts) * parts} and a "
            "train_batch_size that it divides, or other numbers of replicas "
            "or micro-batches.",
        )


def to_config_dict(config: ExperimentConfig) -> ml_collections.ConfigDict:
    """The settings as a `ConfigDict`, what a config file returns."""
    return ml_collections.ConfigDict(dataclasses.asdict(config))


def freeze(settings: Mapping[str, Any]) -> ExperimentConfig:
    """Turns a `ConfigDict` or nested mapping into a validated config.

    Args:
        settings: section to field to value; absent fields keep defaults.

    Raises:
        ConfigError: for an unknown section or field (names the closest one),
            a value of another type, or values that cannot work.
    """
    sections = {
        field.name: field.type for field in dataclasses.fields(ExperimentConfig)
    }
    _refuse_unknown("section", settings, sections)
    built = {
        name: _build_section(name, typing.cast(type, sections[name]), values)
        for name, values in settings.items()
    }
    return ExperimentConfig(**built)


def _refuse_unknown(
    kind: str, given: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    for key in given:
        if key not in known:
            close = difflib.get_close_matches(str(key), list(known), 1, 0)
            raise ConfigError(
                f"Unknown {kind} {key!r}. Did you mean {close[0]!r}? "
                f"Known: {', '.join(known)}."
            )


def _build_section(name: str, schema: type, values: Mapping[str, Any]) -> Any:
    if not isinstance(values, Mapping | ml_collections.ConfigDict):
        raise ConfigError(
            f"`{name}` must be a section of fields. Received: {values!r}."
        )
    types = {field.name: field.type for field in dataclasses.fields(schema)}
    _refuse_unknown(f"field in section {name!r}", values, types)
    return schema(
        **{
            key: _coerce(f"{name}.{key}", value, typing.cast(type, types[key]))
            for key, value in values.items()
        }
    )


def _coerce(field: str, value: Any, expected: type) -> Any:
    if expected is float and isinstance(value, int) and value is not True:
        value = float(value)
    if type(value) is not expected:
        raise ConfigError(
            f"`{field}` must be of type {expected.__name__}. Received: "
            f"{value!r} of type {type(value).__name__}."
        )
    return value


def load_file(path: pathlib.Path, argument: str = "") -> ExperimentConfig:
    """Runs a file of `configs/` and freezes what its `get_config` returns.

    Args:
        path: the file.
        argument: passed to `get_config` unless empty, as
            `--config=FILE:ARGUMENT` does.
    """
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise ConfigError(f"{path} is not a Python file of configs/.")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return freeze(module.get_config(*([argument] if argument else [])))


def to_json(config: ExperimentConfig) -> str:
    """The settings as indented JSON, what `model_dir/config.json` holds."""
    return json.dumps(dataclasses.asdict(config), indent=2) + "\n"


def from_json(text: str) -> ExperimentConfig:
    """Reads what `to_json` wrote; raises as `freeze` does."""
    return freeze(json.loads(text))
