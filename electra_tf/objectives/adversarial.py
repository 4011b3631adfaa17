"""Adversarial training: the generator learns to fool the discriminator."""

from collections.abc import Mapping
from typing import Annotated, Any

import keras
import tensorflow as tf

from electra_tf import config
from electra_tf.config import schema
from electra_tf.formulas import losses
from electra_tf.formulas import sampling
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.modeling import layers
from electra_tf.objectives import base
from electra_tf.objectives import electra
from electra_tf.training import schedules
from electra_tf.training import step as step_lib

_BASELINE = "reward_baseline"


@schema.frozen
class Settings(electra.SamplingSettings):
    """The section `objective` of adversarial training."""

    gen_weight: schema.NonNegative = 1.0  # of the generator's losses
    disc_weight: schema.NonNegative = 50.0  # of the discriminator's loss
    # How the reward's gradient reaches the generator.
    adversarial_estimator: Annotated[
        str, schema.one_of("reinforce", "straight_through")
    ] = "reinforce"
    # straight_through: of the soft sample that gradients flow through.
    gumbel_temperature: schema.Temperature = 1.0
    # After `gumbel_temperature_steps`.
    final_gumbel_temperature: schema.Temperature = 1.0
    gumbel_temperature_steps: schema.Count = 0  # of a linear change
    adversarial_weight: schema.NonNegative = 1.0  # against `gen_weight`
    adversarial_start_step: schema.Count = 0  # maximum likelihood until then
    # The adversarial loss alone from then on; between, a linear mixture.
    adversarial_full_step: schema.Count = 0

    def __post_init__(self) -> None:
        names = "temperature", "gumbel_temperature"
        schema.require_steps(self, "objective", *names)
        start, full = self.adversarial_start_step, self.adversarial_full_step
        config.require(
            start <= full,
            "`objective.adversarial_full_step` must be at least "
            f"`adversarial_start_step`. Received: {full} and {start}.",
        )
        config.require(
            not self.is_reinforce
            or self.gumbel_temperature == 1.0
            and not self.gumbel_temperature_steps,
            "`objective.gumbel_temperature` has no effect on the estimator "
            "'reinforce'. Leave its fields at the defaults, or set "
            "--config.objective.adversarial_estimator=straight_through.",
        )

    @property
    def is_reinforce(self) -> bool:
        """Whether the estimator is REINFORCE."""
        return self.adversarial_estimator == "reinforce"


@layers.register
class Adversarial(electra.Electra):
    """The generator maximises the discriminator's loss (Appendix F).

    The generator's loss is `(1 - a) L_MLM + a * adversarial`, where `a` goes
    from 0 at `adversarial_start_step` to 1 at `adversarial_full_step`; with
    both at 0 it is adversarial from the first step on, as in the paper. The
    log shows the two failures that it reports: a worse masked LM, low entropy.

    The sampled token has a discrete choice in its way, so its gradient is
    estimated. `reinforce` takes the paper's reward and baseline:

        R(t)  = -log D(t)        if the sample is the original
              = -log(1 - D(t))   otherwise        (D: probability of real)
        b(t)  = -log sigmoid(w . h_G(x_masked)_t)
        grad  = mean over m of grad log p_G(sample_t) [R(t) - b(t)]

    as if the reward of a position depended on its own sample alone. The
    baseline learns by cross entropy with exp(-R), the probability that the
    discriminator gave to the truth; its gradient stays out of the generator.

    `straight_through` Gumbel-softmax the paper left untried. The discriminator
    sees the sampled tokens as always: the largest of `logits / temperature +
    gumbel noise`. For the gradient, the one-hot sample stands for the softmax
    of these sums over `gumbel_temperature`, through which the discriminator's
    loss reaches the generator, reversed. The lower that temperature, the
    smaller the bias of the gradient and the larger its variance. The loss is
    the mean over all tokens, so that with the same `adversarial_weight` its
    pull is several times weaker than REINFORCE's.
    """

    Settings = Settings
    generator_heads = {
        _BASELINE: lambda _, **kwargs: layers.Linear(1, **kwargs)
    }
    supports_disentangled = False
    ratios = {
        **electra.Electra.ratios,
        "generator_entropy": ("entropy", "sampled_tokens"),
        "reward": ("reward", "sampled_tokens"),
    }

    @classmethod
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Requires a masked-LM generator and a discriminator that learns."""
        super().check_settings(settings)
        base.require_masked_lm_generator(settings)
        config.require(
            not settings.masking.draw_with_replacement,
            "The objective 'adversarial' needs one sample for a position. "
            "Received: masking.draw_with_replacement=True, which averages.",
        )
        chosen = cls.parse(settings)
        start = chosen.adversarial_start_step
        total = settings.training.num_train_steps
        config.require(
            start < total,
            "`objective.adversarial_start_step` must be below "
            "training.num_train_steps, or nothing is adversarial. Received: "
            f"adversarial_start_step={start}, num_train_steps={total}.",
        )
        config.require(
            chosen.disc_weight > 0,
            "The objective 'adversarial' needs a discriminator that learns. "
            "Received: objective.disc_weight=0.",
        )

    @classmethod
    def trained_parts(cls, convention: flops.Convention) -> flops.Operations:
        """Also the baseline, or the expected embeddings."""
        both = super().trained_parts(convention)
        if cls.parse(convention.settings).is_reinforce:
            return both + convention.reward_baseline()
        return both + convention.soft_lookup()

    def build_extras(self, dtype: Any) -> None:
        """The baseline `w` of `reinforce`, on the generator's states."""
        if self.objective.is_reinforce:
            self.baseline = layers.Linear(1, name=_BASELINE, dtype=dtype)
            self.baseline.build((None, self.generator.encoder.hidden_size))

    def adversarial_share(self, step: tf.Tensor) -> tf.Tensor:
        """`a` at a step, scalar float32 in [0, 1]."""
        start = self.objective.adversarial_start_step
        full = self.objective.adversarial_full_step
        step = tf.cast(step, tf.float32)
        if full == start:
            return tf.cast(step >= start, tf.float32)
        return tf.clip_by_value((step - start) / float(full - start), 0.0, 1.0)

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Losses and their factors; the baseline has a loss of its own."""
        factors, chosen = super().loss_coefficients, self.objective
        if not chosen.is_reinforce:
            return factors
        weight = chosen.gen_weight * chosen.adversarial_weight
        return {**factors, "adversarial_loss": weight, "baseline_loss": 1.0}

    def loss_normalizers(self, prepared: base.MaskedBatch) -> step_lib.Tensors:
        """As in joint training; the new losses are means over samples."""
        both = super().loss_normalizers(prepared)
        if self.objective.is_reinforce:
            num_masked = tf.reduce_sum(prepared.masked.masked_weights)
            both["adversarial_loss"] = both["baseline_loss"] = num_masked
        return both

    def loss_factors(self, step: tf.Tensor) -> Mapping[str, Any]:
        """The coefficients, those of the generator's losses mixed by `a`."""
        share = self.adversarial_share(step)
        factors: dict[str, Any] = dict(self.loss_coefficients)
        factors["gen_loss"] *= 1.0 - share
        if "adversarial_loss" in factors:
            factors["adversarial_loss"] *= share
        return factors

    def total_of(self, means: step_lib.Tensors) -> tf.Tensor:
        """As in joint training: the total holds no adversarial term."""
        chosen = self.objective
        total = chosen.gen_weight * means["gen_loss"]
        return total + chosen.disc_weight * means["disc_loss"]

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Discriminates, and rewards the samples."""
        masked, labels = sampled.masked, sampled.fake.is_fake_tokens
        weights = masked.masked_weights
        # Those that the samples are drawn with, `[B, P, V]`.
        logits, is_training = sampled.generated.logits, dropout_seed is not None
        logits = self.sampling_logits(logits, masked, is_training)
        log_probs = tf.nn.log_softmax(logits)
        is_reinforce = self.objective.is_reinforce
        offset = None if is_reinforce else self._relax(sampled, log_probs)
        logits = self.discriminate(sampled, dropout_seed, offset).logits
        main = self.detection_losses(logits, labels, masked)
        # The discriminator's losses at the samples.
        parts = tf.stop_gradient(losses.replaced_token_losses(logits, labels))
        rewards = masking.gather_positions(parts, masked.masked_positions)
        if is_reinforce:
            main.losses.update(self._reward_losses(sampled, log_probs, rewards))
        main.statistics.update(
            entropy=losses.compute_entropy(log_probs, weights),
            reward=tf.reduce_sum(rewards * weights),
            sampled_tokens=tf.reduce_sum(weights),
        )
        return main

    def _reward_losses(
        self,
        sampled: electra.SampledBatch,
        log_probs: tf.Tensor,
        rewards: tf.Tensor,
    ) -> step_lib.Tensors:
        """The estimate's loss and the baseline's, by `[B, P]` rewards."""
        positions = sampled.masked.masked_positions
        weights = sampled.masked.masked_weights
        (encoded,) = sampled.generated.encoder_outputs
        hidden = masking.gather_positions(
            tf.stop_gradient(encoded.sequence_output), positions
        )
        logits = self.baseline(tf.reshape(hidden, [-1, hidden.shape[-1]]))
        logits = tf.reshape(tf.cast(logits, tf.float32), positions.shape)
        tokens = sampled.fake.sampled_tokens
        log_probs = tf.gather(log_probs, tokens, batch_dims=2)
        advantages = tf.stop_gradient(rewards - tf.nn.softplus(-logits))
        chances = tf.exp(-rewards)
        policy = tf.reduce_sum(advantages * log_probs * weights)
        baseline = losses.replaced_token_loss(logits, chances, weights)
        return {"adversarial_loss": -policy, "baseline_loss": baseline}

    def _relax(
        self, sampled: electra.SampledBatch, log_probs: tf.Tensor
    ) -> tf.Tensor:
        """The relaxed samples' embeddings minus themselves, `[B, S, E]`.

        Zero in value, they are a path of the gradient to the samples.
        """
        masked, chosen = sampled.masked, self.objective
        now = self.num_updates()
        temperature = schedules.constant_or_linear(
            chosen.gumbel_temperature,
            chosen.final_gumbel_temperature,
            chosen.gumbel_temperature_steps,
            now,
        )
        noise = sampling.gumbel_noise(self.draw_uniform(sampled.prepared))
        soft = tf.nn.softmax((log_probs + noise) / temperature)
        soft *= masked.masked_weights[..., tf.newaxis]
        table = self.main.encoder.embeddings.word_embeddings
        table = tf.stop_gradient(tf.convert_to_tensor(table))
        expected = tf.tensordot(soft, table, 1)
        # disc_weight multiplies the whole loss; the generator's share of it
        # has its own factor.
        factor = self.adversarial_share(now)
        factor *= chosen.gen_weight * chosen.adversarial_weight
        expected = losses.reverse_gradient(
            expected - tf.stop_gradient(expected), factor / chosen.disc_weight
        )
        # The vectors of the slots at their positions, `[B, S, E]`.
        length = masked.original_ids.shape[1]
        places = tf.one_hot(masked.masked_positions, length)
        return tf.matmul(places, expected, transpose_a=True)


# Files of models that were saved before call it by its estimators.
keras.saving.get_custom_objects().update(
    dict.fromkeys(
        ("electra_tf>Reinforce", "electra_tf>StraightThrough"), Adversarial
    )
)
