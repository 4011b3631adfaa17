"""Masked language modeling, the objective of BERT."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.modeling import towers
from electra_tf.pretraining import losses
from electra_tf.pretraining import objective
from electra_tf.pretraining import proposals
from electra_tf.training import step as step_lib

if TYPE_CHECKING:
    from electra_tf.pretraining import model as model_lib


class MaskedLanguageModeling(objective.Objective):
    """The main encoder predicts the masked tokens (paper, section 2, eq. 2).

        L = mean over m of -log p(x_t | x_masked)

    There is no generator and no discriminator. The masks are those of the
    config: the original's code shows 85 % of the chosen tokens as [MASK] and
    keeps the others; BERT shows 80 % as [MASK], 10 % as a random token and
    keeps 10 % (`masking.replace_prob`, `masking.random_prob`).

    Args:
        weight: factor of the loss.
    """

    extra_sizes = proposals.PREDICTION_SIZES

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """The one loss."""
        return {"mlm_loss": self.weight}

    def build_towers(
        self,
        settings: config.ExperimentConfig,
        token_counts: np.ndarray | None,
        dtype: Any,
    ) -> towers.Towers:
        """The main tower alone, a masked language model."""
        main = self.build_main_tower(settings.encoder, dtype)
        return towers.Towers(None, main)

    def build_main_tower(
        self, settings: config.EncoderConfig, dtype: Any
    ) -> Any:
        """A masked language model, its head named like a generator's."""
        return towers.build_masked_lm(settings, "generator_predictions", dtype)

    def loss_weights(
        self, model: "model_lib.PretrainingModel", masked: masking.MaskedInputs
    ) -> step_lib.Tensors:
        """Number of masked tokens."""
        return {"mlm_loss": tf.reduce_sum(masked.masked_weights)}

    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Predict the masked tokens."""
        masked = prepared.masked
        logits = model.predict_masked(masked, dropout_seed).logits
        return objective.collect(
            {"mlm_loss": masked_loss(logits, masked)},
            proposals.prediction_statistics(masked, logits, model.mask_id),
        )

    def summarize_extras(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """`mlm_accuracy` and `mlm_masked_loss` at [MASK], and the others'."""
        found = proposals.summarize_predictions(statistics)
        return {
            "mlm_masked_loss": found["masked_loss"],
            "mlm_accuracy": found["masked_accuracy"],
            "mlm_kept_accuracy": found["kept_accuracy"],
        }

    def inference_flops(self, convention: flops.Convention) -> float:
        """The main tower with its vocabulary head."""
        return convention.masked_lm()

    def training_flops(self, convention: flops.Convention, step: int) -> float:
        """The main tower with its vocabulary head, forward and backward."""
        del step
        return convention.trained(convention.masked_lm())


def masked_loss(
    logits: tf.Tensor, masked: masking.MaskedInputs
) -> objective.LossSum:
    """The loss of `[B, P, V]` logits for the masked tokens."""
    total = losses.masked_lm_loss(
        logits, masked.masked_ids, masked.masked_weights
    )
    return objective.LossSum(total, tf.reduce_sum(masked.masked_weights))


def build_objective(settings: config.ExperimentConfig) -> objective.Objective:
    """The objective of a config.

    Raises:
        ConfigError: for generator settings, which would have no effect.
    """
    config.require(
        settings.generator == config.GeneratorConfig(),
        "The objective 'mlm' has no generator. Received: "
        f"{settings.generator}. Leave its section at the defaults.",
    )
    return MaskedLanguageModeling(settings.objective.gen_weight)
