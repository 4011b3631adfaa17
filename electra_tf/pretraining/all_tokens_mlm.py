"""All-Tokens MLM: every token is predicted, most by copying."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import discriminator
from electra_tf.modeling import flops
from electra_tf.modeling import layers
from electra_tf.pretraining import electra
from electra_tf.pretraining import losses
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import replace_mlm
from electra_tf.training import metrics
from electra_tf.training import step as step_lib


@layers.register
class AllTokensMLM(electra.Electra):
    """Predicts all tokens, with a copy mechanism (paper, section 3.5).

    The ablation between BERT and ELECTRA: the main network sees the text with
    generator samples and predicts the identity of every token. It gives each
    a probability D of having been left alone, from a sigmoid layer, and a
    softmax over the vocabulary:

        p(x_t | x_corrupt) = D 1[x_t = x_corrupt_t] + (1 - D) softmax(x_t)
        L_All  = mean over tokens of -log p(x_t | x_corrupt)
        total  = gen_weight * L_G + main_weight * L_All

    `1 - D` is scored as a detector. `restored_accuracy` is that of the softmax
    over the vocabulary, where the sample that the main network sees is wrong.
    """

    extra_sizes = {
        **electra.GENERATOR_SIZES,
        **replace_mlm.RESTORATION_SIZES,
        **metrics.DETECTION_SIZES,
    }
    ratios = {**electra.GENERATOR_RATIOS, **replace_mlm.RESTORATION_RATIOS}
    main_loss = "all_loss"
    main_factor = "main_weight"

    @classmethod
    def build_main(cls, settings: config.EncoderConfig, dtype: Any) -> Any:
        """A masked language model with a copy decision."""
        return discriminator.CopyingMaskedLM(settings, dtype=dtype)

    @classmethod
    def inference_flops(cls, convention: flops.Convention) -> float:
        """The main network with a softmax over every token."""
        return convention.all_tokens_masked_lm()

    def read_rows(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Probability that each token was replaced, `1 - D`."""
        return tf.sigmoid(-self.main(*rows, dropout_seed).copy_logits)

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: tf.Tensor | None
    ) -> step_lib.LossSums:
        """Predicts every original from the samples."""
        masked, fake = sampled.masked, sampled.fake
        weights = self.main_weights(masked)
        output = self.main(*sampled.rows, model_lib.main_seed(dropout_seed))
        loss = losses.copying_lm_loss(
            output.logits,
            output.copy_logits,
            fake.input_ids,
            masked.original_ids,
            weights,
        )
        slots = masking.gather_positions(output.logits, masked.masked_positions)
        return step_lib.LossSums(
            {"all_loss": loss},
            {
                **replace_mlm.count_restored(masked, fake.input_ids, slots),
                **metrics.detection_statistics(
                    -output.copy_logits, fake.is_fake_tokens, weights
                ),
            },
        )
