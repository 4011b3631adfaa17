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
from electra_tf import installed
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.tasks import files

FLAGS = flags.FLAGS
config_flags.DEFINE_config_file("config", None, "A file of configs/finetune.")
flags.DEFINE_string("output_dir", None, "Folder for everything written.")
flags.DEFINE_string(
    "pretrained_dir",
    None,
    "model_dir of a pre-training run, a model in another format, tiny-en, or "
    "a name of the hub such as google/electra-small-discriminator.",
)
flags.DEFINE_string("checkpoint", "latest", "latest, best, or a folder.")
flags.DEFINE_bool("use_average", False, "Start from the moving average.")
flags.DEFINE_bool("random_init", False, "Start from random weights.")
flags.DEFINE_integer("trials", 1, "Trainings with different seeds.")
flags.DEFINE_integer("parallel_trials", 1, "Trials that run side by side.")
flags.DEFINE_list("do", ["train", "eval"], "Of train, eval, predict.")
flags.DEFINE_list("splits", [], "To predict; empty: all there are.")


def main() -> None:
    """Freezes the config and does what is asked."""
    settings = schema.build(finetuning_config.FinetuningConfig, FLAGS.config)
    task, own = settings.task, settings.own
    if task.data_dir not in ("", files.TFDS):
        files.require_folder(task.data_dir, task.names)
    for split, file in own.files.items():
        if split != "train" or "train" in FLAGS.do:
            files.require_table(pathlib.Path(file))
    output_dir = pathlib.Path(FLAGS.output_dir)
    pretrained_dir = FLAGS.pretrained_dir
    # What has begun may go on without it.
    if pretrained_dir and not output_dir.exists():
        installed.find_model(pretrained_dir)
    # TensorFlow takes seconds to import; a mistake in the config is reported
    # before that.
    from electra_tf.finetuning import finetune

    request = finetune.Request(
        settings,
        output_dir,
        pathlib.Path(pretrained_dir) if pretrained_dir else None,
        checkpoint=FLAGS.checkpoint,
        use_average=FLAGS.use_average,
        is_random=FLAGS.random_init,
        num_trials=FLAGS.trials,
        num_parallel=FLAGS.parallel_trials,
        actions=tuple(FLAGS.do),
        splits=tuple(FLAGS.splits),
    )
    finetune.finetune(request)


if __name__ == "__main__":
    command_line.run(
        main,
        required=["config", "output_dir"],
        schema=finetuning_config.FinetuningConfig,
    )
