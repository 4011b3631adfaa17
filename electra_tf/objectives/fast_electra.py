"""Fast-ELECTRA: a generator that was trained before, and never again."""

from electra_tf import config
from electra_tf.modeling import flops
from electra_tf.modeling import layers
from electra_tf.objectives import base
from electra_tf.objectives import electra


@layers.register
class FastElectra(electra.Electra):
    """The discriminator alone, on samples of a frozen generator.

    (Dong et al., "Fast-ELECTRA for Efficient Pre-training", 2023,
    https://arxiv.org/abs/2310.07347.) Any masked language model of the same
    vocabulary generates, `generator.init_from`; it has no dropout and no
    gradient. What joint training has in a young generator, easy samples first,
    comes from the temperature of its softmax, which falls from
    `objective.temperature` to `final_temperature` over `temperature_steps`:

        p(x_t | x_masked) = softmax(logits / T(step))
        total  = disc_weight * L_Disc                     (section 3.2)

    The paper's T falls exponentially, ours linearly.
    """

    Settings = electra.DetectionSettings
    weights_of = electra.Electra
    is_frozen = True

    @classmethod
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Requires a generator that is there; its own section, untied ones."""
        super().check_settings(settings)
        base.require_masked_lm_generator(settings)
        config.require(
            settings.generator.init_from != "",
            "The objective 'fast_electra' needs a generator that was trained "
            "before. Received: init_from=''. Set --config.generator.init_from="
            "RUN and --config.generator.untied_generator_embeddings=true.",
        )

    @classmethod
    def trained_parts(cls, convention: flops.Convention) -> flops.Operations:
        """The generator's forward pass, and the discriminator."""
        return convention.generator().frozen + cls.main_flops(convention)
