"""The pre-training model: towers, dynamic masks, one objective.

    batch [B, S] --mask--> generator --sample--> corrupted ids, labels
                                                     `--> discriminator

`build_pretraining_model` makes one from a config. It trains in our loop and,
for a Keras user, with plain `compile` and `fit` on `[B, S]` features.
"""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import dynamic_masking
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import copying
from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.modeling import generators
from electra_tf.modeling import layers
from electra_tf.modeling import towers as towers_lib
from electra_tf.pretraining import objective as objective_lib
from electra_tf.pretraining import sampling
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import averaging
from electra_tf.training import schedules
from electra_tf.training import step as step_lib

# Dropout sites of the main tower come after those of the generator.
_MAIN_SITES = 512


class PretrainingModel(step_lib.TrainableModel):
    """ELECTRA's towers and what they learn (paper, section 2).

    Args:
        towers: the generator, if there is one, and the main tower, for most
            objectives a discriminator.
        objective: losses and metrics.
        vocabulary: gives the special ids, which are never masked, and tells
            which pieces continue a word.
        mask_settings: how many positions, how shown.
        temperature: divides the generator's logits before sampling; a
            schedule is called with the number of updates made.
        disallow_correct: never sample the original token.
        clip_per_tower: clip what only the generator has by its own norm.
        **kwargs: `seed`, `num_micro_batches`, `clip_norm`,
            `means_per_replica` of the training step.

    Call arguments:
        features: `input_ids`, `input_mask`, `segment_ids`, `[B, S]` int32.

    Returns:
        `[B, S]` float32, the discriminator's probability that each token was
        replaced, for text that is taken as it is.
    """

    def __init__(
        self,
        towers: towers_lib.Towers,
        objective: objective_lib.Objective,
        vocabulary: vocabulary_lib.Vocabulary,
        mask_settings: config.MaskingConfig,
        temperature: float | schedules.LinearSchedule = 1.0,
        disallow_correct: bool = False,
        clip_per_tower: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.generator = towers.generator
        self.main = towers.main
        self.baseline: Any = towers.baseline
        self.objective = objective
        self.masking = dynamic_masking.DynamicMasking(
            mask_settings, vocabulary, self.seed
        )
        self.temperature = temperature
        self.disallow_correct = disallow_correct
        self.clip_per_tower = clip_per_tower
        self.built = True

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Loss name to its factor, for example `gen_weight`."""
        return self.objective.loss_coefficients

    def loss_factors(self, step: tf.Tensor) -> Mapping[str, Any]:
        """The coefficients at a step."""
        return self.objective.loss_factors(step)

    @property
    def statistic_sizes(self) -> Mapping[str, int]:
        """Statistic name to the length of its vector."""
        return self.objective.statistic_sizes

    @property
    def mask_id(self) -> int:
        """Id of [MASK]."""
        return self.masking.vocabulary.mask_id

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> objective_lib.PreparedBatch:
        """Masks a batch; masks and samples follow (seed, step, stream).

        Args:
            features: `[n, k, S]` int32 tensors, and `stream_ids` `[n]` int64.
            step: scalar int64.
            is_training: False gives the masks of held-out data.
        """
        seeds = self.masking.seeds(
            randomness.GENERATOR_SAMPLE,
            step,
            features["stream_ids"],
            is_training,
        )
        masked = self.masking(features, step, is_training)
        return objective_lib.PreparedBatch(masked, seeds)

    @property
    def phase_starts(self) -> tuple[int, ...]:
        """Steps at which what is trained changes."""
        return self.objective.phase_starts

    def enter_phase(self, phase: int, is_beginning: bool) -> None:
        """Makes ready for a phase of the objective."""
        self.objective.enter_phase(self, phase, is_beginning)

    @property
    def trained_variables(self) -> Sequence[Any]:
        """What the present phase updates."""
        return self.objective.trained_variables(self)

    @property
    def clip_groups(self) -> Sequence[str]:
        """The towers, where each has a norm of its own.

        Shared weights belong to the main tower.
        """
        if not self.clip_per_tower:
            return super().clip_groups
        main = {id(v) for v in self.main.trainable_variables}
        return [
            "main" if id(v) in main else "generator"
            for v in self.trained_variables
        ]

    def loss_weights(
        self, prepared: objective_lib.PreparedBatch
    ) -> step_lib.Tensors:
        """Loss name to the scalar that its sum is divided by."""
        return self.objective.loss_weights(self, prepared.masked)

    def compute_losses(
        self,
        prepared: objective_lib.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Loss sums and statistics of one micro-batch."""
        return self.objective.compute_losses(self, prepared, dropout_seed)

    def summarize(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Metrics from added-up statistics; `loss` is the total."""
        return self.objective.summarize(statistics)

    def generate(
        self, masked: masking.MaskedInputs, dropout_seed: tf.Tensor | None
    ) -> generators.GeneratorOutput:
        """The generator's logits `[B, P, V]` for the masked positions."""
        return self.generator(masked, dropout_seed)

    def sample_uniform(
        self, seeds: tf.Tensor, masked: masking.MaskedInputs
    ) -> tf.Tensor:
        """The uniform numbers behind the samples, `[B, P, V]` float32."""
        batch, slots = masked.masked_positions.shape
        shape = (batch // seeds.shape[0], slots, self.generator.vocab_size)
        return randomness.uniform_by_stream(seeds, shape)

    def divide_by_temperature(self, logits: tf.Tensor) -> tf.Tensor:
        """The logits that are sampled from."""
        temperature = self.temperature
        if callable(temperature):
            temperature = temperature(self.training_step_number())
        elif temperature == 1.0:
            return logits
        return logits / temperature

    def sampling_log_probs(
        self, logits: tf.Tensor, masked: masking.MaskedInputs
    ) -> tf.Tensor:
        """Log probabilities that samples are drawn with, `[B, P, V]`."""
        logits = self.divide_by_temperature(logits)
        if self.disallow_correct:
            logits = sampling.disallow_tokens(logits, masked.masked_ids)
        return tf.nn.log_softmax(logits)

    def training_step_number(self) -> tf.Tensor:
        """Updates made so far, scalar int32; 0 without an optimizer."""
        # Keras sets the attribute when the model is compiled.
        optimizer = getattr(self, "optimizer", None)
        if optimizer is None:
            return tf.constant(0)
        return tf.cast(optimizer.iterations.value, tf.int32)

    def corrupt(
        self, prepared: objective_lib.PreparedBatch, gen_logits: tf.Tensor
    ) -> sampling.FakeData:
        """Samples from the generator and puts the samples in."""
        uniform = self.sample_uniform(prepared.sample_seeds, prepared.masked)
        return self._get_fake_data(prepared.masked, gen_logits, uniform)

    def _get_fake_data(
        self,
        masked: masking.MaskedInputs,
        mlm_logits: tf.Tensor,
        uniform: tf.Tensor,
    ) -> sampling.FakeData:
        """Puts generator samples into the original text.

        The input is built from the ids *before* masking, so that neither
        [MASK] nor the tokens left unmasked tell the discriminator anything; a
        sample that equals the original is labelled real.

        Args:
            masked: the masked batch.
            mlm_logits: `[B, P, V]` float32.
            uniform: `[B, P, V]` float32 in [0, 1).
        """
        disallow = masked.masked_ids if self.disallow_correct else None
        sampled = sampling.sample_from_softmax(
            self.divide_by_temperature(mlm_logits), uniform, disallow
        )
        input_ids, is_sampled = masking.scatter_update(
            masked.original_ids, sampled, masked.masked_positions
        )
        is_fake = tf.cast(input_ids != masked.original_ids, tf.int32)
        return sampling.FakeData(input_ids, is_fake, sampled, is_sampled)

    def discriminate(
        self,
        fake: sampling.FakeData,
        masked: masking.MaskedInputs,
        dropout_seed: tf.Tensor | None,
        word_offset: tf.Tensor | None = None,
    ) -> discriminator_lib.DiscriminatorOutput:
        """The discriminator's logits `[B, S]` for the corrupted text."""
        return self.main(
            fake.input_ids,
            masked.input_mask,
            masked.segment_ids,
            _main_seed(dropout_seed),
            word_offset,
        )

    def predict_masked(
        self, masked: masking.MaskedInputs, dropout_seed: tf.Tensor | None
    ) -> generators.GeneratorOutput:
        """The main tower's logits `[B, P, V]`, where it is a masked LM."""
        return self.main(masked, _main_seed(dropout_seed))

    def predict_all(
        self,
        fake: sampling.FakeData,
        masked: masking.MaskedInputs,
        dropout_seed: tf.Tensor | None,
    ) -> copying.CopyingOutput:
        """The main tower's logits for every token, where it copies."""
        return self.main(
            fake.input_ids,
            masked.input_mask,
            masked.segment_ids,
            _main_seed(dropout_seed),
        )

    def call(self, features: step_lib.Tensors) -> tf.Tensor:
        """Probability that each token of `[B, S]` was replaced.

        Raises:
            ValueError: if the main tower is no discriminator.
        """
        if not isinstance(self.main, discriminator_lib.Discriminator):
            raise ValueError(
                "Expected an objective that trains a discriminator. Received "
                f"one whose main tower is a {type(self.main).__name__}. Call "
                "`model.main` with its own arguments."
            )
        output = self.main(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
        )
        return tf.sigmoid(output.logits)

    def _logs(self, statistics: step_lib.Tensors) -> step_lib.Tensors:
        factors = self.loss_coefficients
        means = {
            name: statistics[name] / statistics[objective_lib.weight_of(name)]
            for name in factors
        }
        total = tf.add_n([factors[name] * means[name] for name in factors])
        return {name: v[0] for name, v in {"loss": total, **means}.items()}


def _main_seed(dropout_seed: tf.Tensor | None) -> tf.Tensor | None:
    if dropout_seed is None:
        return None
    return dropout_seed + tf.constant([0, _MAIN_SITES], tf.int64)


def build_pretraining_model(
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    token_counts: np.ndarray | None = None,
) -> PretrainingModel:
    """Builds the model of a config, with weights.

    Args:
        settings: the whole config; `encoder.vocab_size` 0 takes the
            vocabulary's size.
        vocabulary: gives sizes and special ids.
        token_counts: `[V]` of the corpus, for the unigram generator.

    Raises:
        ValueError: if the config's vocabulary size is not the vocabulary's,
            or if settings do not fit the objective.
    """
    settings = resolve(settings, vocabulary.size)
    chosen, training = settings.objective, settings.training
    objective = objective_lib.build_objective(settings)
    model = PretrainingModel(
        objective.build_towers(
            settings, token_counts, layers.dtype_policy(training.precision)
        ),
        objective,
        vocabulary,
        settings.masking,
        schedules.constant_or_linear(
            chosen.temperature,
            chosen.final_temperature,
            chosen.temperature_steps,
        ),
        chosen.disallow_correct,
        settings.optimizer.clip_per_tower,
        seed=training.seed,
        num_micro_batches=training.num_micro_batches,
        clip_norm=settings.optimizer.clip_norm,
        means_per_replica=chosen.means_per_replica,
        name="electra_pretraining",
    )
    if training.precision == "float16":
        model.loss_scale = step_lib.LossScale()
    if training.ema_decay:
        model.weight_average = averaging.WeightAverage(
            model.trainable_variables, training.ema_decay
        )
    return model


def resolve(
    settings: config.ExperimentConfig, vocab_size: int
) -> config.ExperimentConfig:
    """The settings with the vocabulary's size in them."""
    encoder = towers_lib.resolve_vocab_size(settings.encoder, vocab_size)
    return dataclasses.replace(settings, encoder=encoder)
