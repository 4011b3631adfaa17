"""All-Tokens MLM: every token is predicted, most by copying."""

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
from electra_tf.training import metrics
from electra_tf.training import step as step_lib

if TYPE_CHECKING:
    from electra_tf.modeling import copying
    from electra_tf.pretraining import model as model_lib
    from electra_tf.pretraining import sampling


class AllTokensMaskedLanguageModeling(objective.Objective):
    """Predicts all tokens, with a copy mechanism (paper, section 3.5).

    The ablation between BERT and ELECTRA: the main tower sees the text with
    generator samples and predicts the identity of every token. It gives each
    a probability D of having been left alone, from a sigmoid layer, and a
    softmax over the vocabulary:

        p(x_t | x_corrupt) = D 1[x_t = x_corrupt_t] + (1 - D) softmax(x_t)
        L_All  = mean over tokens of -log p(x_t | x_corrupt)
        total  = gen_weight * L_G + main_weight * L_All

    Args:
        gen_weight: factor of the generator's loss.
        main_weight: factor of the main tower's loss.
    """

    extra_sizes = {
        **proposals.GENERATOR_SIZES,
        **proposals.RESTORATION_SIZES,
        **metrics.DETECTION_SIZES,
    }

    def __init__(
        self, gen_weight: float = 1.0, main_weight: float = 1.0
    ) -> None:
        self.gen_weight = gen_weight
        self.main_weight = main_weight

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Generator and main tower and their factors."""
        return {"gen_loss": self.gen_weight, "all_loss": self.main_weight}

    def build_main_tower(
        self, settings: config.EncoderConfig, dtype: Any
    ) -> Any:
        """A masked language model with a copy decision."""
        return towers.build_copying_masked_lm(settings, dtype)

    def loss_weights(
        self, model: "model_lib.PretrainingModel", masked: masking.MaskedInputs
    ) -> step_lib.Tensors:
        """Number of masked tokens, and of tokens that are not padding."""
        return {
            "gen_loss": tf.reduce_sum(model.generator.targets(masked).weights),
            "all_loss": tf.reduce_sum(tf.cast(masked.input_mask, tf.float32)),
        }

    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Generate, sample, predict every original from the samples."""
        masked = prepared.masked
        generated = model.generate(masked, dropout_seed)
        fake = model.corrupt(prepared, generated.logits)
        output = model.predict_all(fake, masked, dropout_seed)
        weights = tf.cast(masked.input_mask, tf.float32)
        total = losses.copying_lm_loss(
            output.logits,
            output.copy_logits,
            fake.input_ids,
            masked.original_ids,
            weights,
        )
        return objective.collect(
            {
                "gen_loss": proposals.generator_loss(
                    model.generator.targets(masked), generated
                ),
                "all_loss": objective.LossSum(total, tf.reduce_sum(weights)),
            },
            _count(output, fake, masked)
            | proposals.generator_statistics(
                masked, generated, fake.sampled_tokens, model.mask_id
            ),
        )

    def summarize_extras(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Accuracies of both towers; `1 - D` scored as a detector.

        `restored_accuracy` is that of the softmax over the vocabulary, where
        the sample that the main tower sees is wrong.
        """
        return {
            **proposals.summarize_generator(statistics),
            **proposals.summarize_restoration(statistics),
            **metrics.summarize_detection(statistics),
        }

    def inference_flops(self, convention: flops.Convention) -> float:
        """The main tower with its vocabulary head."""
        return convention.all_tokens_masked_lm()

    def training_flops(self, convention: flops.Convention, step: int) -> float:
        """Both towers, the main one with a softmax over every token."""
        del step
        return convention.trained(convention.generator()) + convention.trained(
            convention.all_tokens_masked_lm()
        )


def _count(
    output: "copying.CopyingOutput",
    fake: "sampling.FakeData",
    masked: masking.MaskedInputs,
) -> dict[str, tf.Tensor]:
    weights = tf.cast(masked.input_mask, tf.float32)
    logits = masking.gather_positions(output.logits, masked.masked_positions)
    return {
        **proposals.restoration_statistics(masked, fake.input_ids, logits),
        **metrics.detection_statistics(
            -output.copy_logits, fake.is_fake_tokens, weights
        ),
    }


def build_objective(settings: config.ExperimentConfig) -> objective.Objective:
    """The objective of a config."""
    chosen = settings.objective
    return AllTokensMaskedLanguageModeling(
        chosen.gen_weight, chosen.main_weight
    )
