"""Replace-MLM: masked language modeling without [MASK] in the input."""

from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.modeling import towers
from electra_tf.pretraining import objective
from electra_tf.pretraining import proposals
from electra_tf.pretraining.objectives import mlm
from electra_tf.training import step as step_lib

if TYPE_CHECKING:
    from electra_tf.pretraining import model as model_lib


class ReplacedMaskedLanguageModeling(objective.Objective):
    """Predicts masked tokens from generator samples (paper, section 3.5).

    The ablation that asks whether ELECTRA gains from never showing [MASK] to
    the encoder that is kept: it is trained as a masked language model, on the
    positions `m` only, but these hold samples of the generator instead of
    [MASK].

        L_G    = mean over m of -log p_G(x_t | x_masked)
        L_MLM  = mean over m of -log p(x_t | x_corrupt)
        total  = gen_weight * L_G + main_weight * L_MLM

    Args:
        gen_weight: factor of the generator's loss.
        main_weight: factor of the main tower's loss.
    """

    extra_sizes = {
        **proposals.GENERATOR_SIZES,
        **proposals.RESTORATION_SIZES,
    }

    def __init__(
        self, gen_weight: float = 1.0, main_weight: float = 1.0
    ) -> None:
        self.gen_weight = gen_weight
        self.main_weight = main_weight

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Generator and main tower and their factors."""
        return {"gen_loss": self.gen_weight, "mlm_loss": self.main_weight}

    def build_main_tower(
        self, settings: config.EncoderConfig, dtype: Any
    ) -> Any:
        """A masked language model."""
        return towers.build_masked_lm(settings, "masked_lm_predictions", dtype)

    def loss_weights(
        self, model: "model_lib.PretrainingModel", masked: masking.MaskedInputs
    ) -> step_lib.Tensors:
        """Number of predicted tokens of each tower."""
        return {
            "gen_loss": tf.reduce_sum(model.generator.targets(masked).weights),
            "mlm_loss": tf.reduce_sum(masked.masked_weights),
        }

    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Generate, sample, predict the originals from the samples."""
        masked = prepared.masked
        generated = model.generate(masked, dropout_seed)
        fake = model.corrupt(prepared, generated.logits)
        seen = masked._replace(input_ids=fake.input_ids)
        logits = model.predict_masked(seen, dropout_seed).logits
        statistics = proposals.generator_statistics(
            masked, generated, fake.sampled_tokens, model.mask_id
        )
        return objective.collect(
            {
                "gen_loss": proposals.generator_loss(
                    model.generator.targets(masked), generated
                ),
                "mlm_loss": mlm.masked_loss(logits, masked),
            },
            statistics
            | proposals.restoration_statistics(masked, fake.input_ids, logits),
        )

    def summarize_extras(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Accuracies of the generator; `restored_accuracy` of the main tower.

        The main tower never sees [MASK]: it is counted where the sample that
        it sees is wrong, and must be undone.
        """
        return {
            **proposals.summarize_generator(statistics),
            **proposals.summarize_restoration(statistics),
        }

    def inference_flops(self, convention: flops.Convention) -> float:
        """The main tower with its vocabulary head."""
        return convention.masked_lm()

    def training_flops(self, convention: flops.Convention, step: int) -> float:
        """Both towers, forward and backward."""
        del step
        return convention.trained(convention.generator()) + convention.trained(
            convention.masked_lm()
        )


def build_objective(settings: config.ExperimentConfig) -> objective.Objective:
    """The objective of a config."""
    chosen = settings.objective
    return ReplacedMaskedLanguageModeling(chosen.gen_weight, chosen.main_weight)
