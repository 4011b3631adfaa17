"""The pre-training model: two towers, dynamic masks, one objective.

    batch [B, S] --mask--> generator --sample--> corrupted ids, labels
                                                     `--> discriminator

`build_pretraining_model` makes one from a config. It trains in our loop and,
for a Keras user, with plain `compile` and `fit` on `[B, S]` features.
"""

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.inputs import randomness
from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.modeling import generators
from electra_tf.modeling import towers
from electra_tf.pretraining import electra
from electra_tf.pretraining import objective as objective_lib
from electra_tf.pretraining import sampling
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import averaging
from electra_tf.training import loss_scaling
from electra_tf.training import step as step_lib

OBJECTIVES: Mapping[
    str, Callable[[config.ObjectiveConfig], objective_lib.Objective]
] = {
    "electra": lambda settings: electra.ReplacedTokenDetection(
        settings.gen_weight, settings.disc_weight
    ),
}
"""Objective name to what builds it from its section of the config."""

# Dropout sites of the discriminator come after those of the generator.
_DISCRIMINATOR_SITES = 512


class PretrainingModel(step_lib.TrainableModel):
    """ELECTRA's two towers and what they learn (paper, section 2).

    Args:
        generator: proposes tokens for masked positions.
        discriminator: says which tokens were replaced.
        objective: losses and metrics.
        special_ids: ids never masked: [CLS], [SEP] and [MASK].
        mask_id: id of [MASK].
        mask_settings: how many positions, how shown.
        temperature: divides the generator's logits before sampling.
        disallow_correct: never sample the original token.
        **kwargs: `seed`, `num_micro_batches`, `clip_norm`,
            `means_per_replica` of the training step.

    Call arguments:
        features: `input_ids`, `input_mask`, `segment_ids`, `[B, S]` int32.

    Returns:
        `[B, S]` float32, the discriminator's probability that each token was
        replaced, for text that is taken as it is.
    """

    def __init__(
        self,
        generator: Any,
        discriminator: discriminator_lib.Discriminator,
        objective: objective_lib.Objective,
        special_ids: tuple[int, ...],
        mask_id: int,
        mask_settings: config.MaskingConfig,
        temperature: float = 1.0,
        disallow_correct: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.generator = generator
        self.discriminator = discriminator
        self.objective = objective
        self.special_ids = special_ids
        self.mask_id = mask_id
        self.mask_settings = mask_settings
        self.temperature = temperature
        self.disallow_correct = disallow_correct
        self.built = True

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """Loss name to its factor, for example `gen_weight`."""
        return self.objective.loss_coefficients

    @property
    def statistic_sizes(self) -> Mapping[str, int]:
        """Statistic name to the length of its vector."""
        return self.objective.statistic_sizes

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> objective_lib.PreparedBatch:
        """Masks a batch; masks and samples follow (seed, step, stream).

        Args:
            features: `[n, k, S]` int32 tensors, and `stream_ids` `[n]` int64.
            step: scalar int64.
            is_training: False gives the masks of held-out data.
        """
        length = features["input_ids"].shape[-1]
        rows = features["input_ids"].shape[1]
        slots = masking.max_predictions_per_seq(
            self.mask_settings.mask_prob, length
        )

        def seeds(purpose: int) -> tf.Tensor:
            if not is_training:
                purpose += randomness.EVALUATION
            return randomness.stream_seeds(
                self.seed, purpose, step, features["stream_ids"]
            )

        inputs = {
            name: tf.reshape(features[name], [-1, length])
            for name in ("input_ids", "input_mask", "segment_ids")
        }
        draw_fn = masking.draw_positions
        if self.mask_settings.draw_with_replacement:
            draw_fn = masking.draw_positions_with_replacement
        masked = masking.mask_inputs(
            inputs,
            randomness.uniform_by_stream(
                seeds(randomness.MASK_POSITIONS), (rows, length)
            ),
            randomness.uniform_by_stream(
                seeds(randomness.MASK_REPLACEMENT), (rows, slots)
            ),
            special_ids=self.special_ids,
            mask_id=self.mask_id,
            mask_prob=self.mask_settings.mask_prob,
            replace_prob=self.mask_settings.replace_prob,
            draw_fn=draw_fn,
        )
        return objective_lib.PreparedBatch(
            masked, seeds(randomness.GENERATOR_SAMPLE)
        )

    def loss_weights(
        self, prepared: objective_lib.PreparedBatch
    ) -> step_lib.Tensors:
        """Loss name to the scalar that its sum is divided by."""
        return self.objective.loss_weights(prepared.masked)

    def compute_losses(
        self,
        prepared: objective_lib.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """Loss sums and statistics of one micro-batch."""
        return self.objective.compute_losses(self, prepared, dropout_seed)

    def summarize(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Metrics from added-up statistics; `loss` is the total."""
        return self.objective.summarize(statistics)

    def generate(
        self, masked: masking.MaskedInputs, dropout_seed: tf.Tensor | None
    ) -> generators.GeneratorOutput:
        """The generator's logits `[B, P, V]` for the masked positions."""
        return self.generator(masked, dropout_seed)

    def sample_uniform(
        self, seeds: tf.Tensor, masked: masking.MaskedInputs
    ) -> tf.Tensor:
        """The uniform numbers behind the samples, `[B, P, V]` float32."""
        batch, slots = masked.masked_positions.shape
        shape = (batch // seeds.shape[0], slots, self.generator.vocab_size)
        return randomness.uniform_by_stream(seeds, shape)

    def sample_from_softmax(
        self,
        logits: tf.Tensor,
        uniform: tf.Tensor,
        disallow: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Gumbel draw at this model's temperature, `[B, P]` int32.

        See `sampling.sample_from_softmax`, whose arguments these are.
        """
        if self.temperature != 1.0:
            logits = logits / self.temperature
        return sampling.sample_from_softmax(logits, uniform, disallow)

    def _get_fake_data(
        self,
        masked: masking.MaskedInputs,
        mlm_logits: tf.Tensor,
        uniform: tf.Tensor,
    ) -> sampling.FakeData:
        """Puts generator samples into the original text.

        The input is built from the ids *before* masking, so that neither
        [MASK] nor the tokens left unmasked tell the discriminator anything; a
        sample that equals the original is labelled real.

        Args:
            masked: the masked batch.
            mlm_logits: `[B, P, V]` float32.
            uniform: `[B, P, V]` float32 in [0, 1).
        """
        disallow = masked.masked_ids if self.disallow_correct else None
        sampled = self.sample_from_softmax(mlm_logits, uniform, disallow)
        input_ids, _ = masking.scatter_update(
            masked.original_ids, sampled, masked.masked_positions
        )
        is_fake = tf.cast(input_ids != masked.original_ids, tf.int32)
        return sampling.FakeData(input_ids, is_fake, sampled)

    def discriminate(
        self,
        fake: sampling.FakeData,
        masked: masking.MaskedInputs,
        dropout_seed: tf.Tensor | None,
    ) -> discriminator_lib.DiscriminatorOutput:
        """The discriminator's logits `[B, S]` for the corrupted text."""
        if dropout_seed is not None:
            sites = tf.constant([0, _DISCRIMINATOR_SITES], tf.int64)
            dropout_seed = dropout_seed + sites
        return self.discriminator(
            fake.input_ids, masked.input_mask, masked.segment_ids, dropout_seed
        )

    def call(self, features: step_lib.Tensors) -> tf.Tensor:
        """Probability that each token of `[B, S]` was replaced."""
        output = self.discriminator(
            features["input_ids"],
            features["input_mask"],
            features["segment_ids"],
        )
        return tf.sigmoid(output.logits)

    def _logs(self, statistics: step_lib.Tensors) -> step_lib.Tensors:
        gen_loss = statistics["masked_loss"] / statistics["masked_tokens"]
        disc_loss = statistics["disc_loss"] / statistics["tokens"]
        factors = self.loss_coefficients
        total = (
            factors["gen_loss"] * gen_loss + factors["disc_loss"] * disc_loss
        )
        named = {"loss": total, "gen_loss": gen_loss, "disc_loss": disc_loss}
        return {name: value[0] for name, value in named.items()}


def build_pretraining_model(
    settings: config.ExperimentConfig, vocabulary: vocabulary_lib.Vocabulary
) -> PretrainingModel:
    """Builds the model of a config, with weights.

    Args:
        settings: the whole config; `encoder.vocab_size` 0 takes the
            vocabulary's size.
        vocabulary: gives sizes and special ids.

    Raises:
        ValueError: if the config's vocabulary size is not the vocabulary's.
    """
    name = settings.objective.name
    if name not in OBJECTIVES:
        raise config.ConfigError(
            f"`objective.name` must be one of {', '.join(OBJECTIVES)}. "
            f"Received: {name!r}."
        )
    tower_pair = towers.build_towers(
        settings.encoder,
        settings.generator,
        vocabulary.size,
        dtype_policy(settings.training.precision),
    )
    model = PretrainingModel(
        tower_pair.generator,
        tower_pair.discriminator,
        OBJECTIVES[name](settings.objective),
        special_ids=(vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id),
        mask_id=vocabulary.mask_id,
        mask_settings=settings.masking,
        temperature=settings.objective.temperature,
        disallow_correct=settings.objective.disallow_correct,
        seed=settings.training.seed,
        num_micro_batches=settings.training.num_micro_batches,
        clip_norm=settings.optimizer.clip_norm,
        means_per_replica=settings.objective.means_per_replica,
        name="electra_pretraining",
    )
    if settings.training.precision == "float16":
        model.loss_scale = loss_scaling.LossScale()
    if settings.training.ema_decay:
        model.weight_average = averaging.WeightAverage(
            model.trainable_variables, settings.training.ema_decay
        )
    return model


def dtype_policy(precision: str) -> str:
    """The Keras policy of a precision: weights always stay float32."""
    return "float32" if precision == "float32" else f"mixed_{precision}"
