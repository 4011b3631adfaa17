"""The base class of all objectives: two networks and a loss (section 2)."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.config import schema
from electra_tf.formulas import accuracies
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import flops
from electra_tf.modeling import keras_models
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import schedules
from electra_tf.training import step as step_lib
from electra_tf.training import step_state

# The first dropout site of the main network, above all of the generator.
_MAIN_SITES = 512


class MaskedBatch(NamedTuple):
    """A masked batch and the seeds for sampling from the generator."""

    masked: masking.MaskedInputs  # B = n * k rows, k of each stream
    sample_seeds: tf.Tensor  # [n, 2] int64, one stateless seed per stream
    row_labels: Any = ()  # tensors [B, ...], the labels of an additional head


@schema.frozen
class Settings:
    """The fields of a config's section `objective` that all objectives have.

    An objective with more fields defines a subclass beside its own class.
    """

    name: str = "electra"  # a file of this folder, or a module of your own
    # True divides losses by the weights of each replica, as the original does;
    # False by those of the global batch: replicas do not change the result.
    means_per_replica: bool = False


class PretrainingModel(keras_models.TakesRows, step_lib.TrainableModel):
    """A main network, often a generator, and the losses that train them.

    Each subclass is an objective and declares its settings, networks, heads
    and losses. Class methods and attributes hold whatever needs no weights, so
    that costs and exports can be computed without a model.

    A call with `[B, S]` int32 `input_ids`, `input_mask` and `segment_ids`
    returns the probability that each token was replaced, `[B, S]` float32, or,
    if the main network is a masked language model, the probabilities of the
    vocabulary, `[B, S, V]`. The text is neither masked nor corrupted first.

    Args:
        settings: the config of a run.
        vocabulary: the vocabulary of its dataset.
        token_counts: `[V]`, how often the corpus has each token; the unigram
            generator and `masking.frequency_power` need them.
        is_packed: whether rows of training and evaluation batches hold several
            texts. In a call, a row is one text.

    Attributes:
        generator: any generator of `modeling.networks`, or None.
        main: the network whose `encoder` is kept after pre-training.
        objective: the section `objective` as a `Settings`.
    """

    Settings: type = Settings
    """The frozen dataclass of the section `objective`."""

    answer = networks.Answer.REPLACED
    """The main network's kind of output, which exports and formats go by."""

    heads: Mapping[str, Callable[..., Any]] = {
        "discriminator_predictions": networks.TokenHead
    }
    """The heads on the main encoder: for each name a function that takes the
    encoder's settings and `name`. A masked LM's head has the first name."""

    generator_heads: Mapping[str, Callable[..., Any]] = {}
    """Further heads on the generator's states, in the same form."""

    required_generator: Mapping[str, Any] = {}
    """Fields of the section `generator` that must have these values."""

    has_generator = True  # whether it reads the section `generator`
    takes_packed_rows = True  # whether several texts may share a row
    supports_disentangled = False  # whether embeddings can be disentangled

    weights_of: "type[PretrainingModel] | None" = None
    """The objective with which a converted run continues; None: this one."""

    ratios: Mapping[str, tuple[str, str]] = {}
    """Metrics, each with the statistics that are numerator and denominator."""

    def __init__(
        self,
        settings: config.ExperimentConfig,
        vocabulary: vocabulary_lib.Vocabulary,
        token_counts: np.ndarray | None = None,
        is_packed: bool = False,
        **kwargs: Any,
    ) -> None:
        config.require(
            not is_packed
            or self.takes_packed_rows
            and not settings.generator.two_tower_generator,
            "Two-tower generators and the objective "
            f"{settings.objective['name']!r} need rows with one text each. "
            "Received: a dataset built with --packed. Build one without.",
        )
        settings = resolve(settings, vocabulary.size)
        self.check_settings(settings)
        training, objective = settings.training, self.parse(settings)
        super().__init__(
            seed=training.seed,
            num_micro_batches=training.num_micro_batches or 1,
            clip_norm=settings.optimizer.clip_norm,
            means_per_replica=objective.means_per_replica,
            **{"name": "electra_pretraining"} | kwargs,
        )
        self.settings, self.objective = settings, objective
        self.num_positions = settings.encoder.max_position_embeddings
        self.mask_id = vocabulary.mask_id
        self.masking = masking.DynamicMasking(
            settings.masking, vocabulary, training.seed, token_counts
        )
        dtype = layers.dtype_policy(training.precision)
        main = self.build_main(settings.encoder, dtype)
        self.generator = self.build_generator(
            settings, main.encoder, token_counts, dtype
        )
        self.main = main
        self.is_disentangled = settings.generator.disentangled_embeddings
        if self.is_disentangled:
            self.reset_difference()
        self.is_packed = is_packed
        for network in (self.generator, main):
            for encoder in getattr(network, "encoders", ()):
                encoder.recomputes = training.recompute
                encoder.is_packed = is_packed
        self.build_extras(dtype)
        self.seed_generator = keras.random.SeedGenerator(training.seed)
        self.token_counts = token_counts
        self.built = True
        if training.precision == "float16":
            self.loss_scale = step_state.LossScale()
        if training.ema_decay:
            self.weight_average = step_state.WeightAverage(
                self.trainable_variables, training.ema_decay
            )

    @classmethod
    def parse(cls, settings: config.ExperimentConfig) -> Any:
        """Returns the section `objective` as this objective's `Settings`."""
        return cls.Settings(**settings.objective)

    @classmethod
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Raises `ConfigError` if settings do not fit the objective."""
        name, generator = settings.objective["name"], settings.generator
        config.require(
            cls.has_generator or generator == config.GeneratorConfig(),
            f"The objective {name!r} has no generator. Received: {generator}. "
            "Leave its section at the defaults.",
        )
        if cls.has_generator and generator.has_encoder:
            generator.encoder_config(settings.encoder)  # checks its sizes
        for field, value in cls.required_generator.items():
            received = getattr(generator, field)
            config.require(
                received == value,
                f"The objective {name!r} needs generator.{field}={value}. "
                f"Received: {received}. Set --config.generator.{field}="
                f"{str(value).lower()}.",
            )
        config.require(
            cls.supports_disentangled or not generator.disentangled_embeddings,
            "`generator.disentangled_embeddings` needs an objective with a "
            "generator and a discriminator of its samples. Received: the "
            f"objective {name!r}. Leave the field out.",
        )

    @classmethod
    def stages(cls, settings: config.ExperimentConfig) -> tuple[int, ...]:
        """Returns the first steps of the stages that settings ask for."""
        return (0,)

    @classmethod
    def training_flops(cls, convention: flops.Convention, step: int) -> float:
        """Counts the operations of training on one row at a step."""
        return cls.trained_parts(convention).total

    @classmethod
    def trained_parts(cls, convention: flops.Convention) -> flops.Operations:
        """Counts the networks that a step runs; by default the main one."""
        return cls.main_flops(convention)

    @classmethod
    def main_flops(cls, convention: flops.Convention) -> flops.Operations:
        """Counts the operations of the main network on one row."""
        if cls.answer is networks.Answer.COPYING:
            return convention.copying_masked_lm()
        if cls.answer.is_prediction:
            return convention.masked_lm()
        return convention.discriminator()

    @classmethod
    def build_main(cls, settings: config.EncoderConfig, dtype: Any) -> Any:
        """Builds the main network, whose kind follows from `answer`."""
        if cls.answer is networks.Answer.COPYING:
            return networks.CopyingMaskedLM(settings, dtype=dtype)
        if cls.answer.is_prediction:
            names = next(iter(cls.heads)), networks.MAIN_ENCODER
            return networks.MaskedLMGenerator(settings, *names, dtype=dtype)
        return networks.Discriminator(settings, dtype=dtype)

    @classmethod
    def build_generator(
        cls,
        settings: config.ExperimentConfig,
        main_encoder: Any,
        token_counts: np.ndarray | None,
        dtype: Any,
    ) -> Any:
        """Builds the generator, perhaps tied to the main encoder."""
        if not cls.has_generator:
            return None
        return networks.build_generator(
            settings.generator, main_encoder, token_counts, dtype
        )

    @property
    def statistic_sizes(self) -> dict[str, int]:
        """Statistic name to the length of its vector, also for `ratios`."""
        counts = itertools.chain(*self.ratios.values())
        return dict.fromkeys(counts, 1) | super().statistic_sizes

    def reset_difference(self) -> None:
        """Sets D to 0, so that both networks have equal token embeddings.

        With `generator.disentangled_embeddings` (DeBERTa-v3,
        https://arxiv.org/abs/2111.09543, section 3.2) the main network's token
        embeddings are E_D = stop_gradient(E_G) + D. Its own table holds D, so
        the discriminator's loss does not change the generator's table E_G.
        Exports hold E_D.
        """
        table = self.main.encoder.embeddings.word_embeddings
        table.assign(tf.zeros(table.shape))

    def take_difference(self) -> None:
        """Replaces loaded embeddings E_D by their difference D from E_G."""
        table = self.main.encoder.embeddings.word_embeddings
        if np.any(table.numpy()):
            shared = self.generator.encoder.embeddings.word_embeddings
            table.assign(table - shared)

    def shared_words(self, input_ids: tf.Tensor) -> tf.Tensor | None:
        """Looks up E_G, `[B, S, E]`, if embeddings are disentangled."""
        if not self.is_disentangled:
            return None
        table = self.generator.encoder.embeddings.word_embeddings
        return tf.stop_gradient(layers.look_up(table, input_ids))

    def build_extras(self, dtype: Any) -> None:
        """Builds layers that an objective trains beside the two networks."""

    @property
    def stage_starts(self) -> tuple[int, ...]:
        """The first steps of the stages of this model."""
        return self.stages(self.settings)

    def clip_groups(self, variables: Sequence[Any]) -> Sequence[str]:
        """Names each variable's network, if each is clipped by its own norm."""
        if not self.settings.optimizer.clip_per_tower:
            return super().clip_groups(variables)
        named = {"generator": self.generator, "main": self.main}
        groups = {
            id(variable): name
            for name, network in named.items()
            for variable in getattr(network, "trainable_variables", ())
        }
        return [groups.get(id(variable), "extras") for variable in variables]

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> MaskedBatch:
        """Masks a batch; (seed, step, stream) decide on masks and samples."""
        kind, streams = randomness.GENERATOR_SAMPLE, features["stream_ids"]
        if self.is_packed:
            cls_id = self.masking.vocabulary.cls_id
            features = encoder_lib.number_segments(features, cls_id)
        seeds = self.masking.seeds(kind, step, streams, is_training)
        settings = self.settings.masking
        first, last = settings.mask_prob, settings.final_mask_prob
        num_steps = settings.mask_prob_steps
        rate = schedules.constant_or_linear(first, last, num_steps, step)
        if num_steps and not is_training:
            rate = last
        masked = self.masking(features, step, is_training, rate)
        return MaskedBatch(masked, seeds)

    def derive_metrics(self, statistics: step_lib.Tensors) -> step_lib.Tensors:
        """Derives `loss`, mean losses, `ratios` and scores of detection."""
        quotients = {
            name: (name, step_lib.normalizer_of(name))
            for name in self.loss_coefficients
        } | dict(self.ratios)
        means = {
            name: accuracies.ratio(statistics[numerator], statistics[divisor])
            for name, (numerator, divisor) in quotients.items()
        }
        means = {"loss": self.total_of(means)} | means
        if "detected_tokens" in statistics:
            means |= accuracies.summarize_detection(statistics)
        return means

    def total_of(self, means: step_lib.Tensors) -> tf.Tensor:
        """Computes the total loss that is reported, from mean losses."""
        return sum(
            factor * means[name]
            for name, factor in self.loss_coefficients.items()
        )

    def num_updates(self) -> tf.Tensor:
        """Counts the updates so far, scalar int32; 0 without an optimizer."""
        # Only a compiled model has the attribute `optimizer`.
        optimizer = getattr(self, "optimizer", None)
        return tf.cast(optimizer.iterations.value if optimizer else 0, tf.int32)

    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """Computes the probabilities that a call returns."""
        if self.answer.is_prediction:
            return tf.nn.softmax(self.main.score_tokens(rows, seed))
        offset = self.shared_words(rows[0])
        return tf.sigmoid(self.main(*rows, seed, offset).logits)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments as JSON values."""
        chosen, counts = self.settings, None
        if chosen.generator.unigram_generator or chosen.masking.frequency_power:
            counts = np.asarray(self.token_counts).tolist()
        return {
            "name": self.name,
            "settings": dataclasses.asdict(chosen),
            "vocabulary": dataclasses.asdict(self.masking.vocabulary),
            "token_counts": counts,
            "is_packed": self.is_packed,
        }

    @classmethod
    def from_config(
        cls, config_dict: dict[str, Any], custom_objects: Any = None
    ) -> "PretrainingModel":
        """Builds a model of saved arguments, with new weights."""
        tokens, sections = config_dict["vocabulary"], config_dict["settings"]
        # Files of older releases hold the settings of all objectives.
        saved = sections["objective"]
        names = [field.name for field in dataclasses.fields(cls.Settings)]
        objective = {name: saved[name] for name in names if name in saved}
        vocabulary = vocabulary_lib.Vocabulary(
            tuple(tokens["tokens"]),
            vocabulary_lib.TokenizerSettings(**tokens["settings"]),
        )
        settings = config.freeze(sections | {"objective": objective})
        changed = {"vocabulary": vocabulary, "settings": settings}
        return cls(**config_dict | changed)


def main_seed(dropout_seed: layers.Seed) -> layers.Seed:
    """Returns the seed of the main network's first dropout site."""
    return layers.add_to_seed(dropout_seed, _MAIN_SITES)


def require_masked_lm_generator(settings: config.ExperimentConfig) -> None:
    """Raises `ConfigError` unless the generator is a masked LM."""
    generator = settings.generator
    config.require(
        generator.has_encoder and not generator.two_tower_generator,
        f"The objective {settings.objective['name']!r} needs a masked-LM "
        "generator. Received another kind in the section `generator`. Set "
        "uniform_, unigram_ and two_tower_generator to false in it.",
    )


def resolve(
    settings: config.ExperimentConfig, vocab_size: int
) -> config.ExperimentConfig:
    """Returns the settings with the size of the vocabulary."""
    encoder = networks.resolve_vocab_size(settings.encoder, vocab_size)
    return dataclasses.replace(settings, encoder=encoder)
