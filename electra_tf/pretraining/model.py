"""The model that every objective of pre-training is a subclass of.

batch [B, S] --mask--> generator --sample--> corrupted ids, labels
                                                 `--> main network
"""

import dataclasses
import importlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import flops
from electra_tf.modeling import keras_models
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import metrics
from electra_tf.training import schedules
from electra_tf.training import step as step_lib
from electra_tf.training import step_state

OBJECTIVES: Mapping[str, str] = {
    "adversarial": "adversarial.Reinforce",
    "all_tokens_mlm": "variants.AllTokensMLM",
    "electra": "electra.Electra",
    "electra_15": "variants.Electra15",
    "electric": "variants.Electric",
    "fast_electra": "fast.FastElectra",
    "mlm": "mlm.MaskedLM",
    "replace_mlm": "variants.ReplaceMLM",
    "sentence_order": "variants.SentenceOrder",
    "two_stage": "two_stage.TwoStage",
}
"""`objective.name` to module and class; other names are modules of a user."""

# Those that tell the main network of the generator's embeddings.
_DISENTANGLED = ("electra", "electra_15", "two_stage", "fast_electra")
# Dropout sites of the main network come after those of the generator.
_MAIN_SITES = 512


class PreparedBatch(NamedTuple):
    """A masked batch and the seeds for sampling from the generator."""

    masked: masking.MaskedInputs  # B = n x k rows, those of a stream together
    sample_seeds: tf.Tensor  # [n, 2] int64, one stateless seed per stream
    is_swapped: Any = ()  # [B] float32, 1 where it is so; of sentence_order


class PretrainingModel(keras_models.TakesRows, step_lib.TrainableModel):
    """A main network, perhaps a generator, and what they learn.

    A subclass is an objective. It names its losses (`loss_coefficients`), says
    what their sums are divided by (`loss_normalizers`), computes them
    (`compute_losses`) and counts what learns (`trained_parts`). What is known
    without weights are classmethods: costs and exports need no whole model.

    Called with `input_ids`, `input_mask`, `segment_ids`, `[B, S]` int32, it
    returns what the main network says of the text as it is: the probability
    that each token was replaced, `[B, S]` float32, or those of the vocabulary,
    `[B, S, V]`, where it is a masked language model.

    `token_counts` `[V]` of the corpus are for the unigram generator. Batches
    of training and evaluation can have several texts in a row where it
    `is_packed`, as the dataset is; in a call, a row is one text.

    Attributes:
        generator: any generator of `modeling.networks`, or None.
        main: the network whose `encoder` is kept after pre-training.
    """

    ratios: Mapping[str, tuple[str, str]] = {}
    """Metrics that are one statistic divided by another."""

    main_part = "discriminator"
    """What `flops.Convention` calls the main network."""

    def __init__(
        self,
        settings: config.ExperimentConfig,
        vocabulary: vocabulary_lib.Vocabulary,
        token_counts: np.ndarray | None = None,
        is_packed: bool = False,
        **kwargs: Any,
    ) -> None:
        self.check_settings(settings)
        _require_fitting_generator(settings, is_packed)
        settings = resolve(settings, vocabulary.size)
        training = settings.training
        super().__init__(
            seed=training.seed,
            num_micro_batches=training.num_micro_batches or 1,
            clip_norm=settings.optimizer.clip_norm,
            means_per_replica=settings.objective.means_per_replica,
            **{"name": "electra_pretraining"} | kwargs,
        )
        self.settings = settings
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
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Raises `ConfigError` if settings do not fit the objective."""

    @classmethod
    def phases(cls, settings: config.ExperimentConfig) -> tuple[int, ...]:
        """Steps at which what is trained changes; the first is 0."""
        return (0,)

    @classmethod
    def training_flops(
        cls,
        settings: config.ExperimentConfig,
        convention: flops.Convention,
        step: int,
    ) -> float:
        """Operations of training on one row at a step."""
        return cls.trained_parts(convention).total

    @classmethod
    def trained_parts(cls, convention: flops.Convention) -> flops.Operations:
        """What learns in a step, from one row; the main network."""
        return cls.main_flops(convention)

    @classmethod
    def main_flops(cls, convention: flops.Convention) -> flops.Operations:
        """Operations of the main network on one row."""
        main: flops.Operations = getattr(convention, cls.main_part)()
        return main

    @classmethod
    def build_main(cls, settings: config.EncoderConfig, dtype: Any) -> Any:
        """The network whose encoder is kept; a discriminator for most."""
        return networks.Discriminator(settings, dtype=dtype)

    @classmethod
    def build_generator(
        cls,
        settings: config.ExperimentConfig,
        main_encoder: Any,
        token_counts: np.ndarray | None,
        dtype: Any,
    ) -> Any:
        """The generator, which may share weights with the main encoder."""
        return networks.build_generator(
            settings.generator, main_encoder, token_counts, dtype
        )

    @property
    def _summed_sizes(self) -> dict[str, int]:
        """Also the scalars that `ratios` divides."""
        counts = itertools.chain(*self.ratios.values())
        return dict.fromkeys(counts, 1) | super()._summed_sizes

    def reset_difference(self) -> None:
        """Makes the main network's token embeddings those of the generator.

        With `generator.disentangled_embeddings` (gradient-disentangled
        embedding sharing; DeBERTa-v3, https://arxiv.org/abs/2111.09543,
        section 3.2) they are E_D = stop_gradient(E_G) + D, and the network's
        own table holds D, 0 at first. So the discriminator's loss, which
        pulls tokens apart, does not reach the generator's table, which wants
        like tokens near each other. A step updates the generator first
        (`Electra.turns`). Files that others read hold E_D.
        """
        table = self.main.encoder.embeddings.word_embeddings
        table.assign(tf.zeros(table.shape))

    def take_difference(self) -> None:
        """Keeps the difference alone of whole embeddings that were loaded."""
        table = self.main.encoder.embeddings.word_embeddings
        if np.any(table.numpy()):
            shared = self.generator.encoder.embeddings.word_embeddings
            table.assign(table - shared)

    def shared_words(self, input_ids: tf.Tensor) -> tf.Tensor | None:
        """The generator's part of the token embeddings, `[B, S, E]`, if any."""
        if not self.is_disentangled:
            return None
        table = self.generator.encoder.embeddings.word_embeddings
        return tf.stop_gradient(layers.look_up(table, input_ids))

    def build_extras(self, dtype: Any) -> None:
        """Builds what an objective trains beside the two networks."""

    @property
    def phase_starts(self) -> tuple[int, ...]:
        """Steps at which what is trained changes."""
        return self.phases(self.settings)

    def clip_groups(self, variables: Sequence[Any]) -> Sequence[str]:
        """The networks and the extras, where each has a norm of its own."""
        if not self.settings.optimizer.clip_per_tower:
            return super().clip_groups(variables)
        networks = {"generator": self.generator, "main": self.main}
        groups = {
            id(variable): name
            for name, network in networks.items()
            for variable in getattr(network, "trainable_variables", ())
        }
        return [groups.get(id(variable), "extras") for variable in variables]

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> PreparedBatch:
        """Masks a batch; masks and samples follow (seed, step, stream)."""
        kind, streams = randomness.GENERATOR_SAMPLE, features["stream_ids"]
        if self.is_packed:
            cls_id = self.masking.vocabulary.cls_id
            features = encoder_lib.number_segments(features, cls_id)
        seeds = self.masking.seeds(kind, step, streams, is_training)
        chosen = self.settings.masking
        first, last = chosen.mask_prob, chosen.final_mask_prob
        num_steps = chosen.mask_prob_steps
        rate = schedules.constant_or_linear(first, last, num_steps, step)
        if num_steps and not is_training:
            rate = last
        masked = self.masking(features, step, is_training, rate)
        return PreparedBatch(masked, seeds)

    def derive_metrics(self, statistics: step_lib.Tensors) -> step_lib.Tensors:
        """`loss`, the mean of every loss, `ratios`, scores of detection."""
        quotients = {
            name: (name, step_lib.normalizer_of(name))
            for name in self.loss_coefficients
        } | dict(self.ratios)
        found = {
            name: metrics.ratio(statistics[part], statistics[whole])
            for name, (part, whole) in quotients.items()
        }
        if "detected_tokens" in statistics:
            found |= metrics.summarize_detection(statistics)
        return {"loss": self.total_of(found), **found}

    def total_of(self, means: step_lib.Tensors) -> tf.Tensor:
        """The reported total of mean losses."""
        return sum(
            factor * means[name]
            for name, factor in self.loss_coefficients.items()
        )

    def num_updates(self) -> tf.Tensor:
        """Updates made so far, scalar int32; 0 without an optimizer."""
        # Keras sets the attribute when the model is compiled.
        optimizer = getattr(self, "optimizer", None)
        if optimizer is None:
            return tf.constant(0)
        return tf.cast(optimizer.iterations.value, tf.int32)

    def read_rows(
        self, rows: layers.EncoderInputs, seed: layers.Seed
    ) -> tf.Tensor:
        """The probabilities that a call returns, for `[B, S]` rows."""
        if self.main_part == "masked_lm":
            return tf.nn.softmax(self.main.score_tokens(rows, seed))
        offset = self.shared_words(rows[0])
        return tf.sigmoid(self.main(*rows, seed, offset).logits)

    def get_config(self) -> dict[str, Any]:
        """Settings and vocabulary; the weights are saved beside them."""
        counts = None
        if (
            self.settings.generator.unigram_generator
            or self.settings.masking.frequency_power
        ):
            counts = np.asarray(self.token_counts).tolist()
        return {
            "name": self.name,
            "settings": dataclasses.asdict(self.settings),
            "vocabulary": dataclasses.asdict(self.masking.vocabulary),
            "token_counts": counts,
            "is_packed": self.is_packed,
        }

    @classmethod
    def from_config(
        cls, config_dict: dict[str, Any], custom_objects: Any = None
    ) -> "PretrainingModel":
        """A model of these settings, with fresh weights."""
        values = dict(config_dict)
        tokens = values["vocabulary"]
        values["settings"] = config.freeze(values["settings"])
        values["vocabulary"] = vocabulary_lib.Vocabulary(
            tuple(tokens["tokens"]),
            vocabulary_lib.TokenizerSettings(**tokens["settings"]),
        )
        return cls(**values)


def main_seed(dropout_seed: layers.Seed) -> layers.Seed:
    """The main network's part of a step's dropout seed."""
    return layers.add_to_seed(dropout_seed, _MAIN_SITES)


def _require_fitting_generator(
    settings: config.ExperimentConfig, is_packed: bool
) -> None:
    config.require(
        not is_packed
        or not settings.generator.two_tower_generator
        and settings.objective.name != "sentence_order",
        "Two-tower generators and the objective 'sentence_order' take a row "
        "for one text. Received: a dataset built with --packed. Build one "
        "without.",
    )
    config.require(
        not settings.generator.disentangled_embeddings
        or settings.objective.name in _DISENTANGLED,
        "`generator.disentangled_embeddings` is for the objectives "
        f"{', '.join(_DISENTANGLED)}. Received: "
        f"{settings.objective.name!r}.",
    )


def require_masked_lm_generator(settings: config.ExperimentConfig) -> None:
    """Raises `ConfigError` for objectives that no other generator fits."""
    generator = settings.generator
    config.require(
        generator.has_encoder and not generator.two_tower_generator,
        f"The objective {settings.objective.name!r} needs a masked-LM "
        "generator. Received another kind in the section `generator`.",
    )


def build_pretraining_model(
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    token_counts: np.ndarray | None = None,
    is_packed: bool = False,
) -> PretrainingModel:
    """Builds the model of a config; arguments as of `PretrainingModel`."""
    objective = find_objective(settings)
    return objective(settings, vocabulary, token_counts, is_packed)


def find_objective(settings: config.ExperimentConfig) -> type[PretrainingModel]:
    """The subclass of `PretrainingModel` that a config names."""
    name = settings.objective.name
    if name in OBJECTIVES:
        module_name, class_name = OBJECTIVES[name].split(".")
        if settings.objective.adversarial_estimator == "straight_through":
            class_name = "StraightThrough"
        package = __name__.rpartition(".")[0]
        module = importlib.import_module(f"{package}.{module_name}")
        objective: type[PretrainingModel] = getattr(module, class_name)
    else:
        objective = _import_objective(name)
    objective.check_settings(settings)
    return objective


def _import_objective(name: str) -> type[PretrainingModel]:
    """The one objective that a module of the user's defines."""
    unknown = errors.ConfigError(
        f"`objective.name` must be one of {', '.join(OBJECTIVES)}, or a module "
        f"of your own in a package that can be imported. Received: {name!r}."
    )
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise unknown from error
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, PretrainingModel)
        and value.__module__ == name
    ]
    config.require(
        len(found) == 1,
        f"The module {name} must define one subclass of `PretrainingModel`. "
        f"Received: {len(found)}. CONTRIBUTING.md shows an example.",
    )
    return found[0]


def resolve(
    settings: config.ExperimentConfig, vocab_size: int
) -> config.ExperimentConfig:
    """The settings with the vocabulary's size in them."""
    encoder = networks.resolve_vocab_size(settings.encoder, vocab_size)
    return dataclasses.replace(settings, encoder=encoder)


class Cost:
    """Training operations of a run, counted `original` or `exact`."""

    def __init__(
        self, settings: config.ExperimentConfig, convention: str = "exact"
    ) -> None:
        self.settings = settings
        self._objective = find_objective(settings)
        self._phases = [
            (phase, flops.Convention(convention, phase.settings))
            for phase in config.split_phases(settings)
        ]
        self.convention = self._phases[-1][1]
        starts = {phase.start for phase, _ in self._phases}
        starts |= {*self._objective.phases(settings)}
        self.phase_starts = tuple(sorted(starts))

    def row_flops(self, step: int = 0) -> float:
        """Operations of training on one row at a step."""
        phase, convention = self._find_phase(step)
        settings = phase.settings
        return self._objective.training_flops(settings, convention, step)

    def step_flops(self, step: int = 0) -> float:
        """Operations of a step on the global batch."""
        batch = self._find_phase(step)[0].settings.training.train_batch_size
        return self.row_flops(step) * batch

    def _find_phase(
        self, step: int
    ) -> tuple[config.RowPhase, flops.Convention]:
        return next(p for p in reversed(self._phases) if p[0].start <= step)

    def flops_until(self, num_steps: int) -> float:
        """Operations of the first `num_steps` steps of a run."""
        ends = (*self.phase_starts[1:], num_steps)
        return sum(
            max(0, min(end, num_steps) - start) * self.step_flops(start)
            for start, end in zip(self.phase_starts, ends, strict=True)
        )

    def run_flops(self) -> float:
        """Operations of the whole run."""
        return self.flops_until(self.settings.training.num_train_steps)

    def inference_flops(self) -> float:
        """Operations of the main network on one row."""
        return self._objective.main_flops(self.convention).forward
