"""Adversarial training: the generator learns to fool the discriminator."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.modeling import generators
from electra_tf.modeling import layers
from electra_tf.modeling import towers
from electra_tf.pretraining import objective
from electra_tf.pretraining import rewards as rewards_lib
from electra_tf.pretraining import sampling
from electra_tf.pretraining.objectives import electra
from electra_tf.training import metrics
from electra_tf.training import schedules
from electra_tf.training import step as step_lib

if TYPE_CHECKING:
    from electra_tf.pretraining import model as model_lib

_SIZES = {"entropy": 1, "reward": 1}


class _Adversarial(electra.ReplacedTokenDetection):
    """What both estimators share: the mixture with maximum likelihood.

    The generator's loss is `(1 - a) L_MLM + a * adversarial`, where `a` goes
    from 0 at `start_step` to 1 at `full_step`; with both at 0 it is the
    adversarial loss from the first step on, as in the paper. Entropy of the
    sampling distribution, reward and masked-LM accuracy are logged, in which
    the two failures that the paper reports can be seen: a worse masked LM (58
    against 65 % accuracy) and a distribution of low entropy.

    Args:
        estimator_weight: factor of the adversarial loss.
        start_step: last step of maximum likelihood alone.
        full_step: first step of the adversarial loss alone.
        gen_weight: factor of the generator's losses.
        disc_weight: factor of the discriminator's loss.
    """

    def __init__(
        self,
        estimator_weight: float = 1.0,
        start_step: int = 0,
        full_step: int = 0,
        gen_weight: float = 1.0,
        disc_weight: float = 50.0,
    ) -> None:
        super().__init__(gen_weight, disc_weight)
        self.estimator_weight = estimator_weight
        self.start_step = start_step
        self.full_step = full_step

    @property
    def extra_sizes(self) -> Mapping[str, int]:  # type: ignore[override]
        """Those of joint training, with entropy and reward."""
        return {**electra.ReplacedTokenDetection.extra_sizes, **_SIZES}

    def adversarial_share(self, step: tf.Tensor) -> tf.Tensor:
        """`a` at a step, scalar float32 in [0, 1]."""
        step = tf.cast(step, tf.float32)
        if self.full_step == self.start_step:
            return tf.cast(step >= self.start_step, tf.float32)
        length = float(self.full_step - self.start_step)
        return tf.clip_by_value((step - self.start_step) / length, 0.0, 1.0)

    def summarize(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """As in joint training: `loss` holds no adversarial term."""
        found = super().summarize(statistics)
        total = self.gen_weight * found["gen_loss"]
        return found | {"loss": total + self.disc_weight * found["disc_loss"]}

    def summarize_extras(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Also `generator_entropy`, in nats, and `reward`, per sample."""
        num_samples = statistics["masked_tokens"] + statistics["kept_tokens"]
        return {
            **super().summarize_extras(statistics),
            "generator_entropy": metrics.ratio(
                statistics["entropy"], num_samples
            ),
            "reward": metrics.ratio(statistics["reward"], num_samples),
        }


class Reinforce(_Adversarial):
    """REINFORCE with the paper's reward and baseline (its Appendix F).

    The generator maximises the discriminator's loss. The sampled token has a
    discrete choice in its way, so its gradient is estimated:

        R(t)  = -log D(t)        if the sample is the original
              = -log(1 - D(t))   otherwise        (D: probability of real)
        b(t)  = -log sigmoid(w . h_G(x_masked)_t)
        grad  = mean over m of grad log p_G(sample_t) [R(t) - b(t)]

    as if the reward of a position depended on its own sample alone. The
    baseline learns by cross entropy with exp(-R), the probability that the
    discriminator gave to the truth; its gradient stays out of the generator.
    """

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Losses and their factors; the baseline has a loss of its own."""
        return {
            "gen_loss": self.gen_weight,
            "adversarial_loss": self.gen_weight * self.estimator_weight,
            "baseline_loss": 1.0,
            "disc_loss": self.disc_weight,
        }

    def build_towers(
        self,
        settings: config.ExperimentConfig,
        token_counts: np.ndarray | None,
        dtype: Any,
    ) -> towers.Towers:
        """Both towers and the baseline `w`, on the generator's states."""
        built = super().build_towers(settings, token_counts, dtype)
        baseline = layers.Linear(1, name="reward_baseline", dtype=dtype)
        baseline.build((None, built.generator.encoder.hidden_size))
        return built._replace(baseline=baseline)

    def loss_weights(
        self, model: "model_lib.PretrainingModel", masked: masking.MaskedInputs
    ) -> step_lib.Tensors:
        """As in joint training; the new losses are means over samples."""
        num_masked = tf.reduce_sum(masked.masked_weights)
        return super().loss_weights(model, masked) | {
            "adversarial_loss": num_masked,
            "baseline_loss": num_masked,
        }

    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Generate, sample, discriminate; reward the samples."""
        masked = prepared.masked
        generated = model.generate(masked, dropout_seed)
        fake = model.corrupt(prepared, generated.logits)
        logits = model.discriminate(fake, masked, dropout_seed).logits
        losses, counts = self.joint_losses(
            model, masked, generated, fake, logits, fake.is_fake_tokens
        )
        rewards = rewards_lib.compute_rewards(logits, fake, masked)
        log_probs = model.sampling_log_probs(generated.logits, masked)
        baseline_logits = _baseline_logits(model, generated, masked)
        weights = masked.masked_weights
        adversarial = rewards_lib.policy_gradient_loss(
            tf.gather(log_probs, fake.sampled_tokens, batch_dims=2),
            rewards,
            tf.nn.softplus(-baseline_logits),
            weights,
        )
        baseline = rewards_lib.baseline_loss(baseline_logits, rewards, weights)
        num_masked = tf.reduce_sum(weights)
        losses |= {
            "adversarial_loss": objective.LossSum(adversarial, num_masked),
            "baseline_loss": objective.LossSum(baseline, num_masked),
        }
        share = self.adversarial_share(model.training_step_number())
        return _scale(
            objective.collect(
                losses, counts | _count(log_probs, rewards, weights)
            ),
            {"gen_loss": 1.0 - share, "adversarial_loss": share},
        )

    def training_flops(self, convention: flops.Convention, step: int) -> float:
        """Both towers and the baseline, forward and backward."""
        baseline = convention.trained(convention.reward_baseline())
        return super().training_flops(convention, step) + baseline


class StraightThrough(_Adversarial):
    """Straight-through Gumbel-softmax in place of REINFORCE.

    The discriminator sees the sampled tokens as always: the largest of
    `logits / temperature + gumbel noise`. For the gradient, the one-hot sample
    stands for the softmax of these sums over `gumbel_temperature`, through
    which the discriminator's loss reaches the generator, reversed: it is
    maximised. The lower that temperature, the smaller the bias of the gradient
    and the larger its variance. The paper left this estimator untried.

    The loss that is maximised is the mean over all tokens, where REINFORCE
    takes the mean over the masked ones: with the same `adversarial_weight` its
    pull is several times weaker.

    Args:
        gumbel_temperature: of the soft sample; a schedule is called with the
            number of updates made.
        **kwargs: as for `Reinforce`.
    """

    def __init__(
        self,
        gumbel_temperature: float | schedules.LinearSchedule = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.gumbel_temperature = gumbel_temperature

    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Generate, sample with a gradient, discriminate."""
        masked = prepared.masked
        generated = model.generate(masked, dropout_seed)
        fake = model.corrupt(prepared, generated.logits)
        share = self.adversarial_share(model.training_step_number())
        offset = self._word_offset(model, prepared, generated, share)
        logits = model.discriminate(fake, masked, dropout_seed, offset).logits
        losses, counts = self.joint_losses(
            model, masked, generated, fake, logits, fake.is_fake_tokens
        )
        counts |= _count(
            model.sampling_log_probs(generated.logits, masked),
            rewards_lib.compute_rewards(logits, fake, masked),
            masked.masked_weights,
        )
        return _scale(
            objective.collect(losses, counts), {"gen_loss": 1.0 - share}
        )

    def training_flops(self, convention: flops.Convention, step: int) -> float:
        """Both towers and the expected embeddings, forward and backward."""
        lookup = convention.trained(convention.soft_lookup())
        return super().training_flops(convention, step) + lookup

    def _word_offset(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        generated: generators.GeneratorOutput,
        share: tf.Tensor,
    ) -> tf.Tensor:
        """`[B, S, E]`, zero in value, the path of the gradient."""
        masked = prepared.masked
        uniform = model.sample_uniform(prepared.sample_seeds, masked)
        log_probs = model.sampling_log_probs(generated.logits, masked)
        temperature = self.gumbel_temperature
        if callable(temperature):
            temperature = temperature(model.training_step_number())
        noisy = log_probs + sampling.gumbel_noise(uniform)
        soft = tf.nn.softmax(noisy / temperature)
        soft *= masked.masked_weights[..., tf.newaxis]
        table = model.main.encoder.embeddings.word_embeddings
        num_rows, slots, vocab_size = soft.shape
        expected = tf.matmul(
            tf.reshape(soft, [-1, vocab_size]),
            tf.stop_gradient(tf.convert_to_tensor(table)),
        )
        expected = tf.reshape(expected, [num_rows, slots, -1])
        # disc_weight multiplies the whole loss; the generator's share of it
        # has its own factor.
        factor = share * self.gen_weight * self.estimator_weight
        expected = rewards_lib.reverse_gradient(
            expected - tf.stop_gradient(expected), factor / self.disc_weight
        )
        return _spread(expected, masked)


def _count(
    log_probs: tf.Tensor, rewards: tf.Tensor, weights: tf.Tensor
) -> dict[str, tf.Tensor]:
    return {
        "entropy": rewards_lib.compute_entropy(log_probs, weights),
        "reward": tf.reduce_sum(rewards * weights),
    }


def _scale(
    sums: step_lib.LossSums, factors: Mapping[str, tf.Tensor]
) -> step_lib.LossSums:
    """Weighs losses for training; the statistics stay as they are."""
    scaled = {name: k * sums.losses[name] for name, k in factors.items()}
    return sums._replace(losses=sums.losses | scaled)


def _spread(values: tf.Tensor, masked: masking.MaskedInputs) -> tf.Tensor:
    """Vectors `[B, P, E]` of the slots at their positions, `[B, S, E]`."""
    length = masked.original_ids.shape[1]
    places = tf.one_hot(masked.masked_positions, length)
    return tf.matmul(places, values, transpose_a=True)


def _baseline_logits(
    model: "model_lib.PretrainingModel",
    generated: generators.GeneratorOutput,
    masked: masking.MaskedInputs,
) -> tf.Tensor:
    """`w . h_G` at the masked positions, `[B, P]` float32."""
    states = tf.stop_gradient(generated.encoder_outputs[0].sequence_output)
    hidden = masking.gather_positions(states, masked.masked_positions)
    flat = tf.reshape(hidden, [-1, hidden.shape[-1]])
    logits = tf.cast(model.baseline(flat), tf.float32)
    return tf.reshape(logits, masked.masked_positions.shape)


def build_objective(settings: config.ExperimentConfig) -> objective.Objective:
    """The objective of a config.

    Raises:
        ConfigError: unless the generator is a masked LM.
    """
    chosen, generator = settings.objective, settings.generator
    config.require(
        generator.has_encoder and not generator.two_tower_generator,
        "The objective 'adversarial' needs a masked-LM generator, which can "
        "learn to fool. Received another kind in the section `generator`.",
    )
    config.require(
        not settings.masking.draw_with_replacement,
        "The objective 'adversarial' needs one sample for a position. "
        "Received: masking.draw_with_replacement=True, which averages several.",
    )
    total = settings.training.num_train_steps
    config.require(
        chosen.adversarial_start_step < total,
        "`objective.adversarial_start_step` must be below "
        "training.num_train_steps, or nothing is adversarial. Received: "
        f"adversarial_start_step={chosen.adversarial_start_step}, "
        f"num_train_steps={total}.",
    )
    config.require(
        chosen.disc_weight > 0,
        "The objective 'adversarial' needs a discriminator that learns. "
        "Received: objective.disc_weight=0.",
    )
    shared: dict[str, Any] = {
        "estimator_weight": chosen.adversarial_weight,
        "start_step": chosen.adversarial_start_step,
        "full_step": chosen.adversarial_full_step,
        "gen_weight": chosen.gen_weight,
        "disc_weight": chosen.disc_weight,
    }
    temperature = schedules.constant_or_linear(
        chosen.gumbel_temperature,
        chosen.final_gumbel_temperature,
        chosen.gumbel_temperature_steps,
    )
    if chosen.adversarial_estimator == "straight_through":
        return StraightThrough(temperature, **shared)
    config.require(
        temperature == 1.0,
        "`objective.gumbel_temperature` has no effect on the estimator "
        "'reinforce'. Leave its fields at the defaults, or set "
        "--config.objective.adversarial_estimator=straight_through.",
    )
    return Reinforce(**shared)
