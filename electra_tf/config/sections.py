"""The settings of one pre-training run: typed, validated, frozen.

Each section checks its own fields; `ExperimentConfig` checks rules that involve
two sections. Settings of the original keep their names.
"""

import dataclasses
import math
import re
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.config.schema import Count
from electra_tf.config.schema import Fraction
from electra_tf.config.schema import NonNegative
from electra_tf.config.schema import Positive
from electra_tf.config.schema import require

PRECISIONS = ("float32", "bfloat16", "float16")
_Strategy = Annotated[
    str, schema.one_of("one_device", "mirrored", "multi_worker", "tpu")
]
_Precision = Annotated[str, schema.one_of(*PRECISIONS)]
_JitCompile = Annotated[str, schema.one_of("auto", "on", "off")]
_Optimizer = Annotated[str, schema.one_of("adam", "addons_adamw", "lamb")]
# TensorFlow counts rows and columns with 32 bits.
_Size = Annotated[int, Field(ge=1, lt=2**31)]
_Momentum = Annotated[float, Field(ge=0, le=0.99999)]
_AboveZero = Annotated[float, Field(ge=1e-12, allow_inf_nan=False)]
_Dropout = Annotated[float, Field(ge=0, le=0.99)]
_Ratio = Annotated[float, Field(ge=1e-3, le=1e3)]
_MaskRate = Annotated[float, Field(ge=0.001, le=0.9)]


@schema.frozen
class EncoderConfig:
    """Sizes of the discriminator's encoder (paper, Table 6)."""

    # Number of tokens; 0: of the dataset's vocabulary.
    vocab_size: Annotated[int, Field(ge=0, lt=2**31)] = 30522
    embedding_size: _Size = 128  # width of the embedding tables
    hidden_size: _Size = 256  # width of every layer
    # At most 85: three seeds for dropout in each layer, 256 in an encoder.
    num_hidden_layers: Annotated[int, Field(ge=1, le=85)] = 12
    num_attention_heads: _Size = 4
    intermediate_size: _Size = 1024  # width of the feed-forward layer
    max_position_embeddings: _Size = 512  # rows of the position table
    type_vocab_size: _Size = 2  # segments
    hidden_dropout_prob: _Dropout = 0.1  # fraction dropped
    attention_probs_dropout_prob: _Dropout = 0.1  # fraction dropped
    # Standard deviation of the initial weights, truncated normal; 0: depends
    # on the width, see `initializer_stddev`.
    initializer_range: Fraction = 0.02

    def __post_init__(self) -> None:
        heads, width = self.num_attention_heads, self.hidden_size
        require(
            width % heads == 0,
            "`encoder.hidden_size` must be divisible by `encoder.num_attention"
            f"_heads`. Received: {width} and {heads}. Use hidden_size="
            f"{width // heads * heads or heads}, or change the heads.",
        )

    @property
    def initializer_stddev(self) -> float:
        """The standard deviation that `initializer_range` means.

        BERT's 0.02 fits a width of 768; with 0.02, narrower encoders stay on
        the unigram plateau (docs/small_models.md). A range of 0 means
        `sqrt(2 / (5 x width))`, as in LTG-BERT: 0.056 for 128, 0.023 for 768.
        """
        return self.initializer_range or math.sqrt(0.4 / self.hidden_size)


@schema.frozen
class GeneratorConfig:
    """The generator, as fractions of the discriminator (paper, 3.2)."""

    generator_hidden_size: _Ratio = 0.25  # fraction of hidden_size
    generator_layers: _Ratio = 1.0  # fraction of num_hidden_layers
    num_attention_heads: Count = 0  # 0: one for every 64 of the width
    intermediate_size: Count = 0  # 0: four times the width
    untied_generator: bool = True  # False: one encoder serves both networks
    untied_generator_embeddings: bool = False  # True: not shared
    # The discriminator's token embeddings are the generator's plus a learned
    # difference; only this gets the discriminator's gradients (DeBERTa-v3).
    disentangled_embeddings: bool = False
    uniform_generator: bool = False  # samples uniformly, learns nothing
    # Samples by the corpus' token frequencies, learns nothing (Figure 3).
    unigram_generator: bool = False
    # A trained model whose masked language model becomes the generator.
    init_from: str = ""
    # A left-to-right and a right-to-left encoder (Electric, section 3).
    two_tower_generator: bool = False

    def __post_init__(self) -> None:
        kinds = "uniform_generator", "unigram_generator", "two_tower_generator"
        others = schema.find_changed(self)
        chosen = [kind for kind in kinds if others.pop(kind, False)]
        sizes = "num_attention_heads", "intermediate_size"
        tying = "untied_generator_embeddings", "disentangled_embeddings"
        require(
            len(chosen) <= 1,
            f"At most one of {', '.join(kinds)} can be true in `generator`. "
            f"Received: {', '.join(chosen)}.",
        )
        require(
            self.has_encoder or not others,
            f"`generator.{''.join(chosen)}` has no weights, so sizes and tying "
            f"have no effect. Received: {others}. Leave these fields out.",
        )
        require(
            self.untied_generator
            or not self.two_tower_generator
            and others.keys().isdisjoint((*sizes, *tying)),
            f"{', '.join([*sizes, *tying, kinds[-1]])} need "
            "`generator.untied_generator`: one shared encoder has one size "
            f"and is bidirectional. Received: {schema.find_changed(self)}. "
            "Leave them out, or untied_generator=False.",
        )
        require(
            not self.init_from or self.is_alone,
            "`generator.init_from` needs a generator with its own embeddings. "
            f"Received: shared weights: {self.weight_tying}. Set --config."
            "generator.untied_generator_embeddings=true.",
        )
        excluded = self.two_tower_generator or self.untied_generator_embeddings
        require(
            not (self.disentangled_embeddings and excluded),
            "`generator.disentangled_embeddings` needs a masked-LM generator, "
            f"and untied_generator_embeddings=false. Received: {others}.",
        )

    @property
    def has_encoder(self) -> bool:
        """Whether the generator has an encoder, its own or a shared one."""
        return not (self.uniform_generator or self.unigram_generator)

    @property
    def weight_tying(self) -> str:
        """The shared weights: `none`, `embeddings`, `disentangled`, `all`."""
        if not self.untied_generator:
            return "all"
        if self.disentangled_embeddings:
            return "disentangled"
        return "none" if self.untied_generator_embeddings else "embeddings"

    @property
    def is_alone(self) -> bool:
        """Whether the discriminator's gradients change no generator weight."""
        return self.weight_tying in ("none", "disentangled")

    def encoder_config(self, discriminator: EncoderConfig) -> EncoderConfig:
        """Returns the generator's encoder sizes, derived as in the original.

        Untied embeddings have the generator's width. Raises `ConfigError` if
        the heads do not divide the width.
        """
        main = discriminator
        if self.weight_tying == "all":
            return main
        width = round(main.hidden_size * self.generator_hidden_size)
        depth = round(main.num_hidden_layers * self.generator_layers)
        heads = self.num_attention_heads or max(1, width // 64)
        require(
            width > 0 and width % heads == 0,
            "`generator.generator_hidden_size` must give a width that the "
            "number of heads divides (default: one for every 64). Received: "
            f"{self.generator_hidden_size}, so {heads} heads in {width}.",
        )
        is_own = self.weight_tying == "none"
        return dataclasses.replace(
            main,
            hidden_size=width,
            num_hidden_layers=max(depth, 1),
            num_attention_heads=heads,
            intermediate_size=self.intermediate_size or 4 * width,
            embedding_size=width if is_own else main.embedding_size,
        )


@schema.frozen
class MaskingConfig:
    """Dynamic masking (paper, 3.1; the original's `pretrain_helpers.mask`)."""

    mask_prob: _MaskRate = 0.15  # fraction of tokens that are chosen
    # Final rate, reached linearly after `mask_prob_steps`; 0: constant.
    # Held-out text is masked at the final rate from the beginning.
    final_mask_prob: _MaskRate = 0.15
    mask_prob_steps: Count = 0
    replace_prob: Fraction = 0.85  # share of chosen tokens shown as [MASK]
    random_prob: Fraction = 0.0  # shown as a random token (BERT: 0.8, 0.1)
    whole_word: bool = False  # all tokens of a word are chosen together
    # Tokens are chosen in proportion to (corpus frequency) ** -x.
    frequency_power: Annotated[float, Field(ge=-2, le=2)] = 0.0
    # The original draws positions with replacement, so a position can be drawn
    # twice and then receives the average of two sampled ids (rounded down).
    draw_with_replacement: bool = False

    def __post_init__(self) -> None:
        schema.require_steps(self, "masking", "mask_prob")
        replaced, random = self.replace_prob, self.random_prob
        require(
            replaced + random <= 1.0 + 1e-6,
            "`masking.replace_prob` and `masking.random_prob` must not exceed "
            f"1 together. Received: {replaced} and {random}.",
        )
        require(
            not self.draw_with_replacement or not (self.whole_word or random),
            "`masking.draw_with_replacement` averages the ids of a position "
            "drawn twice, which needs `whole_word` false and `random_prob` 0. "
            f"Received: {self.whole_word} and {random}.",
        )
        require(
            not self.frequency_power
            or not (self.whole_word or self.draw_with_replacement),
            "`masking.frequency_power` chooses single positions without "
            "replacement. Received: also whole_word or draw_with_replacement.",
        )

    @property
    def largest_mask_prob(self) -> float:
        """The largest rate of the run, which sets a row's number of slots."""
        rates = self.mask_prob, self.final_mask_prob
        return max(rates) if self.mask_prob_steps else rates[0]


@schema.frozen
class DataConfig:
    """The records, their rows and their order."""

    dataset_dir: str = ""  # folder made by build_pretraining_dataset.py
    # Tokens of a row, S; checked with the manifest.
    max_seq_length: Annotated[int, Field(ge=8)] = 128
    # Phases before the rows of `max_seq_length`: LENGTHxROWS:STEPS,...
    # (128x256:9000), with records for each {length} in `dataset_dir`.
    phases: str = ""
    # Units of order, randomness, replicas and micro-batches. A run keeps this
    # number when the number of devices changes.
    num_streams: Annotated[int, Field(ge=1, le=2**16)] = 16
    shuffle_block: Positive = 4096  # examples that a stream shuffles together


@schema.frozen
class SharedOptimizerConfig:
    """Settings of the optimizer in pre-training and fine-tuning."""

    # `adam` is the original's, without bias correction; `addons_adamw` is
    # tensorflow-addons', whose decay is not multiplied by the learning rate.
    name: _Optimizer = "adam"
    learning_rate: NonNegative = 5e-4  # peak
    lr_decay_power: _AboveZero = 1.0
    weight_decay_rate: NonNegative = 0.01
    beta_1: _Momentum = 0.9
    beta_2: _Momentum = 0.999
    epsilon: _AboveZero = 1e-6
    clip_norm: NonNegative = 1.0  # of the reduced gradient; 0 never clips


@schema.frozen
class OptimizerConfig(SharedOptimizerConfig):
    """Optimizer and schedule (the original's `optimization.py`)."""

    # Steps of the warm-up; 0: `warmup_proportion` of all steps.
    num_warmup_steps: Count = 0
    warmup_proportion: Fraction = 0.05  # share of all steps
    # Clip each network by its own norm; else one norm spans all gradients.
    clip_per_tower: bool = False


@schema.frozen
class SharedTrainingConfig:
    """Settings of a training, in pre-training and fine-tuning."""

    train_batch_size: Positive = 128  # rows of all replicas and micro-batches
    num_micro_batches: Positive = 1  # parts whose gradients are accumulated
    strategy: _Strategy = "one_device"
    tpu: str = ""  # name or address for the `tpu` strategy; empty: local
    precision: _Precision = "float32"  # of matrix products only
    jit_compile: _JitCompile = "auto"  # XLA; on CPUs, parts of a step
    deterministic: bool = True  # deterministic kernels: equal seeds, equal bits
    # Seed of weights, order, masks, samples and dropout; of several
    # fine-tunings, of the first.
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    steps_per_loop: Positive = 50  # steps per call of the compiled loop
    log_steps: Positive = 100
    save_checkpoints_steps: Positive = 1_000
    keep_checkpoints: Positive = 3  # newest checkpoints to keep beside the best

    def __post_init__(self) -> None:
        require(
            not self.tpu or self.strategy == "tpu",
            f"`training.tpu` needs `strategy=tpu`. Received: tpu={self.tpu!r}.",
        )


@schema.frozen
class TrainingConfig(SharedTrainingConfig):
    """Length of the training, batches, devices, precision, checkpoints."""

    num_train_steps: Positive = 1_000_000  # can be raised with --extend
    eval_steps: Count = 5_000  # steps between evaluations; 0: never
    num_eval_batches: Count = 100  # 0: the whole validation split
    # Decay per step of a moving average of the weights; 0: no average.
    ema_decay: Annotated[float, Field(ge=0, le=0.999999)] = 0.0
    num_micro_batches: Count = 0  # 0: one; on CPUs 1,024 tokens each
    init_from: str = ""  # path or name of a model, see `reading.warm_start`
    recompute: bool = False  # recompute activations: less memory, more work
    peak_flops: NonNegative = 0.0  # of a device; 0: known, or measured


@schema.frozen
class ExperimentConfig:
    """All sections of a pre-training run."""

    encoder: EncoderConfig = EncoderConfig()
    generator: GeneratorConfig = GeneratorConfig()
    masking: MaskingConfig = MaskingConfig()
    # `name` (a file of electra_tf/objectives/, or a module of the user's), and
    # the fields that the objective's class declares.
    objective: dict[str, Any] = dataclasses.field(
        default_factory=lambda: {"name": "electra"}
    )
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    training: TrainingConfig = TrainingConfig()

    def __post_init__(self) -> None:
        name = self.objective.setdefault("name", "electra")
        require(
            isinstance(name, str),
            f"`objective.name` must be text. Received: {name!r}.",
        )
        length = self.data.max_seq_length
        rows = self.encoder.max_position_embeddings
        require(
            length <= rows,
            "`data.max_seq_length` must not exceed "
            f"`encoder.max_position_embeddings`. Received: {length}, and "
            f"max_position_embeddings={rows}. Raise the latter.",
        )
        batch, streams = self.training.train_batch_size, self.data.num_streams
        require(
            batch % streams == 0,
            "`training.train_batch_size` must be a multiple of "
            f"`data.num_streams`. Received: train_batch_size={batch}, "
            f"num_streams={streams}. Use --config.data.num_streams="
            f"{max(n for n in range(1, streams + 1) if batch % n == 0)}.",
        )
        self.check_warm_up()
        self.check_devices(1)

    def check_warm_up(self, stages: Sequence[int] = (0,)) -> None:
        """Raises `ConfigError` unless every stage is longer than the warm-up.

        `stages` holds the first step of each stage of the objective.
        """
        warmup, steps = self.num_warmup_steps, self.training.num_train_steps
        ends = *stages[1:], steps
        shortest = min(end - s for s, end in zip(stages, ends, strict=True))
        share = round(self.optimizer.warmup_proportion * steps)
        remedy = f"num_warmup_steps={max(1, shortest // 10)}"
        if 0 < share < min(shortest, warmup):
            remedy = "num_warmup_steps=0 for a share (`warmup_proportion`)"
        require(
            warmup < shortest,
            "The warm-up must be shorter than the run and than each stage of "
            "the objective, so that the learning rate reaches its peak. "
            f"Received: {warmup} warm-up steps, {shortest} steps. Set "
            f"--config.optimizer.{remedy}.",
        )

    @property
    def num_warmup_steps(self) -> int:
        """Steps in which the learning rate rises, in every stage."""
        share = self.optimizer.warmup_proportion * self.training.num_train_steps
        return self.optimizer.num_warmup_steps or round(share)

    def check_devices(self, num_replicas: int) -> None:
        """Raises `ConfigError` unless devices can divide the streams evenly."""
        streams = self.data.num_streams
        parts = self.training.num_micro_batches or 1
        shares = num_replicas * parts
        require(
            streams % shares == 0,
            "`data.num_streams` must be a multiple of replicas x "
            "micro-batches, because a stream is never split. Received: "
            f"num_streams={streams}, replicas={num_replicas}, "
            f"num_micro_batches={parts}. Use --config.data.num_streams="
            f"{-(-streams // shares) * shares}, with a multiple of it as "
            "train_batch_size, or change replicas or micro-batches.",
        )


class RowPhase(NamedTuple):
    """A phase: the steps of a run that read rows of one length."""

    start: int  # number of steps before the phase
    end: int
    settings: ExperimentConfig  # with the phase's rows and dataset

    @property
    def num_tokens(self) -> int:
        """The tokens of all rows of the phase, with padding."""
        length = self.settings.data.max_seq_length
        batch = self.settings.training.train_batch_size
        return (self.end - self.start) * batch * length


def split_phases(settings: ExperimentConfig) -> list[RowPhase]:
    """Returns the phases of `data.phases`, and the last one until the end.

    Raises `ConfigError` if the phases do not fit the run.
    """
    data, training = settings.data, settings.training
    num_steps, start = training.num_train_steps, 0
    spans = list[tuple[int, int, int, int]]()
    for text in filter(None, data.phases.split(",")):
        match = re.fullmatch(r"(\d+)x(\d+):(\d+)", text)
        if not match:
            raise errors.ConfigError(
                "`data.phases` must list phases as LENGTHxROWS:STEPS, with "
                f"commas between, as 128x256:9000. Received: {data.phases!r}."
            )
        length, batch, count = map(int, match.groups())
        spans.append((start, start + count, length, batch))
        start += count
        require(
            count > 0 and start < num_steps,
            "Each phase of `data.phases` must have steps, and the last rows "
            f"need some, too. Received: {data.phases}, and num_train_steps="
            f"{num_steps}.",
        )
    last = data.max_seq_length, training.train_batch_size
    spans.append((start, num_steps, *last))
    phases = []
    for begin, end, length, batch in spans:
        folder = data.dataset_dir.replace("{length}", f"{length}")
        rows = {"phases": "", "dataset_dir": folder, "max_seq_length": length}
        try:
            own = schema.replace_fields(
                settings, data=rows, training={"train_batch_size": batch}
            )
        except errors.ConfigError as error:
            raise errors.ConfigError(
                f"`data.phases`, {length}x{batch}:{end - begin}: {error}"
            ) from error
        phases.append(RowPhase(begin, end, own))
    return phases
