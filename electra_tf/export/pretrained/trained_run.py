"""What a pre-training run left in its folder, for those who export it."""

import pathlib
from typing import Any

import tensorflow as tf

from electra_tf import config
from electra_tf.modeling import layers
from electra_tf.pretraining import model as model_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints


def load_main_tower(
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    checkpoint: pathlib.Path,
    precision: str = "float32",
    use_average: bool = False,
) -> Any:
    """A checkpoint's main tower, on the CPU.

    Nothing of the generator is built or read, unless the towers share it.

    Args:
        settings: the run's config.
        vocabulary: the one that it trained with.
        checkpoint: folder of a checkpoint.
        precision: of the products, one of `config.PRECISIONS`; the run may
            have had another.
        use_average: take the moving average of the weights.

    Returns:
        What the objective's `build_main` makes.

    Raises:
        ValueError: if average weights are asked of a run that kept none, or
            if the vocabulary or the checkpoint do not fit the config.
    """
    settings = model_lib.resolve(settings, vocabulary.size)
    objective = model_lib.find_objective(settings)
    # The CPU always has room, an accelerator may be in use.
    with tf.device("/CPU:0"):
        tower = objective.build_main(
            settings.encoder, layers.dtype_policy(precision)
        )
        checkpoints.load_weights(
            checkpoint,
            {variable.path: variable for variable in tower.variables},
            prefix="average" if use_average else "model",
        )
    return tower
