"""ELECTRA: the draw from the generator, the corrupted text, both losses.

Joint replaced-token detection, the objective of the paper, and its variant
that learns from the masked-out 15 % of the tokens alone.
"""

from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import flops
from electra_tf.modeling import generators
from electra_tf.modeling import layers
from electra_tf.pretraining import losses
from electra_tf.pretraining import mlm
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import sampling
from electra_tf.training import metrics
from electra_tf.training import schedules
from electra_tf.training import step as step_lib

GENERATOR_SIZES = dict.fromkeys(
    (*mlm.COUNTS, "sampled_correct", "kept_sampled_correct"), 1
)
"""Counts of a generator; `sampled_correct` at slots that show [MASK]."""

GENERATOR_RATIOS = {
    "masked_loss": ("masked_loss", "masked_tokens"),
    "masked_accuracy": ("masked_correct", "masked_tokens"),
    "kept_accuracy": ("kept_correct", "kept_tokens"),
    "sampled_accuracy": ("sampled_correct", "masked_tokens"),
}
"""Compare the first two with `unigram_entropy` and `unigram_accuracy`."""


class SampledBatch(NamedTuple):
    """A batch with samples of the generator in it."""

    prepared: model_lib.PreparedBatch
    generated: generators.GeneratorOutput
    fake: sampling.FakeData

    @property
    def masked(self) -> masking.MaskedInputs:
        """The masked batch."""
        return self.prepared.masked

    @property
    def rows(self) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The corrupted ids, the mask and the segments, `[B, S]` each."""
        masked = self.prepared.masked
        return self.fake.input_ids, masked.input_mask, masked.segment_ids


@layers.register
class Electra(model_lib.PretrainingModel):
    """Generator and discriminator trained together (paper, section 2).

    The generator `p_G` fills the masked positions `m` of `x`; one token is
    sampled for each, and the discriminator `D` sees the text with the samples
    put in, `x_corrupt`, and says for every token whether it is the original:

        L_MLM  = mean over m of       -log p_G(x_t | x_masked)       (eq. 2)
        L_Disc = mean over tokens of  -1[x_corrupt_t  = x_t] log D(t)
                                      -1[x_corrupt_t != x_t] log(1 - D(t))
        total  = gen_weight * L_MLM + disc_weight * L_Disc           (eq. 3, 4)

    (here the sigmoid is the probability of *replaced*, as in the original's
    code). A sample that happens to equal the original counts as real. No
    gradient flows through the sampling. `disc_weight` rises from 0 over
    `disc_weight_steps`.
    """

    extra_sizes = {**GENERATOR_SIZES, **metrics.DETECTION_SIZES}
    ratios = GENERATOR_RATIOS
    main_loss = "disc_loss"
    main_factor = "disc_weight"
    """Field of `config.objective` that is the factor of `main_loss`."""

    @classmethod
    def training_flops(
        cls,
        settings: config.ExperimentConfig,
        convention: flops.Convention,
        step: int,
    ) -> float:
        """Both networks and any extras, forward and backward."""
        del settings, step
        generator = convention.trained(convention.generator())
        main = convention.trained(cls.inference_flops(convention))
        return generator + main + cls.extra_flops(convention)

    @classmethod
    def extra_flops(cls, convention: flops.Convention) -> float:
        """Operations of training on a row beside the two networks."""
        del convention
        return 0.0

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Both losses and their factors."""
        objective = self.settings.objective
        factor = getattr(objective, self.main_factor)
        return {"gen_loss": objective.gen_weight, self.main_loss: factor}

    def loss_factors(self, step: tf.Tensor) -> Mapping[str, Any]:
        """The coefficients, `disc_weight` on its way up."""
        factors: dict[str, Any] = dict(self.loss_coefficients)
        num_steps = self.settings.objective.disc_weight_steps
        if num_steps:
            done = tf.cast(step - self.phase_starts[-1], tf.float32)
            factors["disc_loss"] *= tf.clip_by_value(done / num_steps, 0.0, 1.0)
        return factors

    def loss_normalizers(
        self, prepared: model_lib.PreparedBatch
    ) -> step_lib.Tensors:
        """Number of tokens that each network learns from."""
        masked = prepared.masked
        return {
            "gen_loss": tf.reduce_sum(self.generator.targets(masked).weights),
            self.main_loss: tf.reduce_sum(self.main_weights(masked)),
        }

    def main_weights(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """Float32, 1 where the main network learns: `[B, S]`, at all tokens."""
        return tf.cast(masked.input_mask, tf.float32)

    def compute_losses(
        self, prepared: model_lib.PreparedBatch, dropout_seed: tf.Tensor | None
    ) -> step_lib.LossSums:
        """Generate, sample, discriminate; then both losses."""
        masked = prepared.masked
        generated = self.generator(masked, self.generator_seed(dropout_seed))
        fake = self._get_fake_data(prepared, generated.logits)
        targets = self.generator.targets(masked)
        gen_loss = losses.masked_lm_loss(
            generated.prediction_logits, targets.ids, targets.weights
        )
        sampled = SampledBatch(prepared, generated, fake)
        main = self.compute_main_losses(sampled, dropout_seed)
        counts = self.count_samples(masked, generated, fake.sampled_tokens)
        return step_lib.LossSums(
            {"gen_loss": gen_loss, **main.losses}, {**main.statistics, **counts}
        )

    def compute_main_losses(
        self, sampled: SampledBatch, dropout_seed: tf.Tensor | None
    ) -> step_lib.LossSums:
        """Loss and statistics of the main network."""
        logits = self.discriminate(sampled, dropout_seed)
        labels = sampled.fake.is_fake_tokens
        return self.detection_losses(logits, labels, sampled.masked)

    def detection_losses(
        self, logits: tf.Tensor, labels: tf.Tensor, masked: masking.MaskedInputs
    ) -> step_lib.LossSums:
        """The discriminator's loss for `[B, S]` logits, 1 for replaced."""
        weights = self.main_weights(masked)
        return step_lib.LossSums(
            {"disc_loss": losses.replaced_token_loss(logits, labels, weights)},
            metrics.detection_statistics(logits, labels, weights),
        )

    def generator_seed(
        self, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor | None:
        """The seed of the generator's dropout; None for none."""
        return dropout_seed

    def _get_fake_data(
        self, prepared: model_lib.PreparedBatch, mlm_logits: tf.Tensor
    ) -> sampling.FakeData:
        """Samples from the generator and puts the samples into the text.

        The input is built from the ids *before* masking, so that neither
        [MASK] nor the tokens left unmasked tell the discriminator anything; a
        sample that equals the original is labelled real.
        """
        masked = prepared.masked
        is_free = not self.settings.objective.disallow_correct
        sampled = sampling.sample_from_softmax(
            self.divide_by_temperature(mlm_logits),
            self.draw_uniform(prepared),
            disallow=None if is_free else masked.masked_ids,
        )
        input_ids, is_sampled = masking.scatter_update(
            masked.original_ids, sampled, masked.masked_positions
        )
        is_fake = tf.cast(input_ids != masked.original_ids, tf.int32)
        return sampling.FakeData(input_ids, is_fake, sampled, is_sampled)

    def draw_uniform(self, prepared: model_lib.PreparedBatch) -> tf.Tensor:
        """The uniform numbers behind the samples, `[B, P, V]` float32."""
        seeds = prepared.sample_seeds
        batch, slots = prepared.masked.masked_positions.shape
        shape = (batch // seeds.shape[0], slots, self.generator.vocab_size)
        return randomness.uniform_by_stream(seeds, shape)

    def divide_by_temperature(self, logits: tf.Tensor) -> tf.Tensor:
        """The logits that are sampled from."""
        objective = self.settings.objective
        temperature = schedules.constant_or_linear(
            objective.temperature,
            objective.final_temperature,
            objective.temperature_steps,
        )
        if callable(temperature):
            temperature = temperature(self.num_updates())
        elif temperature == 1.0:
            return logits
        return logits / temperature

    def discriminate(
        self,
        sampled: SampledBatch,
        dropout_seed: tf.Tensor | None,
        word_offset: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """The discriminator's logits `[B, S]` for the corrupted text."""
        seed = model_lib.main_seed(dropout_seed)
        return self.main(*sampled.rows, seed, word_offset).logits

    def count_samples(
        self,
        masked: masking.MaskedInputs,
        generated: generators.GeneratorOutput,
        sampled: tf.Tensor,
    ) -> dict[str, tf.Tensor]:
        """The counts of `GENERATOR_SIZES`, from best guesses and samples.

        A generator that never reads the chosen tokens (two-tower, uniform,
        unigram) is counted at the same slots: all are alike to it.
        """
        logits = generated.logits
        if not generated.encoder_outputs:
            # A fixed generator never samples what its corpus lacks, but its
            # loss does not call it impossible.
            logits = generated.prediction_logits
        shows_mask, shows_token = mlm.split_slots(masked, self.mask_id)
        return mlm.count_predictions(masked, logits, self.mask_id) | {
            "sampled_correct": mlm.count_correct(sampled, masked, shows_mask),
            "kept_sampled_correct": mlm.count_correct(
                sampled, masked, shows_token
            ),
        }


@layers.register
class Electra15(Electra):
    """The discriminator learns from the chosen positions only.

    The ablation of the paper's section 3.5 that asks whether ELECTRA gains
    from being defined over all tokens: L_Disc is the mean over the positions
    that were masked for the generator. `disc_weight` then weighs a mean over
    15 % of the tokens: each counts about seven times as much as in `Electra`.
    """

    def main_weights(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """`[B, S]` float32, 1 at the masked-out positions."""
        _, is_chosen = masking.scatter_update(
            masked.original_ids, masked.masked_ids, masked.masked_positions
        )
        return tf.cast(is_chosen, tf.float32)
