"""Electric: an energy model of text, by noise-contrastive estimation."""

import math

import tensorflow as tf

from electra_tf import config
from electra_tf.modeling import layers
from electra_tf.pretraining import electra
from electra_tf.training import step as step_lib


@layers.register
class Electric(electra.Electra):
    """Noise-contrastive estimation of a cloze model (Electric, section 2).

    The main network gives every token an energy `E(x)_t`, such that
    `p(x_t | x without t)` is proportional to `exp(-E(x)_t)`. A two-tower
    cloze model `q` proposes noise for a share k of the positions (the masking
    rate), and the energies learn to tell noise from data:

        P(noise | x, t) = k q(x_t) / (k q(x_t) + (1 - k) exp(-E(x)_t))
        logit(t)        = E(x)_t + log q(x_t | x without t) + log(k / (1 - k))

    so the pseudo-log-likelihood of a text, the sum of `-E(x)_t`, takes one
    pass. A position counts as noise wherever one was sampled, also where the
    sample equals the original. `q` learns by maximum likelihood from all
    tokens; no gradient reaches it through `log q`.
    """

    @classmethod
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Requires the two-tower cloze model as generator."""
        config.require(
            settings.generator.two_tower_generator,
            "The objective 'electric' needs the probability of every token "
            "given all others. Received: generator.two_tower_generator=False. "
            "Set --config.generator.two_tower_generator=true.",
        )

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: tf.Tensor | None
    ) -> step_lib.LossSums:
        """Scores all tokens and contrasts noise with data."""
        energies = self.discriminate(sampled, dropout_seed)
        log_q = -tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=sampled.fake.input_ids,
            logits=sampled.generated.prediction_logits,
        )
        share = self.settings.masking.mask_prob
        log_odds = math.log(share / (1.0 - share))
        logits = energies + tf.stop_gradient(log_q) + log_odds
        labels = sampled.fake.is_sampled
        return self.detection_losses(logits, labels, sampled.masked)
