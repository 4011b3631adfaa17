"""Two-stage training: the generator first, then the discriminator or both."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.modeling import flops
from electra_tf.pretraining import objective
from electra_tf.pretraining import proposals
from electra_tf.pretraining.objectives import electra
from electra_tf.training import step as step_lib

if TYPE_CHECKING:
    from electra_tf.pretraining import model as model_lib

_GENERATOR_STAGE, _SECOND_STAGE = 0, 1


class TwoStage(electra.ReplacedTokenDetection):
    """First L_MLM alone, then L_Disc alone (paper, 3.2, Figure 3 right).

    Without `freeze_generator` the second stage is joint training, as in
    `electra`, of a discriminator that starts from a young generator: small
    models learn with it sooner (docs/small_models.md).

    Stage one trains the generator for `generator_steps` steps. Then the
    discriminator's encoder is initialised with the generator's weights, the
    generator is frozen, and the discriminator is trained on its samples. The
    paper found that without this initialisation the discriminator sometimes
    fails to learn beyond the majority class.

    A frozen generator is used without dropout: it is not trained any more.
    Learning-rate decay and warm-up begin anew with the second stage, and so
    do the moving averages.

    Args:
        generator_steps: length of the first stage.
        initialize_from_generator: whether the discriminator starts from the
            generator's weights; shared embeddings already are equal.
        freeze_generator: whether the second stage trains the discriminator
            alone.
        gen_weight: factor of the generator's loss, while it is trained.
        disc_weight: factor of the discriminator's loss, in stage two.
        disc_weight_steps: steps of stage two over which it rises from 0.
    """

    def __init__(
        self,
        generator_steps: int,
        initialize_from_generator: bool = True,
        freeze_generator: bool = True,
        gen_weight: float = 1.0,
        disc_weight: float = 50.0,
        disc_weight_steps: int = 0,
    ) -> None:
        super().__init__(gen_weight, disc_weight, disc_weight_steps)
        self.phase_starts = (0, generator_steps)
        self.initialize_from_generator = initialize_from_generator
        self.freeze_generator = freeze_generator
        self.stage = _GENERATOR_STAGE

    @property
    def loss_coefficients(self) -> Mapping[str, float]:
        """The factor of a loss that the present stage does not train is 0."""
        if self.stage == _GENERATOR_STAGE:
            return {"gen_loss": self.gen_weight, "disc_loss": 0.0}
        gen_weight = 0.0 if self.freeze_generator else self.gen_weight
        return {"gen_loss": gen_weight, "disc_loss": self.disc_weight}

    def enter_phase(
        self,
        model: "model_lib.PretrainingModel",
        phase: int,
        is_beginning: bool,
    ) -> None:
        """Copies the generator into the discriminator at the switch."""
        self.stage = phase
        if phase == _SECOND_STAGE and is_beginning:
            if self.initialize_from_generator:
                copy_encoder(model.generator.encoder, model.main.encoder)
            if model.weight_average is not None:
                model.weight_average.reset()

    def trained_variables(
        self, model: "model_lib.PretrainingModel"
    ) -> Sequence[Any]:
        """The generator's in stage one; then the discriminator's, or all."""
        if self.stage == _GENERATOR_STAGE:
            return model.generator.trainable_variables
        if not self.freeze_generator:
            return model.trainable_variables
        return model.main.trainable_variables

    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: objective.PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step_lib.LossSums:
        """The losses of the present stage."""
        if self.stage == _SECOND_STAGE:
            return super().compute_losses(model, prepared, dropout_seed)
        masked = prepared.masked
        generated = model.generate(masked, dropout_seed)
        sampled = model.corrupt(prepared, generated.logits).sampled_tokens
        gen_loss = proposals.generator_loss(
            model.generator.targets(masked), generated
        )
        unseen = {name: tf.zeros([k]) for name, k in self.extra_sizes.items()}
        counts = proposals.generator_statistics(
            masked, generated, sampled, model.mask_id
        )
        return objective.collect(
            {
                "gen_loss": gen_loss,
                "disc_loss": objective.LossSum(tf.zeros([]), tf.zeros([])),
            },
            unseen | counts,
        )

    def generator_seed(
        self, dropout_seed: tf.Tensor | None
    ) -> tf.Tensor | None:
        """None once the generator is frozen."""
        is_frozen = self.stage == _SECOND_STAGE and self.freeze_generator
        return None if is_frozen else dropout_seed

    def summarize(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """As in joint training; stage one has no discriminator to tell of."""
        if self.stage == _SECOND_STAGE:
            return super().summarize(statistics)
        metrics = super().summarize(statistics)
        return {
            "loss": metrics["loss"],
            "gen_loss": metrics["gen_loss"],
            **proposals.summarize_generator(statistics),
        }

    def training_flops(self, convention: flops.Convention, step: int) -> float:
        """The generator; later its forward pass and the discriminator."""
        if step < self.phase_starts[_SECOND_STAGE]:
            return convention.trained(convention.generator())
        if not self.freeze_generator:
            return super().training_flops(convention, step)
        return convention.generator() + convention.trained(
            convention.discriminator()
        )


def copy_encoder(source: Any, target: Any) -> None:
    """Sets one encoder's weights to another's of the same sizes."""
    values = {_within(v): v for v in source.variables}
    for variable in target.variables:
        if variable is not values[_within(variable)]:
            variable.assign(values[_within(variable)])


def _within(variable: Any) -> str:
    """The path without the encoder's own name."""
    return variable.path.split("/", 1)[1]


def build_objective(settings: config.ExperimentConfig) -> objective.Objective:
    """The objective of a config.

    Raises:
        ConfigError: if the stages do not fit the run, or the generator's
            sizes not the discriminator's.
    """
    chosen, generator = settings.objective, settings.generator
    total = settings.training.num_train_steps
    config.require(
        0 < chosen.generator_steps < total,
        "`objective.generator_steps` must be above 0 and below "
        "training.num_train_steps, so that both stages have steps. Received: "
        f"generator_steps={chosen.generator_steps}, num_train_steps={total}.",
    )
    config.require(
        generator.has_encoder and not generator.two_tower_generator,
        "The objective 'two_stage' needs a masked-LM generator, which can be "
        "trained first. Received another kind in the section `generator`.",
    )
    config.require(
        generator.weight_tying == "none"
        or (not chosen.freeze_generator and generator.weight_tying != "all"),
        "The objective 'two_stage' needs a generator with weights of its own: "
        "shared ones would change while it is frozen. Set "
        "--config.generator.untied_generator_embeddings=true.",
    )
    config.require(
        not chosen.initialize_from_generator
        or generator.encoder_config(settings.encoder) == settings.encoder,
        "`objective.initialize_from_generator` needs two encoders of the same "
        f"sizes. Received: {generator.encoder_config(settings.encoder)} and "
        f"{settings.encoder}. Set generator_hidden_size=1, "
        "generator_layers=1, embedding_size=hidden_size, heads of 64 and "
        "intermediate_size=4*hidden_size, as the generator derives them; or "
        "--config.objective.initialize_from_generator=false.",
    )
    return TwoStage(
        chosen.generator_steps,
        chosen.initialize_from_generator,
        chosen.freeze_generator,
        chosen.gen_weight,
        chosen.disc_weight,
        chosen.disc_weight_steps,
    )
