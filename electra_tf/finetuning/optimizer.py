"""The optimizer of a fine-tuning: pre-training's, with rates by depth."""

import keras

from electra_tf.config import finetuning as finetuning_config
from electra_tf.training import optimizers
from electra_tf.training import parameter_rules
from electra_tf.training import schedules


def build_optimizer(
    options: finetuning_config.FinetuningOptimizerConfig,
    num_steps: int,
    num_layers: int,
) -> keras.optimizers.Optimizer:
    """The optimizer, schedule and layer-wise rates that a config names.

    Args:
        options: section `optimizer`.
        num_steps: updates, warm-up included.
        num_layers: of the encoder, from which exponents are counted.
    """
    schedule = schedules.PolynomialDecayTimesWarmup(
        options.learning_rate,
        num_steps,
        warmup_proportion=options.warmup_proportion,
        power=options.lr_decay_power,
    )
    kinds = {"adam": optimizers.AdamWeightDecay, "lamb": optimizers.LAMB}
    return kinds[options.name](
        schedule,
        weight_decay=options.weight_decay_rate,
        beta_1=options.beta_1,
        beta_2=options.beta_2,
        epsilon=options.epsilon,
        exclude_from_weight_decay=parameter_rules.NO_DECAY_PATTERNS,
        learning_rate_multipliers=(
            parameter_rules.layerwise_learning_rate_rules(
                options.layerwise_lr_decay,
                num_layers,
                is_contiguous=options.contiguous_lr_decay,
            )
        ),
        # Keras would number it, and its variables in checkpoints with it.
        name=options.name,
    )
