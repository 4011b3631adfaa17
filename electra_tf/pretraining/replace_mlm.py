"""Replace-MLM: masked language modeling without [MASK] in the input."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.modeling import layers
from electra_tf.modeling import towers
from electra_tf.pretraining import electra
from electra_tf.pretraining import losses
from electra_tf.pretraining import mlm
from electra_tf.pretraining import model as model_lib
from electra_tf.training import step as step_lib

RESTORATION_SIZES = {"replaced_tokens": 1, "restored_tokens": 1}
"""Chosen slots whose sample is wrong, and those of them guessed right."""

RESTORATION_RATIOS = {
    "restored_accuracy": ("restored_tokens", "replaced_tokens")
}


@layers.register
class ReplaceMLM(electra.Electra):
    """Predicts masked tokens from generator samples (paper, section 3.5).

    The ablation that asks whether ELECTRA gains from never showing [MASK] to
    the encoder that is kept: it is trained as a masked language model, on the
    positions `m` only, but these hold samples of the generator instead of
    [MASK].

        L_G    = mean over m of -log p_G(x_t | x_masked)
        L_MLM  = mean over m of -log p(x_t | x_corrupt)
        total  = gen_weight * L_G + main_weight * L_MLM

    The main network never sees [MASK]: `restored_accuracy` is counted where
    the sample that it sees is wrong, and must be undone.
    """

    extra_sizes = {**electra.GENERATOR_SIZES, **RESTORATION_SIZES}
    ratios = {**electra.GENERATOR_RATIOS, **RESTORATION_RATIOS}
    main_loss = "mlm_loss"
    main_factor = "main_weight"

    @classmethod
    def build_main(cls, settings: config.EncoderConfig, dtype: Any) -> Any:
        """A masked language model."""
        return towers.build_masked_lm(settings, "masked_lm_predictions", dtype)

    @classmethod
    def inference_flops(cls, convention: flops.Convention) -> float:
        """The main network with its vocabulary head."""
        return convention.masked_lm()

    def main_weights(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """`[B, P]` float32, 1 in the used slots."""
        return masked.masked_weights

    def read_rows(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None
    ) -> tf.Tensor:
        """Probabilities of the vocabulary, `[B, S, V]` float32."""
        return tf.nn.softmax(self.main.score_tokens(rows, dropout_seed))

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: tf.Tensor | None
    ) -> step_lib.LossSums:
        """Predicts the originals of the masked tokens from the samples."""
        shown_ids = sampled.fake.input_ids
        seen = sampled.masked._replace(input_ids=shown_ids)
        logits = self.main(seen, model_lib.main_seed(dropout_seed)).logits
        loss = losses.masked_lm_loss(
            logits, seen.masked_ids, seen.masked_weights
        )
        return step_lib.LossSums(
            {"mlm_loss": loss}, count_restored(seen, shown_ids, logits)
        )


def count_restored(
    masked: masking.MaskedInputs, shown_ids: tf.Tensor, logits: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The counts of `RESTORATION_SIZES`, for a network that saw `shown_ids`."""
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    shown = tf.gather(shown_ids, masked.masked_positions, batch_dims=1)
    is_wrong = tf.cast(shown != masked.masked_ids, tf.float32)
    is_wrong *= masked.masked_weights
    return {
        "replaced_tokens": tf.reduce_sum(is_wrong),
        "restored_tokens": mlm.count_correct(best, masked, is_wrong),
    }
