"""Masked language modeling, BERT's objective and the paper's baseline."""

from collections.abc import Mapping

import tensorflow as tf

from electra_tf.config import schema
from electra_tf.formulas import accuracies
from electra_tf.formulas import losses
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.objectives import base
from electra_tf.training import step as step_lib


@schema.frozen
class Settings(base.Settings):
    """The section `objective` of masked language modeling."""

    gen_weight: schema.NonNegative = 1.0  # multiplies the loss


@layers.register
class MaskedLM(base.PretrainingModel):
    """Predicts the masked tokens (paper, section 2, eq. 2).

        L = mean over m of -log p(x_t | x_masked)

    The original's code replaces 85 % of the chosen tokens by [MASK] and keeps
    the others. BERT replaces 80 % by [MASK] and 10 % by random tokens
    (`masking.replace_prob`, `masking.random_prob`).
    """

    Settings = Settings
    answer = networks.Answer.MASKED_LM
    heads = {"generator_predictions": networks.MaskedLMHead}
    has_generator = False
    ratios = {
        "mlm_masked_loss": ("masked_loss", "masked_tokens"),
        "mlm_accuracy": ("masked_correct", "masked_tokens"),
        "mlm_kept_accuracy": ("kept_correct", "kept_tokens"),
    }

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """The loss and its factor."""
        return {"mlm_loss": self.objective.gen_weight}

    def loss_normalizers(self, prepared: base.MaskedBatch) -> step_lib.Tensors:
        """Counts the masked tokens."""
        return {"mlm_loss": tf.reduce_sum(prepared.masked.masked_weights)}

    def compute_losses(
        self, prepared: base.MaskedBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Computes the loss of predicting the masked tokens."""
        masked = prepared.masked
        logits = self.main(masked, base.main_seed(dropout_seed)).logits
        loss, losses_by_slot = losses.masked_lm_losses(
            logits, masked.masked_ids, masked.masked_weights
        )
        counts = accuracies.count_predictions(
            masked, logits, losses_by_slot, self.mask_id
        )
        return step_lib.LossSums({"mlm_loss": loss}, counts)
