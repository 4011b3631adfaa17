"""Electric: an energy model of text, by noise-contrastive estimation."""

import math
from typing import TYPE_CHECKING

import tensorflow as tf

from electra_tf import config
from electra_tf.modeling import generators
from electra_tf.pretraining import objective
from electra_tf.pretraining import sampling
from electra_tf.pretraining.objectives import electra
from electra_tf.training import step as step_lib

if TYPE_CHECKING:
    from electra_tf.pretraining import model as model_lib


class Electric(electra.ReplacedTokenDetection):
    """Noise-contrastive estimation of a cloze model (Electric, section 2).

    The main tower gives every token an energy `E(x)_t`, such that
    `p(x_t | x without t)` is proportional to `exp(-E(x)_t)`. A two-tower
    cloze model `q` proposes noise for a share k of the positions (the masking
    rate), and the energies learn to tell noise from data:

        P(noise | x, t) = k q(x_t) / (k q(x_t) + (1 - k) exp(-E(x)_t))
        logit(t)        = E(x)_t + log q(x_t | x without t) + log(k / (1 - k))

    so the pseudo-log-likelihood of a text, the sum of `-E(x)_t`, takes one
    pass. A position counts as noise wherever one was sampled, also where the
    sample equals the original. `q` learns by maximum likelihood from all
    tokens; no gradient reaches it through `log q`.

    Args:
        noise_share: k, the masking rate, 0-1.
        gen_weight: factor of the cloze model's loss.
        disc_weight: factor of the noise-contrastive loss.
    """

    def __init__(
        self,
        noise_share: float,
        gen_weight: float = 1.0,
        disc_weight: float = 50.0,
    ) -> None:
        super().__init__(gen_weight, disc_weight)
        self.log_odds = math.log(noise_share / (1.0 - noise_share))

    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Propose noise, score all tokens, contrast."""
        masked = prepared.masked
        generated = model.generate(masked, dropout_seed)
        fake = model.corrupt(prepared, generated.logits)
        energies = model.discriminate(fake, masked, dropout_seed).logits
        logits = self.noise_logits(energies, generated, fake)
        return objective.collect(
            *self.joint_losses(
                model, masked, generated, fake, logits, fake.is_sampled
            )
        )

    def noise_logits(
        self,
        energies: tf.Tensor,
        generated: generators.GeneratorOutput,
        fake: sampling.FakeData,
    ) -> tf.Tensor:
        """`E + log q + log(k / (1 - k))` for every token, `[B, S]`.

        Args:
            energies: `[B, S]` float32, of the corrupted text.
            generated: output of the two-tower cloze model.
            fake: the corrupted text.
        """
        log_q = -tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=fake.input_ids, logits=generated.prediction_logits
        )
        return energies + tf.stop_gradient(log_q) + self.log_odds


def build_objective(settings: config.ExperimentConfig) -> objective.Objective:
    """The objective of a config.

    Raises:
        ConfigError: unless the generator is the two-tower cloze model.
    """
    config.require(
        settings.generator.two_tower_generator,
        "The objective 'electric' needs the probability of every token given "
        "all others. Received: generator.two_tower_generator=False. Set "
        "--config.generator.two_tower_generator=true.",
    )
    chosen = settings.objective
    return Electric(
        settings.masking.mask_prob, chosen.gen_weight, chosen.disc_weight
    )
