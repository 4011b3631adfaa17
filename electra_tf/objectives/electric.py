"""Electric, an energy-based cloze model (Clark et al., EMNLP 2020)."""

import math

import tensorflow as tf

from electra_tf import config
from electra_tf.config import schema
from electra_tf.inputs import masking
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.objectives import base
from electra_tf.objectives import electra
from electra_tf.training import step as step_lib


@schema.frozen
class Settings(base.Settings):
    """The section `objective` of Electric.

    It has no temperature, because the loss contains the probabilities with
    which noise is drawn.
    """

    gen_weight: schema.NonNegative = 1.0  # of the cloze model's loss
    disc_weight: schema.NonNegative = 50.0  # of the contrastive loss


@layers.register
class Electric(electra.Electra):
    """Learns energies by noise-contrastive estimation (Electric, section 2).

    The main network computes an energy `E(x)_t` for every token, such that
    `p(x_t | x without t)` is proportional to `exp(-E(x)_t)`. A two-tower
    cloze model `q` proposes noise for a share k of the positions (the masking
    rate), and the energies learn to tell noise from data:

        P(noise | x, t) = k q(x_t) / (k q(x_t) + (1 - k) exp(-E(x)_t))
        logit(t)        = E(x)_t + log q(x_t | x without t) + log(k / (1 - k))

    so the pseudo-log-likelihood of a text, the sum of `-E(x)_t`, takes one
    pass. Every sampled position counts as noise, even if the sample equals the
    original. `q` learns by maximum likelihood from all tokens; no gradient
    reaches it through `log q`.
    """

    Settings = Settings
    answer = networks.Answer.ENERGY
    required_generator = {"two_tower_generator": True}
    supports_disentangled = False

    @classmethod
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Requires that each token becomes noise with one probability."""
        super().check_settings(settings)
        # The cloze model never sees [MASK], so these change metrics alone.
        free = {"mask_prob", "replace_prob", "random_prob"}
        changed = schema.find_changed(settings.masking).keys() - free
        config.require(
            not changed,
            "The objective 'electric' draws noise for each token by itself, "
            "with probability `mask_prob`. Received in `masking`: "
            f"{sorted(changed)}. Leave these fields at their defaults.",
        )

    def sampling_logits(
        self, logits: tf.Tensor, masked: masking.MaskedInputs, is_training: bool
    ) -> tf.Tensor:
        """Returns the logits of `q` unchanged, because noise follows `q`."""
        return logits

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Computes the loss of telling noise from data at all tokens."""
        energies = self.discriminate(sampled, dropout_seed).logits
        log_q = -tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=sampled.fake.input_ids,
            logits=sampled.generated.prediction_logits,
        )
        share = self.settings.masking.mask_prob
        log_odds = math.log(share / (1.0 - share))
        logits = energies + tf.stop_gradient(log_q) + log_odds
        labels = sampled.fake.is_sampled
        return self.detection_losses(logits, labels, sampled.masked)
