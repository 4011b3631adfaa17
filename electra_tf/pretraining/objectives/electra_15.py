"""ELECTRA-15%: the discriminator learns from the chosen positions only."""

import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.pretraining import objective
from electra_tf.pretraining import proposals
from electra_tf.pretraining.objectives import electra


class DetectionOfMaskedTokens(electra.ReplacedTokenDetection):
    """Replaced-token detection with the loss of the masked-out positions.

    The ablation of the paper's section 3.5 that asks whether ELECTRA gains
    from being defined over all tokens: the sum of L_Disc runs over `m`, the
    positions that were masked for the generator, instead of all tokens, and
    is divided by their number. Everything else is as in `electra`; its
    detection scores are over the same positions.
    """

    def judged_tokens(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """`[B, S]` float32, 1 at the masked-out positions."""
        return proposals.chosen_tokens(masked)


def build_objective(settings: config.ExperimentConfig) -> objective.Objective:
    """The objective of a config."""
    chosen = settings.objective
    return DetectionOfMaskedTokens(
        chosen.gen_weight, chosen.disc_weight, chosen.disc_weight_steps
    )
