"""A classification of one's own whose label follows from one word."""

import dataclasses

import numpy as np

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import finetune
from electra_tf.finetuning import trial_training
from electra_tf.processes import stopping
from electra_tf.training import reporting

_ADJECTIVES = {"bad": ("poor", "awful"), "good": ("fine", "great")}


def write_files(folder):
    """`train.csv`, `dev.csv`, and `test.csv` without labels."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(3)
    for split, count in (("train", 64), ("dev", 24), ("test", 8)):
        lines = ["text,label"]
        for _ in range(count):
            label = str(generator.choice(["bad", "good"]))
            word = generator.choice(_ADJECTIVES[label])
            noun = generator.choice(("cat", "dog", "table", "item"))
            tail = " sat" * int(generator.integers(4))
            lines.append(f"the {word} {noun}{tail}.,{label}")
        if split == "test":
            lines = [line.partition(",")[0] for line in lines]
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")
    return folder


def build_settings(data, **training):
    """The settings of a short fine-tuning on these files."""
    defaults = {
        "num_train_epochs": 3.0, "train_batch_size": 8, "eval_batch_size": 8,
        "deterministic": False, "log_steps": 8, "steps_per_loop": 4,
        "save_checkpoints_steps": 5,
    }  # fmt: skip
    return finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names="own"),
        own=finetuning_config.OwnTaskConfig(
            train_file=str(data / "train.csv"),
            dev_file=str(data / "dev.csv"),
            test_file=str(data / "test.csv"),
        ),
        optimizer=finetuning_config.FinetuningOptimizerConfig(
            learning_rate=5e-3, layerwise_lr_decay=0.9
        ),
        training=finetuning_config.FinetuningTrainingConfig(
            **defaults | training
        ),
    )


def build_request(data, pretrained_dir, output_dir, training=None, **options):
    settings = build_settings(data, **training or {})
    return finetune.Request(settings, output_dir, pretrained_dir, **options)


def replace(request, section, **fields):
    settings = schema.replace_fields(request.settings, **{section: fields})
    return dataclasses.replace(request, settings=settings)


def run(request, stop=None):
    """Starts the first trial and runs it; no result if it was stopped."""
    trial = finetune.Session(request).start(1)
    return trial, trial_training.run_trial(
        trial, stop or stopping.StopRequest()
    )


class StopAfter(stopping.StopRequest):
    """Asks to stop once training has logged eight steps."""

    def __init__(self, request):
        super().__init__()
        self._path = request.folder(1) / "metrics.jsonl"

    @property
    def signal_name(self):
        lines = reporting.read_lines(self._path)
        return "SIGTERM" if lines and lines[-1]["step"] >= 8 else ""

    @signal_name.setter
    def signal_name(self, value):
        del value
