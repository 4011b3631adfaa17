"""Adversarial training of the generator (paper, section 3.2, appendix F)."""

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
    # Estimator of the generator's gradient.
    adversarial_estimator: Annotated[
        str, schema.one_of("reinforce", "straight_through")
    ] = "reinforce"
    # Temperature of soft samples in straight_through; 1.0 for reinforce.
    gumbel_temperature: schema.Temperature = 1.0
    # Final value, reached linearly after `gumbel_temperature_steps`.
    final_gumbel_temperature: schema.Temperature = 1.0
    gumbel_temperature_steps: schema.Count = 0  # 0: constant
    adversarial_weight: schema.NonNegative = 1.0  # multiplies `gen_weight`
    # The generator's loss changes linearly from maximum likelihood at the
    # first of these steps to the adversarial loss at the second.
    adversarial_start_step: schema.Count = 0
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
            "'reinforce'. Leave it and its steps at the defaults, or set "
            "--config.objective.adversarial_estimator=straight_through.",
        )

    @property
    def is_reinforce(self) -> bool:
        """Whether the estimator is REINFORCE."""
        return self.adversarial_estimator == "reinforce"


@layers.register
class Adversarial(electra.Electra):
    """The generator maximizes the discriminator's loss (appendix F).

    The generator's loss is `(1 - a) L_MLM + a * adversarial`, where `a` rises
    from 0 at `adversarial_start_step` to 1 at `adversarial_full_step`. If both
    are 0, the loss is adversarial from the first step on, as in the paper.
    Metrics show the two failures that the paper reports: a less accurate masked
    LM, and a distribution of low entropy.

    Sampling has no gradient, so the gradient is estimated. `reinforce` uses the
    paper's reward and baseline:

        R(t)  = -log D(t)        if the sample is the original
              = -log(1 - D(t))   otherwise        (D: probability of real)
        b(t)  = -log sigmoid(w . h_G(x_masked)_t)
        grad  = mean over m of grad log p_G(sample_t) [R(t) - b(t)]

    This assumes that the reward of a position depends on its own sample alone.
    The baseline is trained with the cross entropy to exp(-R), the probability
    that the discriminator gave to the right label; its gradient does not reach
    the generator.

    `straight_through` is Gumbel-softmax, which the paper does not try. The
    discriminator sees the sampled tokens as usual: the largest of `logits /
    temperature + gumbel noise`. In the backward pass the softmax of these sums
    divided by `gumbel_temperature` takes the place of the one-hot sample, and
    the sign of the discriminator's gradient is reversed. A lower temperature
    gives the gradient a smaller bias and a larger variance. The loss is a mean
    over all tokens, so the same `adversarial_weight` gives gradients that are
    several times smaller than REINFORCE's.
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
            "Received: masking.draw_with_replacement=True, which may choose a "
            "position twice. Set it to False.",
        )
        objective = cls.parse(settings)
        start = objective.adversarial_start_step
        total = settings.training.num_train_steps
        config.require(
            start < total,
            "`objective.adversarial_start_step` must be below "
            "training.num_train_steps, or no step is adversarial. Received: "
            f"adversarial_start_step={start}, num_train_steps={total}.",
        )
        config.require(
            objective.disc_weight > 0,
            "The objective 'adversarial' needs an `objective.disc_weight` "
            "above 0. Received: objective.disc_weight=0.",
        )

    @classmethod
    def trained_parts(cls, convention: flops.Convention) -> flops.Operations:
        """Counts both networks and the estimator."""
        networks = super().trained_parts(convention)
        if cls.parse(convention.settings).is_reinforce:
            return networks + convention.reward_baseline()
        return networks + convention.soft_lookup()

    def build_extras(self, dtype: Any) -> None:
        """Builds the baseline `w` of `reinforce`."""
        if self.objective.is_reinforce:
            self.baseline = layers.Linear(1, name=_BASELINE, dtype=dtype)
            self.baseline.build((None, self.generator.encoder.hidden_size))

    def adversarial_share(self, step: tf.Tensor) -> tf.Tensor:
        """Returns `a` at a step, a scalar float32 in [0, 1]."""
        start = self.objective.adversarial_start_step
        full = self.objective.adversarial_full_step
        step = tf.cast(step, tf.float32)
        if full == start:
            return tf.cast(step >= start, tf.float32)
        return tf.clip_by_value((step - start) / float(full - start), 0.0, 1.0)

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """The losses and their factors, also of the baseline's loss."""
        factors, objective = super().loss_coefficients, self.objective
        if not objective.is_reinforce:
            return factors
        weight = objective.gen_weight * objective.adversarial_weight
        return {**factors, "adversarial_loss": weight, "baseline_loss": 1.0}

    def loss_normalizers(self, prepared: base.MaskedBatch) -> step_lib.Tensors:
        """Adds the number of samples, the divisor of REINFORCE's losses."""
        counts = super().loss_normalizers(prepared)
        if self.objective.is_reinforce:
            num_masked = tf.reduce_sum(prepared.masked.masked_weights)
            counts["adversarial_loss"] = counts["baseline_loss"] = num_masked
        return counts

    def loss_factors(self, step: tf.Tensor) -> Mapping[str, Any]:
        """Returns the factors at a step; `a` mixes the generator's losses."""
        share = self.adversarial_share(step)
        factors: dict[str, Any] = dict(self.loss_coefficients)
        factors["gen_loss"] *= 1.0 - share
        if "adversarial_loss" in factors:
            factors["adversarial_loss"] *= share
        return factors

    def total_of(self, means: step_lib.Tensors) -> tf.Tensor:
        """Computes ELECTRA's total loss, without the adversarial terms."""
        objective = self.objective
        total = objective.gen_weight * means["gen_loss"]
        return total + objective.disc_weight * means["disc_loss"]

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Computes the discriminator's loss and the rewards of the samples."""
        masked, labels = sampled.masked, sampled.fake.is_fake_tokens
        weights = masked.masked_weights
        # The samples were drawn from these logits, `[B, P, V]`.
        logits, is_training = sampled.generated.logits, dropout_seed is not None
        logits = self.sampling_logits(logits, masked, is_training)
        log_probs = tf.nn.log_softmax(logits)
        is_reinforce = self.objective.is_reinforce
        offset = None if is_reinforce else self._relax(sampled, log_probs)
        logits = self.discriminate(sampled, dropout_seed, offset).logits
        main = self.detection_losses(logits, labels, masked)
        # R(t) is the discriminator's loss at a sample.
        rewards = masking.gather_positions(
            tf.stop_gradient(losses.replaced_token_losses(logits, labels)),
            masked.masked_positions,
        )
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
        """Returns zeros with the gradient of the soft samples' embeddings.

        Added to the token embeddings, `[B, S, E]`, they change no value.
        """
        masked, objective = sampled.masked, self.objective
        now = self.num_updates()
        temperature = schedules.constant_or_linear(
            objective.gumbel_temperature,
            objective.final_gumbel_temperature,
            objective.gumbel_temperature_steps,
            now,
        )
        noise = sampling.gumbel_noise(self.draw_uniform(sampled.prepared))
        soft = tf.nn.softmax((log_probs + noise) / temperature)
        soft *= masked.masked_weights[..., tf.newaxis]
        table = self.main.encoder.embeddings.word_embeddings
        table = tf.stop_gradient(tf.convert_to_tensor(table))
        expected = tf.tensordot(soft, table, 1)
        # The discriminator's loss will be multiplied by `disc_weight`.
        factor = self.adversarial_share(now)
        factor *= objective.gen_weight * objective.adversarial_weight
        expected = losses.reverse_gradient(
            expected - tf.stop_gradient(expected),
            factor / objective.disc_weight,
        )
        length = masked.original_ids.shape[1]
        one_hot = tf.one_hot(masked.masked_positions, length)
        return tf.matmul(one_hot, expected, transpose_a=True)


# Older releases saved models under a name for each estimator.
keras.saving.get_custom_objects().update(
    dict.fromkeys(
        ("electra_tf>Reinforce", "electra_tf>StraightThrough"), Adversarial
    )
)
