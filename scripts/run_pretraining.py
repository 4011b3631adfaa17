r"""Pre-trains a model from a config; the same command resumes it.

    electra-pretrain \
        --config=configs/pretrain/electra_small.py \
        --config.data.dataset_dir=DIR --model_dir=DIR

Any field of the config can be set: --config.optimizer.learning_rate=1e-4. At
SIGTERM, SIGHUP or Ctrl-C the run saves and exits with 75. The exit code is 69
if another host was lost, 70 after a crash; --max_restarts starts it again.
"""

import shlex
import sys

from absl import flags

from electra_tf import command_line
from electra_tf import config
from electra_tf import errors
from electra_tf import installed
from electra_tf import storage
from electra_tf.processes import pool
from electra_tf.records import manifest

FLAGS = flags.FLAGS
flags.DEFINE_string("config", None, "A file of configs/pretrain.")
flags.DEFINE_string("model_dir", None, "Folder of all output.")
flags.DEFINE_string("init_from", "", "Short for --config.training.init_from.")
flags.DEFINE_bool("extend", False, "Stretch the schedule over more steps.")
flags.DEFINE_integer("max_restarts", 0, "Restarts after crashes.", 0)


def main() -> int | None:
    """Freezes the config and trains."""
    if FLAGS.max_restarts:
        command = [__file__, *sys.argv[1:], "--max_restarts=0"]
        return pool.run_restarting(command, FLAGS.max_restarts)
    if FLAGS.init_from:
        FLAGS.config.training.init_from = FLAGS.init_from
    settings = config.freeze(FLAGS.config)
    for phase in config.split_phases(settings):
        manifest.Index.load(storage.path(phase.settings.data.dataset_dir))
    model_dir = storage.path(FLAGS.model_dir)
    origin = settings.training.init_from
    if origin and not (model_dir / "config.json").exists():
        installed.find_model(origin)
    # Imported late, as TensorFlow takes seconds to import.
    from electra_tf.pretraining import run

    if not run.pretrain(settings, model_dir, FLAGS.extend):
        raise errors.Stopped
    if settings.training.strategy == "multi_worker":
        return None  # every host would print the lines below
    model = shlex.quote(f"{model_dir}")
    print(
        "\nTo try the model in the browser, fine-tune or export it:\n"
        f"  electra-serve-demo --model={model}\n"
        "  electra-finetune --config=configs/finetune/own.py:classification "
        "--config.own.train_file=train.csv --config.own.dev_file=dev.csv "
        f"--pretrained_dir={model} --output_dir=finetuned\n"
        f"  electra-export --model_dir={model} "
        f"--export_dir={shlex.quote(f'{model_dir}/export')}"
    )
    return None


if __name__ == "__main__":
    command_line.run(main, required=["config", "model_dir"])
