"""The sections of a pre-training config: typed, validated, frozen.

Each section checks itself; what concerns two of them, `ExperimentConfig` in
`config.py` checks. Names that users of the original know are kept.
"""

import dataclasses
import math
import numbers

from electra_tf import errors

STRATEGIES = ("one_device", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("float32", "bfloat16", "float16")
OPTIMIZERS = ("adam", "lamb")
# TensorFlow counts rows and columns with 32 bits.
_MAX_SIZE = 2**31 - 1


def require(condition: bool, message: str) -> None:
    """Raises `ConfigError` with the message unless the condition holds."""
    if not condition:
        raise errors.ConfigError(message)


def require_choice(field: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises `ConfigError` unless the field's value is one of the choices."""
    require(
        value in choices,
        f"`{field}` must be one of {', '.join(choices)}. Received: {value!r}.",
    )


def require_range(
    field: str, value: float, low: float, high: float = float("inf")
) -> None:
    """Raises `ConfigError` unless it is a finite number in [low, high]."""
    bounds = f"at least {low}" if high == float("inf") else f"{low} to {high}"
    is_number = isinstance(value, numbers.Real) and type(value) is not bool
    require(
        is_number and low <= value <= high and value != float("inf"),
        f"`{field}` must be {bounds}. Received: {value!r}.",
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
    # Standard deviation of the weights at first, truncated normal; 0 goes by
    # the width, see `initializer_stddev`.
    initializer_range: float = 0.02

    def __post_init__(self) -> None:
        # Each of up to three towers has 256 places of dropout in a step.
        ranges = {"vocab_size": (0, _MAX_SIZE), "num_hidden_layers": (1, 85)}
        for field in dataclasses.fields(self):
            name, value = f"encoder.{field.name}", getattr(self, field.name)
            if field.type is int:
                require(
                    type(value) is int,
                    f"`{name}` must be a whole number. Received: {value!r}.",
                )
                low, high = ranges.get(field.name, (1, _MAX_SIZE))
                require_range(name, value, low, high)
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            require_range(f"encoder.{name}", getattr(self, name), 0, 0.99)
        require_range("encoder.initializer_range", self.initializer_range, 0, 1)
        heads, width = self.num_attention_heads, self.hidden_size
        require(
            width % heads == 0,
            "`encoder.hidden_size` must be divisible by "
            f"`encoder.num_attention_heads`. Received: hidden_size={width}, "
            f"num_attention_heads={heads}. Use hidden_size="
            f"{width // heads * heads or heads}, or change the heads.",
        )

    @property
    def initializer_stddev(self) -> float:
        """The standard deviation that `initializer_range` stands for.

        BERT's 0.02 fits a width of 768. In narrower encoders it leaves
        attention almost without a gradient, and training stays on the unigram
        plateau (docs/small_models.md). 0 means `sqrt(2 / (5 x width))`, as in
        LTG-BERT: 0.056 for a width of 128, 0.023 for 768.
        """
        return self.initializer_range or math.sqrt(0.4 / self.hidden_size)


@dataclasses.dataclass(frozen=True)
class GeneratorConfig:
    """The generator, as fractions of the discriminator (paper, 3.2)."""

    generator_hidden_size: float = 0.25  # fraction of hidden_size
    generator_layers: float = 1.0  # fraction of num_hidden_layers
    num_attention_heads: int = 0  # 0: one for every 64 of its width
    intermediate_size: int = 0  # 0: four times its width
    untied_generator: bool = True  # False: one encoder serves both towers
    untied_generator_embeddings: bool = False  # True: embeddings of its own
    uniform_generator: bool = False  # samples uniformly, learns nothing
    # Samples by the corpus' token frequencies, learns nothing (Figure 3).
    unigram_generator: bool = False
    # A left-to-right and a right-to-left encoder (Electric, section 3).
    two_tower_generator: bool = False

    def __post_init__(self) -> None:
        for name in ("generator_hidden_size", "generator_layers"):
            require_range(f"generator.{name}", getattr(self, name), 1e-3, 1e3)
        own = {"untied_generator_embeddings": self.untied_generator_embeddings}
        for name in ("num_attention_heads", "intermediate_size"):
            own[name] = getattr(self, name)
            require_range(f"generator.{name}", own[name], 0)
        require(
            self.untied_generator or not any(own.values()),
            f"{', '.join(own)} needs `generator.untied_generator`: one shared "
            "encoder has one size and one set of embeddings. Received: "
            f"untied_generator=False, {own}. Leave them out.",
        )
        kinds = ("uniform_generator", "unigram_generator",
                 "two_tower_generator")  # fmt: skip
        chosen = [kind for kind in kinds if getattr(self, kind)]
        require(
            len(chosen) <= 1,
            "At most one of " + ", ".join(f"`generator.{k}`" for k in kinds)
            + f" can be true. Received: {', '.join(chosen)}.",
        )  # fmt: skip
        others = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in kinds
            and getattr(self, field.name) != field.default
        }
        require(
            self.has_encoder or not others,
            f"`generator.{''.join(chosen)}` has no weights: it has no size, "
            "and there is nothing to tie or untie. Received: "
            f"{others}. Leave these fields alone.",
        )
        require(
            not self.two_tower_generator or self.untied_generator,
            "`generator.two_tower_generator` needs `untied_generator`: two "
            "towers of one direction cannot be the discriminator's encoder. "
            "Received: untied_generator=False. Tie the embeddings instead.",
        )

    @property
    def has_encoder(self) -> bool:
        """Whether it has Transformer weights of its own or shared ones."""
        return not (self.uniform_generator or self.unigram_generator)

    @property
    def weight_tying(self) -> str:
        """What both towers share: `none`, `embeddings` or `all`."""
        if not self.untied_generator:
            return "all"
        return "none" if self.untied_generator_embeddings else "embeddings"

    def encoder_config(self, discriminator: EncoderConfig) -> EncoderConfig:
        """The generator's encoder sizes, derived as the original does.

        Untied embeddings have the generator's own width.
        """
        main = discriminator
        if self.weight_tying == "all":
            return main
        width = round(main.hidden_size * self.generator_hidden_size)
        depth = round(main.num_hidden_layers * self.generator_layers)
        own = self.weight_tying == "none"
        return dataclasses.replace(
            main,
            hidden_size=width,
            num_hidden_layers=max(depth, 1),
            num_attention_heads=self.num_attention_heads or max(1, width // 64),
            intermediate_size=self.intermediate_size or 4 * width,
            embedding_size=width if own else main.embedding_size,
        )


@dataclasses.dataclass(frozen=True)
class MaskingConfig:
    """Dynamic masking (paper, 3.1; the original's `pretrain_helpers.mask`)."""

    mask_prob: float = 0.15  # 0-1, fraction of tokens chosen
    replace_prob: float = 0.85  # 0-1, fraction of the chosen shown as [MASK]
    random_prob: float = 0.0  # 0-1, shown as a random token (BERT: 0.8, 0.1)
    whole_word: bool = False  # all pieces of a word are chosen together
    # The original draws positions with replacement, so a position can be drawn
    # twice and then receives the average of two sampled ids (rounded down).
    draw_with_replacement: bool = False

    def __post_init__(self) -> None:
        require_range("masking.mask_prob", self.mask_prob, 0.001, 0.9)
        require_range("masking.replace_prob", self.replace_prob, 0, 1)
        require_range("masking.random_prob", self.random_prob, 0, 1)
        require(
            self.replace_prob + self.random_prob <= 1.0 + 1e-6,
            "`masking.replace_prob` and `masking.random_prob` must not exceed "
            f"1 together. Received: {self.replace_prob} and "
            f"{self.random_prob}. What is left of 1 keeps its token.",
        )
        require(
            not (self.whole_word and self.draw_with_replacement),
            "`masking.whole_word` draws words without replacement. Received: "
            "draw_with_replacement=True as well. Set one of them to false.",
        )
        require(
            not (self.random_prob and self.draw_with_replacement),
            "`masking.random_prob` needs positions that are drawn once: the "
            "ids of a position drawn twice are averaged. Received: "
            "draw_with_replacement=True as well. Set one of them to 0.",
        )


# Field of `ObjectiveConfig` to the objectives that read it; any other field is
# read by all. A field that has no effect may not be set.
_DETECTION_OBJECTIVES = ("electra", "electra_15", "two_stage", "adversarial",
                         "electric")  # fmt: skip
_PREDICTION_OBJECTIVES = ("replace_mlm", "all_tokens_mlm")
_SAMPLING_OBJECTIVES = (*_DETECTION_OBJECTIVES, *_PREDICTION_OBJECTIVES)
# Electric's q must be the very distribution that noise is drawn from.
_TEMPERED_OBJECTIVES = tuple(
    name for name in _SAMPLING_OBJECTIVES if name != "electric"
)
_FIELD_READERS = {
    "gen_weight": (*_SAMPLING_OBJECTIVES, "mlm"),
    "disc_weight": _DETECTION_OBJECTIVES,
    "main_weight": _PREDICTION_OBJECTIVES,
    "temperature": _TEMPERED_OBJECTIVES,
    "final_temperature": _TEMPERED_OBJECTIVES,
    "temperature_steps": _TEMPERED_OBJECTIVES,
    "disallow_correct": _TEMPERED_OBJECTIVES,
    "disc_weight_steps": ("electra", "electra_15", "two_stage"),
    "generator_steps": ("two_stage",),
    "freeze_generator": ("two_stage",),
    "initialize_from_generator": ("two_stage",),
    "adversarial_estimator": ("adversarial",),
    "gumbel_temperature": ("adversarial",),
    "final_gumbel_temperature": ("adversarial",),
    "gumbel_temperature_steps": ("adversarial",),
    "adversarial_weight": ("adversarial",),
    "adversarial_start_step": ("adversarial",),
    "adversarial_full_step": ("adversarial",),
}
ADVERSARIAL_ESTIMATORS = ("reinforce", "straight_through")


@dataclasses.dataclass(frozen=True)
class ObjectiveConfig:
    """What is learned: `name` is a module of `pretraining.objectives`.

    A name with a dot is any importable module; CONTRIBUTING.md shows one.
    """

    name: str = "electra"  # joint replaced-token detection (paper, section 2)
    gen_weight: float = 1.0  # weight of the generator's masked-LM loss
    disc_weight: float = 50.0  # weight of the discriminator's loss, lambda
    disc_weight_steps: int = 0  # it rises linearly from 0 over so many steps
    # Weight of the main encoder's loss where it predicts tokens instead
    # (replace_mlm, all_tokens_mlm).
    main_weight: float = 1.0
    temperature: float = 1.0  # of the generator's softmax when sampling
    # Where the temperature has got, linearly, after so many steps; 0 constant.
    final_temperature: float = 1.0
    temperature_steps: int = 0
    disallow_correct: bool = False  # never sample the original token
    # The original divides by the weights of each replica alone; ours by those
    # of the global batch, so that replicas do not change the result.
    means_per_replica: bool = False
    generator_steps: int = 0  # two_stage: steps of the generator alone
    initialize_from_generator: bool = True  # two_stage: at the switch
    freeze_generator: bool = True  # two_stage: false trains both from there
    adversarial_estimator: str = "reinforce"  # or straight_through
    # straight_through: of the soft sample that gradients flow through, with a
    # schedule like that of `temperature`.
    gumbel_temperature: float = 1.0
    final_gumbel_temperature: float = 1.0
    gumbel_temperature_steps: int = 0
    adversarial_weight: float = 1.0  # of the adversarial loss, against MLE's
    # adversarial: maximum likelihood until the first, the adversarial loss
    # alone from the second on, a linear mixture between them.
    adversarial_start_step: int = 0
    adversarial_full_step: int = 0

    def __post_init__(self) -> None:
        for name in ("gen_weight", "disc_weight", "main_weight",
                     "adversarial_weight", "temperature_steps",
                     "gumbel_temperature_steps", "generator_steps",
                     "disc_weight_steps",
                     "adversarial_start_step"):  # fmt: skip
            require_range(f"objective.{name}", getattr(self, name), 0)
        for name in ("temperature", "gumbel_temperature"):
            self._check_temperature(name)
        require_choice("objective.adversarial_estimator",
                       self.adversarial_estimator,
                       ADVERSARIAL_ESTIMATORS)  # fmt: skip
        require_range(
            "objective.adversarial_full_step",
            self.adversarial_full_step,
            self.adversarial_start_step,
        )
        self._refuse_idle_fields()

    def _check_temperature(self, name: str) -> None:
        steps = getattr(self, f"{name}_steps")
        for field in (name, f"final_{name}"):
            require_range(f"objective.{field}", getattr(self, field), 1e-3)
        final = getattr(self, f"final_{name}")
        require(
            steps > 0 or final == 1.0,
            f"`objective.final_{name}` needs `{name}_steps` above 0. Received: "
            f"final_{name}={final}, {name}_steps=0. Set the steps, or "
            f"`{name}` alone.",
        )

    def _refuse_idle_fields(self) -> None:
        if self.name not in {*_SAMPLING_OBJECTIVES, "mlm"}:
            return  # an objective of the user's own reads what it likes
        for field in dataclasses.fields(self):
            readers = _FIELD_READERS.get(field.name)
            value = getattr(self, field.name)
            require(
                readers is None or self.name in readers
                or value == field.default,
                f"`objective.{field.name}` has no effect on the objective "
                f"{self.name!r}. Received: {value!r}. Leave it at "
                f"{field.default!r}, or take one of: "
                f"{', '.join(readers or ())}.",
            )  # fmt: skip


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
        require_range("data.max_seq_length", self.max_seq_length, 8)
        require_range("data.num_streams", self.num_streams, 1, 2**16)
        require_range("data.shuffle_block", self.shuffle_block, 1)


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
    clip_norm: float = 1.0  # global norm of the reduced gradient; 0 never clips
    # Each tower's gradient has a norm of its own; otherwise `disc_weight`
    # decides how much of the one norm is left to the generator.
    clip_per_tower: bool = False

    def __post_init__(self) -> None:
        require_choice("optimizer.name", self.name, OPTIMIZERS)
        for name in ("learning_rate", "num_warmup_steps", "weight_decay_rate",
                     "clip_norm"):  # fmt: skip
            require_range(f"optimizer.{name}", getattr(self, name), 0)
        for name in ("lr_decay_power", "epsilon"):
            require_range(f"optimizer.{name}", getattr(self, name), 1e-12)
        for name in ("beta_1", "beta_2"):
            require_range(f"optimizer.{name}", getattr(self, name), 0, 0.99999)


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
    num_eval_batches: int = 100  # 0 the whole validation split
    save_checkpoints_steps: int = 1_000
    keep_checkpoints: int = 3  # newest ones kept, beside the best
    init_from: str = ""  # a model of any format; see `formats.warm_start`
    peak_flops: float = 0.0  # per device and second; 0: table or measurement

    def __post_init__(self) -> None:
        for name in ("num_train_steps", "train_batch_size", "num_micro_batches",
                     "steps_per_loop", "log_steps", "save_checkpoints_steps",
                     "keep_checkpoints"):  # fmt: skip
            require_range(f"training.{name}", getattr(self, name), 1)
        for name in ("eval_steps", "num_eval_batches", "peak_flops", "seed"):
            require_range(f"training.{name}", getattr(self, name), 0)
        require_range("training.ema_decay", self.ema_decay, 0, 0.999999)
        require_choice("training.strategy", self.strategy, STRATEGIES)
        require_choice("training.precision", self.precision, PRECISIONS)
        require_choice("training.jit_compile", self.jit_compile,
                       ("auto", "on", "off"))  # fmt: skip
