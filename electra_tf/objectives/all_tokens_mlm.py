"""All-Tokens MLM, the ablation of section 3.5 that predicts every token."""

import functools

import tensorflow as tf

from electra_tf.formulas import accuracies
from electra_tf.formulas import losses
from electra_tf.inputs import masking
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.objectives import base
from electra_tf.objectives import electra
from electra_tf.objectives import replace_mlm
from electra_tf.training import step as step_lib


@layers.register
class AllTokensMLM(electra.Electra):
    """Predicts all tokens, with a copy mechanism (section 3.5).

    The main network sees the text with the generator's samples. For each token
    it computes the probability D that the token is the original, with a
    sigmoid layer, and a softmax over the vocabulary:

        p(x_t | x_corrupt) = D 1[x_t = x_corrupt_t] + (1 - D) softmax(x_t)
        L_All  = mean over tokens of -log p(x_t | x_corrupt)
        total  = gen_weight * L_G + main_weight * L_All

    Metrics of detection score `1 - D`. `restored_accuracy` scores the softmax
    at positions whose sample differs from the original.
    """

    Settings = replace_mlm.Settings
    answer = networks.Answer.COPYING
    heads = {
        "masked_lm_predictions": networks.MaskedLMHead,
        "copy_predictions": functools.partial(
            networks.TokenHead, has_hidden_layer=False
        ),
    }
    supports_disentangled = False
    ratios = accuracies.RESTORATION_RATIOS
    main_loss = "all_loss"
    main_factor = "main_weight"

    def read_rows(self, rows: layers.Inputs, seed: layers.Seed) -> tf.Tensor:
        """Computes the probabilities of replacement, `1 - D`, `[B, S]`."""
        return tf.sigmoid(-self.main(*rows, seed).copy_logits)

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Predicts the original of every token from the corrupted text."""
        seen = sampled.masked._replace(input_ids=sampled.fake.input_ids)
        weights = self.main_weights(seen)
        output = self.main(*sampled.rows, base.main_seed(dropout_seed))
        likelihoods = losses.copying_log_likelihoods(
            output.logits, output.copy_logits, seen.input_ids, seen.original_ids
        )
        slots = masking.gather_positions(output.logits, seen.masked_positions)
        detection = accuracies.detection_statistics(
            -output.copy_logits, sampled.fake.is_fake_tokens, weights
        )
        return step_lib.LossSums(
            {"all_loss": -tf.reduce_sum(likelihoods * weights)},
            accuracies.count_restored(seen, slots) | detection,
        )
