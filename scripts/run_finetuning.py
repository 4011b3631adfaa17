r"""Fine-tunes a pre-trained model on tasks: trials, scores, predictions.

    electra-finetune --config=configs/finetune/own.py:classification \
        --config.own.train_file=train.csv --config.own.dev_file=dev.csv \
        --pretrained_dir=tiny-en --output_dir=DIR
    electra-finetune --config=configs/finetune/table7.py:small \
        --config.task.names=sst2 --config.task.data_dir=GLUE_DIR \
        --pretrained_dir=MODEL_DIR --output_dir=DIR --trials=5

Any field of the config can be set: --config.optimizer.learning_rate=1e-4.

A search tries several values and prints a table of their scores:
--search=learning_rate=1e-4,3e-4,1e-3 --search=num_train_epochs=3,10

At SIGTERM, SIGHUP or Ctrl-C the command saves and exits with 75.
"""

import contextlib
import json
import pathlib
import re
import shlex
from collections.abc import Sequence
from typing import Any

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.processes import locks
from electra_tf.tasks import files
from electra_tf.tasks import tfds

FLAGS = flags.FLAGS
flags.DEFINE_string("config", None, "A file of configs/finetune.")
flags.DEFINE_string("output_dir", None, "Folder of all output.")
flags.DEFINE_string(
    "pretrained_dir",
    None,
    "A run, tiny-en, a name on the hub, a model in another format, or a "
    "fine-tuning, of which the encoder is taken.",
)
flags.DEFINE_string("checkpoint", "latest", "latest, best, or a folder.")
flags.DEFINE_bool("use_average", False, "Start from the moving average.")
flags.DEFINE_bool("random_init", False, "Start from random weights.")
flags.DEFINE_integer("trials", 1, "Number of trials, with different seeds.")
flags.DEFINE_integer("parallel_trials", 1, "Number of parallel trials.")
flags.DEFINE_list("do", ["train", "eval"], "Any of train, eval, predict.")
flags.DEFINE_multi_string("search", [], "FIELD=VALUE,VALUE; repeatable.")
flags.DEFINE_list("splits", [], "Splits to predict; empty: all.")


@flags.multi_flags_validator(
    ["config"],
    "Give --config=configs/finetune/own.py:KIND for your own files, where KIND "
    f"is one of {', '.join(finetuning_config.TASK_KINDS)}; or --config="
    "configs/finetune/table7.py:SIZE, with small, base or large, for GLUE, "
    "SQuAD and the like. Both come with the package.",
)
def _has_config(given: dict[str, Any]) -> bool:
    return given["config"] is not None


def main() -> None:
    """Checks the flags, fine-tunes, and prints the next commands."""
    settings = schema.build(finetuning_config.FinetuningConfig, FLAGS.config)
    search = dict(map(_parse_axis, FLAGS.search))
    if len(search) < len(FLAGS.search):
        raise ValueError(
            "--search must name each field once, with commas between its "
            f"values. Received: {' '.join(FLAGS.search)}."
        )
    if search:
        finetuning_config.build_grid(settings, search)
    task, own = settings.task, settings.own
    if task.data_dir not in ("", tfds.DATA_DIR):
        files.require_folder(task.data_dir, task.names)
    for split, file in own.files.items():
        if split != "train" or "train" in FLAGS.do:
            files.require_table(storage.path(file))
    output_dir = storage.path(FLAGS.output_dir)
    pretrained_dir = FLAGS.pretrained_dir
    # A fine-tuning that has begun can continue without the model.
    if pretrained_dir and not output_dir.exists():
        installed.find_model(pretrained_dir)
    # Several workers share the folder; the first one locks the trial's.
    is_alone = settings.training.strategy != "multi_worker"
    with locks.hold(output_dir, is_alone):
        # Imported late, as TensorFlow takes seconds to import.
        from electra_tf.finetuning import finetune
        from electra_tf.finetuning import results
        from electra_tf.finetuning import trial
        from electra_tf.tasks import catalog

        outcome = finetune.finetune(
            finetune.Request(
                settings,
                output_dir,
                storage.path(pretrained_dir) if pretrained_dir else None,
                checkpoint=FLAGS.checkpoint,
                use_average=FLAGS.use_average,
                is_random=FLAGS.random_init,
                num_trials=FLAGS.trials,
                num_parallel=FLAGS.parallel_trials,
                actions=tuple(FLAGS.do),
                splits=tuple(FLAGS.splits),
                search=search or None,
            )
        )
    if not isinstance(outcome, results.Summary | results.Ranking):
        return
    folder = storage.path(f"{results.find_trial(output_dir)}")
    if (folder / "predictions").is_dir():
        print(f"\nDev examples with gold and prediction: {folder}/predictions")
    labels = trial.read_description(folder).labels
    first, *others = catalog.build_tasks(settings, labels)
    name = first.name if others else ""
    print("\nTo try, predict with, export, serve or load the model:")
    print("\n".join(list_next_commands(output_dir, first.input_names, name)))


def list_next_commands(
    output_dir: pathlib.Path, inputs: Sequence[str], task: str
) -> list[str]:
    """Lists commands that use a model, and a call in Python.

    `task` is empty if the model has learned only one.
    """
    values = " ".join(f'--{name.removesuffix("s")}="..."' for name in inputs)
    # `predict` takes texts and second texts by position.
    calls = [f'{n}=["..."]'.removeprefix("texts=") for n in inputs]
    call = ", ".join(calls).replace("text_pairs=", "")
    model, export = map(shlex.quote, (f"{output_dir}", f"{output_dir}/export"))
    served = re.sub(r"^[.-]|[^\w.-]", "_", output_dir.name, flags=re.A)
    flag = f" --task={task}" * bool(task)
    argument = f', task="{task}"' * bool(task)
    load = f'electra_tf.load("{output_dir}"{argument})'
    python = shlex.quote(f"import electra_tf; print({load}.predict({call}))")
    make = f"  electra-export --model_dir={model}{flag}"
    return [
        f"  electra-serve-demo --model={model}{flag}",
        f"  electra-predict --model={model}{flag} {values}",
        f"{make} --export_dir={export}",
        f"{make} --serving_dir=serving --model_name={served or 'model'}",
        f"  python -c {python}",
    ]


def _parse_axis(text: str) -> tuple[str, tuple[float, ...]]:
    field, _, numbers = text.partition("=")
    with contextlib.suppress(ValueError):
        if values := json.loads(f"[{numbers}]"):
            return field, tuple(values)
    raise ValueError(
        "--search must be FIELD=NUMBER,NUMBER, for example learning_rate="
        f"1e-4,3e-4. Received: {text}."
    )


if __name__ == "__main__":
    command_line.run(
        main, ["output_dir"], schema=finetuning_config.FinetuningConfig
    )
