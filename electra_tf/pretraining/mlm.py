"""Masked language modeling, the objective of BERT, and its accuracies.

A chosen slot shows [MASK], or its own token, where being right is no sign of
learning, or a random one. [MASK] is counted apart: its accuracy alone compares
with the corpus' unigram baseline.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import layers
from electra_tf.modeling import networks
from electra_tf.pretraining import losses
from electra_tf.pretraining import model as model_lib
from electra_tf.training import step as step_lib


@layers.register
class MaskedLM(model_lib.PretrainingModel):
    """The main encoder predicts the masked tokens (paper, section 2, eq. 2).

        L = mean over m of -log p(x_t | x_masked)

    There is no generator and no discriminator. The masks are those of the
    config: the original's code shows 85 % of the chosen tokens as [MASK] and
    keeps the others; BERT shows 80 % as [MASK], 10 % as a random token and
    keeps 10 % (`masking.replace_prob`, `masking.random_prob`). `gen_weight`
    is the factor of the loss.
    """

    ratios = {
        "mlm_masked_loss": ("masked_loss", "masked_tokens"),
        "mlm_accuracy": ("masked_correct", "masked_tokens"),
        "mlm_kept_accuracy": ("kept_correct", "kept_tokens"),
    }
    main_part = "masked_lm"

    @classmethod
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Refuses generator settings, which would have no effect."""
        config.require(
            settings.generator == config.GeneratorConfig(),
            "The objective 'mlm' has no generator. Received: "
            f"{settings.generator}. Leave its section at the defaults.",
        )

    @classmethod
    def build_main(cls, settings: config.EncoderConfig, dtype: Any) -> Any:
        """A masked language model, its head named like a generator's."""
        return networks.MaskedLMGenerator(
            settings, encoder_name=networks.MAIN_ENCODER, dtype=dtype
        )

    @classmethod
    def build_generator(cls, *arguments: Any) -> None:
        """There is none."""

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """The one loss."""
        return {"mlm_loss": self.settings.objective.gen_weight}

    def loss_normalizers(
        self, prepared: model_lib.PreparedBatch
    ) -> step_lib.Tensors:
        """Number of masked tokens."""
        return {"mlm_loss": tf.reduce_sum(prepared.masked.masked_weights)}

    def compute_losses(
        self, prepared: model_lib.PreparedBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Predict the masked tokens."""
        masked = prepared.masked
        logits = self.main(masked, model_lib.main_seed(dropout_seed)).logits
        loss, parts = losses.masked_lm_losses(
            logits, masked.masked_ids, masked.masked_weights
        )
        counts = count_predictions(masked, logits, parts, self.mask_id)
        return step_lib.LossSums({"mlm_loss": loss}, counts)


def count_predictions(
    masked: masking.MaskedInputs,
    logits: tf.Tensor,
    parts: tf.Tensor,
    mask_id: int,
    sampled: tf.Tensor | None = None,
) -> dict[str, tf.Tensor]:
    """Counts at slots that show [MASK] (`masked_`), and at others (`kept_`).

    From `[B, P, V]` logits, the `[B, P]` losses, and samples if there are any.
    """
    shown = tf.gather(masked.input_ids, masked.masked_positions, batch_dims=1)
    shows_mask = masked.masked_weights * tf.cast(shown == mask_id, tf.float32)
    shows_token = masked.masked_weights - shows_mask
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    counts = {
        "masked_tokens": tf.reduce_sum(shows_mask),
        "masked_loss": tf.reduce_sum(parts * shows_mask),
        "masked_correct": count_correct(best, masked, shows_mask),
        "kept_tokens": tf.reduce_sum(shows_token),
        "kept_correct": count_correct(best, masked, shows_token),
    }
    if sampled is not None:
        counts |= {
            "sampled_correct": count_correct(sampled, masked, shows_mask),
            "kept_sampled_correct": count_correct(sampled, masked, shows_token),
        }
    return counts


def count_correct(
    ids: tf.Tensor, masked: masking.MaskedInputs, weights: tf.Tensor
) -> tf.Tensor:
    """How many of `[B, P]` ids are the original tokens; scalar float32."""
    is_correct = tf.cast(ids == masked.masked_ids, tf.float32)
    return tf.reduce_sum(is_correct * weights)
