"""ELECTRA, replaced token detection (paper, section 2, eq. 1 to 4)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from electra_tf.config import schema
from electra_tf.formulas import accuracies
from electra_tf.formulas import losses
from electra_tf.formulas import sampling
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import flops
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.objectives import base
from electra_tf.training import schedules
from electra_tf.training import step as step_lib

# Subtracted from the logits of tokens that must not be sampled.
_DISALLOWED = 1000.0


@schema.frozen
class SamplingSettings(base.Settings):
    """The settings of sampling from the generator."""

    temperature: schema.Temperature = 1.0  # of the generator's softmax
    final_temperature: schema.Temperature = 1.0  # after `temperature_steps`
    temperature_steps: schema.Count = 0  # steps until then; 0: constant
    disallow_correct: bool = False  # never sample the original token

    def __post_init__(self) -> None:
        schema.require_steps(self, "objective", "temperature")


@schema.frozen
class DetectionSettings(SamplingSettings):
    """The settings of sampling and of the discriminator's loss."""

    disc_weight: schema.NonNegative = 50.0  # lambda of eq. 4
    # Steps over which the weight rises linearly from 0.
    disc_weight_steps: schema.Count = 0


@schema.frozen
class Settings(DetectionSettings):
    """The section `objective` of ELECTRA."""

    gen_weight: schema.NonNegative = 1.0  # of the generator's masked-LM loss


class SampledBatch(NamedTuple):
    """A masked batch, and the text with the generator's samples put in."""

    prepared: base.MaskedBatch
    generated: Any  # `networks.GeneratorOutput`
    fake: Any  # `sampling.FakeData`; None while the generator learns alone

    @property
    def masked(self) -> masking.MaskedInputs:
        """The masked batch."""
        return self.prepared.masked

    @property
    def rows(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Corrupted ids, input mask and segment ids, `[B, S]` int32 each."""
        masked = self.prepared.masked
        return self.fake.input_ids, masked.input_mask, masked.segment_ids


@layers.register
class Electra(base.PretrainingModel):
    """Trains generator and discriminator together (paper, section 2).

    The generator `p_G` predicts the tokens at the masked positions `m` of `x`,
    and one token is sampled for each position (eq. 1). The discriminator `D`
    sees the text with the samples, `x_corrupt`, and predicts for every token
    whether it is the original:

        L_MLM  = mean over m of       -log p_G(x_t | x_masked)       (eq. 2)
        L_Disc = mean over tokens of  -1[x_corrupt_t  = x_t] log D(t)
                                      -1[x_corrupt_t != x_t] log(1 - D(t))
        total  = gen_weight * L_MLM + disc_weight * L_Disc           (eq. 3, 4)

    As in the original's code, the discriminator's sigmoid is the probability
    of *replaced*, 1 - D. A sample that equals the original counts as real. No
    gradient flows through the sampling.
    """

    Settings: type = Settings
    supports_disentangled = True
    ratios = accuracies.GENERATOR_RATIOS
    extra_sizes = {"kept_sampled_correct": 1, **accuracies.DETECTION_SIZES}
    is_frozen = False
    """Whether the generator is frozen, which also removes its dropout."""
    is_sampling = True
    """Whether the main network learns, from samples of the generator."""
    main_loss = "disc_loss"
    main_factor = "disc_weight"
    """The setting that is the factor of `main_loss`."""

    @classmethod
    def trained_parts(cls, convention: flops.Convention) -> flops.Operations:
        """Counts both networks."""
        return convention.generator() + cls.main_flops(convention)

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """The losses and their factors; a frozen generator's loss has 0."""
        factor = getattr(self.objective, self.main_factor)
        gen_weight = 0.0 if self.is_frozen else self.objective.gen_weight
        return {"gen_loss": gen_weight, self.main_loss: factor}

    @property
    def trained_variables(self) -> Sequence[Any]:
        """All variables, or the main network's if the generator is frozen."""
        return (self.main if self.is_frozen else self).trainable_variables

    def loss_factors(self, step: tf.Tensor) -> Mapping[str, Any]:
        """Returns the factors at a step, at which `disc_weight` may rise."""
        factors: dict[str, Any] = dict(self.loss_coefficients)
        # Some subclasses have no `disc_weight`.
        num_steps = getattr(self.objective, "disc_weight_steps", 0)
        if num_steps:
            done = tf.cast(step - self.stage_starts[-1], tf.float32)
            factors["disc_loss"] *= tf.clip_by_value(done / num_steps, 0.0, 1.0)
        return factors

    def loss_normalizers(self, prepared: base.MaskedBatch) -> step_lib.Tensors:
        """Counts the tokens that each network learns from."""
        masked = prepared.masked
        return {
            "gen_loss": tf.reduce_sum(self.generator.targets(masked).weights),
            self.main_loss: tf.reduce_sum(self.main_weights(masked)),
        }

    def main_weights(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """Returns `[B, S]` float32 weights of tokens in the main loss."""
        return tf.cast(masked.input_mask, tf.float32)

    def compute_losses(
        self, prepared: base.MaskedBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Generates, samples and discriminates; returns both losses."""
        masked = prepared.masked
        generator_seed = None if self.is_frozen else dropout_seed
        generated = self.generator(masked, generator_seed)
        fake, is_training = None, dropout_seed is not None
        if self.is_sampling:
            fake = self._get_fake_data(prepared, generated.logits, is_training)
        sampled = SampledBatch(prepared, generated, fake)
        targets = self.generator.targets(masked)
        gen_loss, token_losses = losses.masked_lm_losses(
            generated.prediction_logits, targets.ids, targets.weights
        )
        if self.settings.generator.two_tower_generator:
            # Two towers learn from all tokens; metrics count masked positions.
            token_losses = masking.gather_positions(
                token_losses, masked.masked_positions
            )
        tokens = fake.sampled_tokens if fake else None
        counts = accuracies.count_predictions(
            masked, generated.logits, token_losses, self.mask_id, tokens
        )
        main = self.compute_main_losses(sampled, dropout_seed)
        return step_lib.LossSums(
            {"gen_loss": gen_loss} | main.losses, counts | main.statistics
        )

    def _get_fake_data(
        self,
        prepared: base.MaskedBatch,
        mlm_logits: tf.Tensor,
        is_training: bool = False,
    ) -> sampling.FakeData:
        """Samples from the generator and puts the samples into the text.

        The text is the one *before* masking, so the discriminator never sees
        [MASK]. A sample that equals the original is labelled real.
        """
        masked = prepared.masked
        sampled = sampling.sample_by_stream(
            self.sampling_logits(mlm_logits, masked, is_training),
            prepared.sample_seeds,
        )
        input_ids, is_sampled = masking.scatter_update(
            masked.original_ids, sampled, masked.masked_positions
        )
        is_fake = tf.cast(input_ids != masked.original_ids, tf.int32)
        return sampling.FakeData(input_ids, is_fake, sampled, is_sampled)

    def draw_uniform(self, prepared: base.MaskedBatch) -> tf.Tensor:
        """Draws the samples' uniform numbers again, `[B, P, V]` float32."""
        seeds = prepared.sample_seeds
        batch, slots = prepared.masked.masked_positions.shape
        shape = batch // seeds.shape[0], slots, self.settings.encoder.vocab_size
        return randomness.uniform_by_stream(seeds, shape)

    def sampling_logits(
        self, logits: tf.Tensor, masked: masking.MaskedInputs, is_training: bool
    ) -> tf.Tensor:
        """Applies the temperature and `disallow_correct` to the logits."""
        objective = self.objective
        first, last = objective.temperature, objective.final_temperature
        num_steps, now = objective.temperature_steps, self.num_updates()
        if num_steps and not is_training:
            # Evaluations always use the final temperature, to be comparable.
            logits /= last
        elif num_steps or first != 1.0:
            logits /= schedules.constant_or_linear(first, last, num_steps, now)
        if objective.disallow_correct:
            vocab_size = logits.shape[-1]
            logits -= _DISALLOWED * tf.one_hot(masked.masked_ids, vocab_size)
        return logits

    def compute_main_losses(
        self, sampled: SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Computes loss and statistics of the main network."""
        logits = self.discriminate(sampled, dropout_seed).logits
        labels = sampled.fake.is_fake_tokens
        return self.detection_losses(logits, labels, sampled.masked)

    def discriminate(
        self,
        sampled: SampledBatch,
        dropout_seed: layers.Seed,
        word_offset: tf.Tensor | None = None,
    ) -> networks.DiscriminatorOutput:
        """Computes the discriminator's output for the corrupted text."""
        rows, seed = sampled.rows, base.main_seed(dropout_seed)
        if word_offset is None:
            word_offset = self.shared_words(rows[0])
        return self.main(*rows, seed, word_offset)

    def detection_losses(
        self, logits: tf.Tensor, labels: tf.Tensor, masked: masking.MaskedInputs
    ) -> step_lib.LossSums:
        """Computes loss and statistics from `[B, S]` logits and 0/1 labels."""
        weights = self.main_weights(masked)
        return step_lib.LossSums(
            {"disc_loss": losses.replaced_token_loss(logits, labels, weights)},
            accuracies.detection_statistics(logits, labels, weights),
        )
