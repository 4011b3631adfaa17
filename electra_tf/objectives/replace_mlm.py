"""Replace MLM, the ablation of section 3.5 that predicts without [MASK]."""

import tensorflow as tf

from electra_tf.config import schema
from electra_tf.formulas import accuracies
from electra_tf.formulas import losses
from electra_tf.inputs import masking
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.objectives import base
from electra_tf.objectives import electra
from electra_tf.training import step as step_lib


@schema.frozen
class Settings(electra.SamplingSettings):
    """The section `objective` of Replace MLM."""

    gen_weight: schema.NonNegative = 1.0  # of the generator's loss
    main_weight: schema.NonNegative = 1.0  # of the main network's loss


@layers.register
class ReplaceMLM(electra.Electra):
    """Predicts masked tokens from the generator's samples (section 3.5).

    The variant shows what ELECTRA gains because its main network never sees
    [MASK]: it trains a masked language model on the positions `m`, which hold
    samples of the generator instead of [MASK].

        L_G    = mean over m of -log p_G(x_t | x_masked)
        L_MLM  = mean over m of -log p(x_t | x_corrupt)
        total  = gen_weight * L_G + main_weight * L_MLM

    `restored_accuracy` counts positions whose sample differs from the original.
    """

    Settings = Settings
    answer = networks.Answer.CORRECTION
    heads = {"masked_lm_predictions": networks.MaskedLMHead}
    supports_disentangled = False
    ratios = accuracies.RESTORATION_RATIOS
    extra_sizes = {"kept_sampled_correct": 1}
    main_loss = "mlm_loss"
    main_factor = "main_weight"

    def main_weights(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """Returns `[B, P]` float32 weights, 0 for unused slots."""
        return masked.masked_weights

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Predicts the originals of the masked tokens."""
        seen = sampled.masked._replace(input_ids=sampled.fake.input_ids)
        logits = self.main(seen, base.main_seed(dropout_seed)).logits
        counts = accuracies.count_restored(seen, logits)
        loss = losses.masked_lm_loss(
            logits, seen.masked_ids, seen.masked_weights
        )
        return step_lib.LossSums({"mlm_loss": loss}, counts)
