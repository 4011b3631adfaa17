"""The training model with a reference's random numbers in place of its own.

Masked positions, [MASK] decisions and Gumbel numbers come from the reference;
everything else, from masking to the division of the losses, is the very code
that trains. What it computes on the way is kept for comparison. Meant to run
eagerly.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import original_hparams
from electra_tf.formats import tf1
from electra_tf.inputs import masking
from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.modeling import generators
from electra_tf.modeling import towers
from electra_tf.pretraining import model as model_lib
from electra_tf.pretraining import objective as objective_lib
from electra_tf.pretraining import sampling
from electra_tf.pretraining.objectives import electric
from electra_tf.training import step as step_lib
from electra_tf.verification import reference


@dataclasses.dataclass
class Trace:
    """Intermediates of the latest forward pass and update.

    Attributes:
        masked: the masked batch.
        generator: logits and encoder intermediates; those of the main tower
            where it is the masked language model.
        sampled: `[B, P]`, what our own code sampled.
        sample_margin: `[B, P]`, by how much our sample's noisy logit exceeds
            that of the sample that was fed; 0 where they are equal.
        fake: the discriminator's input and labels, or what they would be.
        discriminator: logits and encoder intermediates.
        gradients: clipped, in the order of the variables.
        rate: learning rate of the update.
    """

    masked: masking.MaskedInputs = dataclasses.field(init=False)
    generator: generators.GeneratorOutput = dataclasses.field(init=False)
    sampled: tf.Tensor = dataclasses.field(init=False)
    sample_margin: tf.Tensor = dataclasses.field(init=False)
    fake: sampling.FakeData = dataclasses.field(init=False)
    discriminator: discriminator_lib.DiscriminatorOutput = dataclasses.field(
        init=False
    )
    gradients: list[tf.Tensor] = dataclasses.field(init=False)
    rate: tf.Tensor = dataclasses.field(init=False)


class FedModel(model_lib.PretrainingModel):
    """A pre-training model that takes its randomness from arrays.

    Args:
        model: the model to run, its towers and settings.
        inputs: `drawn_positions` `[B, P]`, `replace_uniform` `[B, P]` and
            `gumbel_uniform` `[B, P, V]`.

    Attributes:
        fed_samples: `[B, P]` samples to go on with, or None for our own.
        trace: intermediates of the latest forward pass.
    """

    def __init__(
        self,
        model: model_lib.PretrainingModel,
        inputs: Mapping[str, np.ndarray],
    ) -> None:
        super().__init__(
            towers.Towers(model.generator, model.main, model.baseline),
            model.objective,
            model.masking.vocabulary,
            model.masking.settings,
            temperature=model.temperature,
            disallow_correct=model.disallow_correct,
            clip_norm=model.clip_norm,
        )
        self.drawn_positions = tf.constant(inputs["drawn_positions"])
        self.replace_uniform = tf.constant(inputs["replace_uniform"])
        self.gumbel_uniform = tf.constant(inputs["gumbel_uniform"])
        self.fed_samples: np.ndarray | None = None
        self.trace = Trace()

    def prepare(
        self, features: step_lib.Tensors, step: tf.Tensor, is_training: bool
    ) -> objective_lib.PreparedBatch:
        """Masks the batch at the fed positions."""
        del step, is_training
        length = features["input_ids"].shape[-1]
        masked = masking.mask_inputs(
            {
                name: tf.reshape(features[name], [-1, length])
                for name in ("input_ids", "input_mask", "segment_ids")
            },
            tf.cast(self.drawn_positions, tf.float32),
            self.replace_uniform,
            special_ids=self.masking.special_ids,
            mask_id=self.masking.vocabulary.mask_id,
            mask_prob=self.masking.settings.mask_prob,
            replace_prob=self.masking.settings.replace_prob,
            draw_fn=take_draws,
        )
        self.trace.masked = masked
        return objective_lib.PreparedBatch(masked, tf.zeros([1, 2], tf.int64))

    def sample_uniform(
        self, seeds: tf.Tensor, masked: masking.MaskedInputs
    ) -> tf.Tensor:
        """The fed numbers."""
        del seeds, masked
        return self.gumbel_uniform

    def generate(
        self, masked: masking.MaskedInputs, dropout_seed: tf.Tensor | None
    ) -> generators.GeneratorOutput:
        """As in the base class; kept in the trace."""
        self.trace.generator = super().generate(masked, dropout_seed)
        return self.trace.generator

    def sample_from_softmax(
        self,
        logits: tf.Tensor,
        uniform: tf.Tensor,
        disallow: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Our samples, or the fed ones, with a note of how far ours are."""
        sampled = super().sample_from_softmax(logits, uniform, disallow)
        self.trace.sampled = sampled
        if self.fed_samples is None:
            self.trace.sample_margin = tf.zeros(sampled.shape)
            return sampled
        fed = tf.constant(self.fed_samples, sampled.dtype)
        scores = self.divide_by_temperature(logits) + sampling.gumbel_noise(
            uniform
        )
        self.trace.sample_margin = tf.abs(
            tf.gather(scores, sampled, batch_dims=2)
            - tf.gather(scores, fed, batch_dims=2)
        )
        return fed

    def discriminate(
        self,
        fake: sampling.FakeData,
        masked: masking.MaskedInputs,
        dropout_seed: tf.Tensor | None,
        word_offset: tf.Tensor | None = None,
    ) -> discriminator_lib.DiscriminatorOutput:
        """As in the base class; kept in the trace, with its input."""
        self.trace.fake = fake
        output = super().discriminate(fake, masked, dropout_seed, word_offset)
        self.trace.discriminator = output
        return output

    def predict_masked(
        self, masked: masking.MaskedInputs, dropout_seed: tf.Tensor | None
    ) -> generators.GeneratorOutput:
        """As in the base class; kept in the trace as the generator's.

        The original samples from it too, though nothing reads the samples.
        """
        output = super().predict_masked(masked, dropout_seed)
        self.trace.generator = output
        self.trace.fake = self._get_fake_data(
            masked, output.logits, self.gumbel_uniform
        )
        return output

    @property
    def is_two_tower(self) -> bool:
        """Whether the generator is a cloze model."""
        return isinstance(self.generator, generators.TwoTowerGenerator)

    @property
    def is_electric(self) -> bool:
        """Whether the discriminator tells noise from data."""
        return isinstance(self.objective, electric.Electric)

    def detection_logits(self) -> tf.Tensor:
        """What the latest pass compared with the labels, `[B, S]`."""
        trace = self.trace
        logits = trace.discriminator.logits
        if isinstance(self.objective, electric.Electric):
            return self.objective.noise_logits(
                logits, trace.generator, trace.fake
            )
        return logits

    def detection_labels(self) -> tf.Tensor:
        """The labels of the latest pass, `[B, S]` int32."""
        fake = self.trace.fake
        return fake.is_sampled if self.is_electric else fake.is_fake_tokens

    def _update(self, gradients: list[tf.Tensor]) -> None:
        self.trace.gradients = gradients
        self.trace.rate = tf.convert_to_tensor(self.optimizer.learning_rate)
        super()._update(gradients)


def take_draws(
    eligible: tf.Tensor, num: tf.Tensor, draws: tf.Tensor, max_predictions: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """A `masking.DrawFn` whose numbers are the positions themselves.

    Args:
        eligible: not needed; the draws are taken as they are.
        num: `[B]` int32, how many of the draws count.
        draws: `[B, P]` float32, the positions drawn.
        max_predictions: P.

    Returns:
        Positions `[B, P]` int32, 0 in unused slots, and weights float32.
    """
    del eligible
    is_used = tf.range(max_predictions)[tf.newaxis, :] < num[:, tf.newaxis]
    positions = tf.cast(draws, tf.int32) * tf.cast(is_used, tf.int32)
    return positions, tf.cast(is_used, tf.float32)


@dataclasses.dataclass(frozen=True)
class Configuration:
    """One configuration of the reference and our model of it.

    Attributes:
        name: of its folder.
        folder: where its files are.
        info: its `info.json`.
        inputs: its `inputs.npz`.
        settings: our config, made of the original's hyperparameters, with
            dropout off.
        model: with the checkpoint's weights.
    """

    name: str
    folder: Path
    info: Mapping[str, Any]
    inputs: reference.Arrays
    settings: config.ExperimentConfig
    model: FedModel

    def features(self) -> step_lib.Tensors:
        """The batch as the training step takes it: one stream of B rows."""
        names = ("input_ids", "input_mask", "segment_ids")
        return step_lib.as_one_stream(
            {name: tf.constant(self.inputs[name]) for name in names}
        )


def load_configuration(folder: Path) -> Configuration:
    """Builds the model that a folder of `forward/` describes.

    Raises:
        ValueError: for files that do not fit each other; names them.
        FileNotFoundError: for a missing file.
    """
    info = reference.read_json(folder / "info.json")
    settings = read_settings(info)
    inputs = reference.read_arrays(folder / "inputs.npz")
    vocabulary = reference.load_vocabulary(folder)
    model = model_lib.build_pretraining_model(settings, vocabulary)
    checkpoint = tf1.read_checkpoint(folder)
    tf1.assign_variables(model.trainable_variables, checkpoint)
    return Configuration(
        folder.name, folder, info, inputs, settings, FedModel(model, inputs)
    )


def read_settings(info: Mapping[str, Any]) -> config.ExperimentConfig:
    """Our config for an `info.json`, with dropout off."""
    settings = original_hparams.from_original_hparams(
        info["pretraining_config"]
    )
    encoder = dataclasses.replace(
        settings.encoder,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return dataclasses.replace(settings, encoder=encoder)
