r"""Fine-tunes a pre-trained model on tasks: trials, scores, predictions.

    python scripts/run_finetuning.py --config=configs/finetune/table7.py:small \
        --config.task.names=sst2 --config.task.data_dir=GLUE_DIR \
        --pretrained_dir=MODEL_DIR --output_dir=DIR --trials=5

Any field of the config can be set: --config.optimizer.learning_rate=1e-4. A
task of your own: --config=configs/finetune/own.py:classification
--config.own.train_file=train.csv --config.own.dev_file=dev.csv ...
"""

import pathlib

from absl import flags
from ml_collections import config_flags

from electra_tf import command_line
from electra_tf import config
from electra_tf.config import finetuning as finetuning_config

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "A file of configs/finetune."
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder for everything that is written.", required=True
)
_PRETRAINED_DIR = flags.DEFINE_string(
    "pretrained_dir",
    None,
    "model_dir of a pre-training run, a model in another format, or tiny-en.",
)
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint", "latest", "latest, best, or the folder of a checkpoint."
)
_USE_AVERAGE = flags.DEFINE_bool(
    "use_average", False, "Start from the moving average of the weights."
)
_RANDOM_INIT = flags.DEFINE_bool(
    "random_init", False, "Start from random weights, as a baseline."
)
_TRIALS = flags.DEFINE_integer("trials", 1, "Trainings with different seeds.")
_PARALLEL = flags.DEFINE_integer(
    "parallel_trials", 1, "Trials that run side by side."
)
_DO = flags.DEFINE_list("do", ["train", "eval"], "Of train, eval, predict.")
_SPLITS = flags.DEFINE_list("splits", [], "To predict; empty: all there are.")


def main() -> None:
    """Freezes the config and does what is asked."""
    settings = config.freeze_as(
        _CONFIG.value, finetuning_config.FinetuningConfig
    )
    # TensorFlow takes seconds to import; a mistake in the config is reported
    # before that.
    from electra_tf.finetuning import finetune
    from electra_tf.finetuning import session

    pretrained_dir = _PRETRAINED_DIR.value
    request = session.Request(
        settings,
        pathlib.Path(_OUTPUT_DIR.value),
        pathlib.Path(pretrained_dir) if pretrained_dir else None,
        checkpoint=_CHECKPOINT.value,
        use_average=_USE_AVERAGE.value,
        is_random=_RANDOM_INIT.value,
        num_trials=_TRIALS.value,
        num_parallel=_PARALLEL.value,
        actions=tuple(_DO.value),
        splits=tuple(_SPLITS.value),
    )
    finetune.finetune(request)


if __name__ == "__main__":
    command_line.run(
        main,
        required=["config"],
        schema=finetuning_config.FinetuningConfig,
    )
