"""Joint replaced-token detection, the objective of the paper."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.modeling import generators
from electra_tf.pretraining import losses as losses_lib
from electra_tf.pretraining import objective
from electra_tf.pretraining import proposals
from electra_tf.pretraining import sampling
from electra_tf.training import metrics
from electra_tf.training import step as step_lib

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
        disc_weight_steps: steps over which that factor rises from 0; 0 for a
            constant one.
    """

    extra_sizes = {**proposals.GENERATOR_SIZES, **metrics.DETECTION_SIZES}

    def __init__(
        self,
        gen_weight: float = 1.0,
        disc_weight: float = 50.0,
        disc_weight_steps: int = 0,
    ) -> None:
        self.gen_weight = gen_weight
        self.disc_weight = disc_weight
        self.disc_weight_steps = disc_weight_steps

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Generator and discriminator loss and their factors."""
        return {"gen_loss": self.gen_weight, "disc_loss": self.disc_weight}

    def loss_factors(self, step: tf.Tensor) -> Mapping[str, Any]:
        """The coefficients, `disc_weight` on its way up."""
        factors: dict[str, Any] = dict(self.loss_coefficients)
        if self.disc_weight_steps:
            done = tf.cast(step - self.phase_starts[-1], tf.float32)
            share = done / self.disc_weight_steps
            factors["disc_loss"] *= tf.clip_by_value(share, 0.0, 1.0)
        return factors

    def loss_weights(
        self, model: "model_lib.PretrainingModel", masked: masking.MaskedInputs
    ) -> step_lib.Tensors:
        """Number of predicted tokens, and of tokens that are judged."""
        return {
            "gen_loss": tf.reduce_sum(model.generator.targets(masked).weights),
            "disc_loss": tf.reduce_sum(self.judged_tokens(masked)),
        }

    def judged_tokens(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """`[B, S]` float32, 1 where the discriminator is trained."""
        return tf.cast(masked.input_mask, tf.float32)

    def generator_seed(
        self, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor | None:
        """The generator's dropout; None for none."""
        return dropout_seed

    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Generate, sample, discriminate; then both loss sums."""
        masked = prepared.masked
        generated = model.generate(masked, self.generator_seed(dropout_seed))
        fake = model.corrupt(prepared, generated.logits)
        logits = model.discriminate(fake, masked, dropout_seed).logits
        return objective.collect(
            *self.joint_losses(
                model, masked, generated, fake, logits, fake.is_fake_tokens
            )
        )

    def joint_losses(
        self,
        model: "model_lib.PretrainingModel",
        masked: masking.MaskedInputs,
        generated: generators.GeneratorOutput,
        fake: sampling.FakeData,
        logits: tf.Tensor,
        labels: tf.Tensor,
    ) -> tuple[dict[str, objective.LossSum], dict[str, tf.Tensor]]:
        """Both losses, and the counts behind accuracies and scores.

        Args:
            model: its generator says what it predicts.
            masked: the batch.
            generated: the generator's output.
            fake: the corrupted text.
            logits: `[B, S]` float32, the discriminator's.
            labels: `[B, S]` int32, 1 for replaced.
        """
        disc_loss, detection = self.detection_loss(logits, labels, masked)
        gen_loss = proposals.generator_loss(
            model.generator.targets(masked), generated
        )
        counts = proposals.generator_statistics(
            masked, generated, fake.sampled_tokens, model.mask_id
        )
        losses = {"gen_loss": gen_loss, "disc_loss": disc_loss}
        return losses, {**detection, **counts}

    def detection_loss(
        self,
        logits: tf.Tensor,
        labels: tf.Tensor,
        masked: masking.MaskedInputs,
    ) -> tuple[objective.LossSum, dict[str, tf.Tensor]]:
        """The discriminator's loss, and the counts behind its scores.

        Args:
            logits: `[B, S]` float32.
            labels: `[B, S]` int32, 1 for replaced.
            masked: the batch.
        """
        weights = self.judged_tokens(masked)
        total = losses_lib.replaced_token_loss(logits, labels, weights)
        statistics = metrics.detection_statistics(logits, labels, weights)
        return objective.LossSum(total, tf.reduce_sum(weights)), statistics

    def summarize_extras(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Accuracies of the generator, scores of the discriminator."""
        return {
            **proposals.summarize_generator(statistics),
            **metrics.summarize_detection(statistics),
        }

    def training_flops(self, convention: flops.Convention, step: int) -> float:
        """Both towers, forward and backward."""
        del step
        return convention.trained(convention.generator()) + convention.trained(
            convention.discriminator()
        )


def build_objective(settings: config.ExperimentConfig) -> objective.Objective:
    """The objective of a config."""
    chosen = settings.objective
    return ReplacedTokenDetection(
        chosen.gen_weight, chosen.disc_weight, chosen.disc_weight_steps
    )
