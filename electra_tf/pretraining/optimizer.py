"""The optimizer of a run."""

import keras

from electra_tf import config
from electra_tf.training import optimizers
from electra_tf.training import parameter_rules
from electra_tf.training import schedules


def build_optimizer(
    settings: config.ExperimentConfig, phase_starts: tuple[int, ...] = (0,)
) -> keras.optimizers.Optimizer:
    """The optimizer and schedule that a config names.

    Args:
        settings: the whole config.
        phase_starts: steps at which warm-up and decay begin anew.
    """
    options = settings.optimizer
    ends = (*phase_starts[1:], settings.training.num_train_steps)
    parts = [
        schedules.PolynomialDecayTimesWarmup(
            options.learning_rate,
            end - start,
            num_warmup_steps=options.num_warmup_steps,
            power=options.lr_decay_power,
        )
        for start, end in zip(phase_starts, ends, strict=True)
    ]
    schedule = parts[0]
    if len(parts) > 1:
        schedule = schedules.Restarted(parts, phase_starts)
    kinds = {"adam": optimizers.AdamWeightDecay, "lamb": optimizers.LAMB}
    return kinds[options.name](
        schedule,
        weight_decay=options.weight_decay_rate,
        beta_1=options.beta_1,
        beta_2=options.beta_2,
        epsilon=options.epsilon,
        exclude_from_weight_decay=parameter_rules.NO_DECAY_PATTERNS,
        # Keras would number it, and its variables in checkpoints with it.
        name=options.name,
    )
