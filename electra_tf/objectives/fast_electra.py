"""Fast-ELECTRA, which trains a discriminator beside a pre-trained generator."""

from electra_tf import config
from electra_tf.modeling import flops
from electra_tf.modeling import layers
from electra_tf.objectives import base
from electra_tf.objectives import electra


@layers.register
class FastElectra(electra.Electra):
    """Trains the discriminator alone, on samples of a frozen generator.

    (Dong et al., "Fast-ELECTRA for Efficient Pre-training", 2023,
    https://arxiv.org/abs/2310.07347.) The generator is a masked language model
    of the same vocabulary, `generator.init_from`, without dropout and gradient.
    Samples are easy to detect at first, as in joint training, because the
    temperature of the softmax falls from `objective.temperature` to
    `final_temperature` over `temperature_steps`:

        p(x_t | x_masked) = softmax(logits / T(step))
        total  = disc_weight * L_Disc                     (section 3.2)

    In the paper T falls exponentially, here linearly.
    """

    Settings = electra.DetectionSettings
    weights_of = electra.Electra
    is_frozen = True

    @classmethod
    def check_settings(cls, settings: config.ExperimentConfig) -> None:
        """Requires a pre-trained masked-LM generator."""
        super().check_settings(settings)
        base.require_masked_lm_generator(settings)
        config.require(
            settings.generator.init_from != "",
            "The objective 'fast_electra' needs a pre-trained generator. "
            "Received: init_from=''. Set --config.generator.init_from=RUN and "
            "--config.generator.untied_generator_embeddings=true.",
        )

    @classmethod
    def trained_parts(cls, convention: flops.Convention) -> flops.Operations:
        """Counts the generator's forward pass and the discriminator."""
        return convention.generator().frozen + cls.main_flops(convention)
