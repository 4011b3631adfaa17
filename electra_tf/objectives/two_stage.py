"""Two-stage training, an alternative to joint training (section 3.2)."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from electra_tf import config
from electra_tf.config import schema
from electra_tf.modeling import flops
from electra_tf.modeling import layers
from electra_tf.objectives import base
from electra_tf.objectives import electra
from electra_tf.training import step as step_lib


@schema.frozen
class Settings(electra.Settings):
    """The section `objective` of two-stage training."""

    generator_steps: schema.Count = 0  # steps of the generator alone
    # Whether the discriminator's encoder begins with the generator's weights.
    initialize_from_generator: bool = True
    freeze_generator: bool = True  # False trains both after the switch


@layers.register
class TwoStage(electra.Electra):
    """Trains with L_MLM, then with L_Disc (section 3.2, Figure 3 right).

    Stage one trains the generator for `generator_steps` steps. Then the
    discriminator's encoder takes the generator's weights
    (`initialize_from_generator`; the paper found that it may otherwise learn
    only the majority class). Stage two trains the discriminator on samples of
    the generator, which is frozen and has no dropout. Learning rate, moving
    averages and the rise of `disc_weight` begin anew with stage two.

    Without `freeze_generator` stage two is joint training, as in `Electra`, of
    a discriminator that starts with the generator's weights: small models
    learn sooner that way (docs/small_models.md).
    """

    Settings = Settings
    weights_of = electra.Electra
    is_sampling = False  # until stage two begins

    @classmethod
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Requires that both stages have steps and the encoders fit."""
        super().check_settings(settings)
        base.require_masked_lm_generator(settings)
        objective, generator = cls.parse(settings), settings.generator
        total = settings.training.num_train_steps
        config.require(
            0 < objective.generator_steps < total,
            "`objective.generator_steps` must be above 0 and below "
            "training.num_train_steps, so that both stages have steps. "
            f"Received: generator_steps={objective.generator_steps}, "
            f"num_train_steps={total}. Set --config.objective.generator_steps="
            f"{total // 2}, or raise --config.training.num_train_steps.",
        )
        config.require(
            generator.is_alone
            or (
                generator.weight_tying == "embeddings"
                and not objective.freeze_generator
            ),
            "The objective 'two_stage' needs a generator with weights of its "
            "own, since shared ones would change while it is frozen. Set "
            "--config.generator.untied_generator_embeddings=true.",
        )
        sizes = vars(generator.encoder_config(settings.encoder))
        differing = [
            f"{name}={sizes[name]} and {size}"
            for name, size in vars(settings.encoder).items()
            if sizes[name] != size
        ]
        config.require(
            not (objective.initialize_from_generator and differing),
            "`objective.initialize_from_generator` needs two encoders of the "
            f"same sizes. Received: {', '.join(differing)}. Set "
            "generator_hidden_size=1, generator_layers=1, embedding_size="
            "hidden_size, heads of 64, intermediate_size=4*hidden_size; or "
            "--config.objective.initialize_from_generator=false.",
        )

    @classmethod
    def stages(cls, settings: config.ExperimentConfig) -> tuple[int, ...]:
        """Returns the first steps of the two stages."""
        return (0, cls.parse(settings).generator_steps)

    @classmethod
    def training_flops(cls, convention: flops.Convention, step: int) -> float:
        """Counts the generator, and in stage two also the discriminator."""
        generator, main = convention.generator(), convention.discriminator()
        objective = cls.parse(convention.settings)
        if step < objective.generator_steps:
            return generator.total
        if objective.freeze_generator:
            generator = generator.frozen
        return (generator + main).total

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """The losses and their factors; `disc_loss` has 0 in stage one."""
        idle = {} if self.is_sampling else {"disc_loss": 0.0}
        return {**super().loss_coefficients, **idle}

    @property
    def trained_variables(self) -> Sequence[Any]:
        """The generator's variables in stage one, then those of `Electra`."""
        if self.is_sampling:
            return super().trained_variables
        return self.generator.trainable_variables

    def enter_stage(self, stage: int, is_beginning: bool) -> None:
        """Copies the generator into the discriminator at the switch."""
        objective, average = self.objective, self.weight_average
        self.is_sampling = stage > 0
        self.is_frozen = self.is_sampling and objective.freeze_generator
        if average is not None:
            average.start = self.stage_starts[stage]
        if not (self.is_sampling and is_beginning):
            return
        if objective.initialize_from_generator:
            weights = self.generator.encoder.get_weights()
            self.main.encoder.set_weights(weights)
            if self.is_disentangled:
                self.reset_difference()
        if average is not None:
            average.reset()

    def compute_main_losses(
        self, sampled: electra.SampledBatch, dropout_seed: layers.Seed
    ) -> step_lib.LossSums:
        """Computes the discriminator's loss, 0 in stage one."""
        if self.is_sampling:
            return super().compute_main_losses(sampled, dropout_seed)
        sizes = {**self.extra_sizes, "sampled_correct": 1}
        idle = {name: tf.zeros([k]) for name, k in sizes.items()}
        return step_lib.LossSums({"disc_loss": tf.zeros([])}, idle)

    def derive_metrics(self, statistics: step_lib.Tensors) -> step_lib.Tensors:
        """Derives ELECTRA's metrics, in stage one those without samples."""
        scores = super().derive_metrics(statistics)
        if self.is_sampling:
            return scores
        names = ("loss", "gen_loss", *self.ratios)
        return {n: scores[n] for n in names if n != "sampled_accuracy"}
