"""Joint replaced-token detection, the objective of the paper."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.pretraining import losses
from electra_tf.pretraining import objective
from electra_tf.pretraining import sampling
from electra_tf.training import metrics
from electra_tf.training import step

if TYPE_CHECKING:
    from electra_tf.pretraining import model as model_lib


class ReplacedTokenDetection(objective.Objective):
    """Generator and discriminator trained together (paper, section 2).

    The generator `p_G` fills the masked positions `m` of `x`; one token is
    sampled for each, and the discriminator `D` sees the text with the samples
    put in, `x_corrupt`, and says for every token whether it is the original:

        L_MLM  = mean over m of       -log p_G(x_t | x_masked)       (eq. 2)
        L_Disc = mean over tokens of  -1[x_corrupt_t  = x_t] log D(t)
                                      -1[x_corrupt_t != x_t] log(1 - D(t))
        total  = gen_weight * L_MLM + disc_weight * L_Disc           (eq. 3, 4)

    (here the sigmoid is the probability of *replaced*, as in the original's
    code). A sample that happens to equal the original counts as real. No
    gradient flows through the sampling.

    Args:
        gen_weight: factor of the generator's loss.
        disc_weight: factor of the discriminator's loss, lambda.
    """

    statistic_sizes = {
        "masked_loss": 1,
        "masked_tokens": 1,
        "masked_correct": 1,
        "sampled_correct": 1,
        "disc_loss": 1,
        "tokens": 1,
        **metrics.DETECTION_SIZES,
    }

    def __init__(
        self, gen_weight: float = 1.0, disc_weight: float = 50.0
    ) -> None:
        self.gen_weight = gen_weight
        self.disc_weight = disc_weight

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Generator and discriminator loss and their factors."""
        return {"gen_loss": self.gen_weight, "disc_loss": self.disc_weight}

    def loss_weights(self, masked: masking.MaskedInputs) -> step.Tensors:
        """Number of masked tokens, and of tokens that are not padding."""
        return {
            "gen_loss": tf.reduce_sum(masked.masked_weights),
            "disc_loss": tf.reduce_sum(tf.cast(masked.input_mask, tf.float32)),
        }

    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step.LossSums:
        """Generate, sample, discriminate; then both loss sums."""
        masked = prepared.masked
        gen_logits = model.generate(masked, dropout_seed).logits
        uniform = model.sample_uniform(prepared.sample_seeds, masked)
        fake = model._get_fake_data(masked, gen_logits, uniform)
        disc_logits = model.discriminate(fake, masked, dropout_seed).logits

        token_weights = tf.cast(masked.input_mask, tf.float32)
        gen_loss = losses.masked_lm_loss(
            gen_logits, masked.masked_ids, masked.masked_weights
        )
        disc_loss = losses.replaced_token_loss(
            disc_logits, fake.is_fake_tokens, token_weights
        )
        statistics = {
            "masked_loss": gen_loss,
            "disc_loss": disc_loss,
            "tokens": tf.reduce_sum(token_weights),
            **_masked_statistics(masked, gen_logits, fake),
        }
        vectors = {n: tf.reshape(s, [1]) for n, s in statistics.items()}
        return step.LossSums(
            {"gen_loss": gen_loss, "disc_loss": disc_loss},
            vectors
            | metrics.detection_statistics(
                disc_logits, fake.is_fake_tokens, token_weights
            ),
        )

    def summarize(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Means per masked token and per token, and detection scores."""
        masked = statistics["masked_tokens"]
        gen_loss = metrics.ratio(statistics["masked_loss"], masked)
        disc_loss = metrics.ratio(statistics["disc_loss"], statistics["tokens"])
        return {
            "loss": self.gen_weight * gen_loss + self.disc_weight * disc_loss,
            "gen_loss": gen_loss,
            "masked_accuracy": metrics.ratio(
                statistics["masked_correct"], masked
            ),
            "sampled_accuracy": metrics.ratio(
                statistics["sampled_correct"], masked
            ),
            "disc_loss": disc_loss,
            **metrics.summarize_detection(statistics),
        }


def _masked_statistics(
    masked: masking.MaskedInputs, logits: tf.Tensor, fake: sampling.FakeData
) -> step.Tensors:
    best = tf.argmax(logits, axis=-1, output_type=tf.int32)
    weights = masked.masked_weights

    def count(ids: tf.Tensor) -> tf.Tensor:
        is_correct = tf.cast(ids == masked.masked_ids, tf.float32)
        return tf.reduce_sum(is_correct * weights)

    return {
        "masked_tokens": tf.reduce_sum(weights),
        "masked_correct": count(best),
        "sampled_correct": count(fake.sampled_tokens),
    }
