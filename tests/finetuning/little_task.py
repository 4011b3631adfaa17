"""A classification of one's own whose label follows from one word."""

import dataclasses
import pathlib

import numpy as np

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import finetune

_ADJECTIVES = {"bad": ("poor", "awful"), "good": ("fine", "great")}


def write_files(folder: pathlib.Path) -> pathlib.Path:
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


def build_settings(
    folder: pathlib.Path, **training: object
) -> finetuning_config.FinetuningConfig:
    """Settings of a short fine-tuning on these files."""
    defaults: dict[str, object] = {
        "num_train_epochs": 3.0,
        "train_batch_size": 8,
        "eval_batch_size": 8,
        "deterministic": False,
        "log_steps": 8,
        "steps_per_loop": 4,
        "save_checkpoints_steps": 5,
    }
    return finetuning_config.FinetuningConfig(
        task=finetuning_config.TaskConfig(names="own"),
        own=finetuning_config.OwnTaskConfig(
            train_file=str(folder / "train.csv"),
            dev_file=str(folder / "dev.csv"),
            test_file=str(folder / "test.csv"),
        ),
        optimizer=finetuning_config.FinetuningOptimizerConfig(
            learning_rate=5e-3, layerwise_lr_decay=0.9
        ),
        training=finetuning_config.FinetuningTrainingConfig(
            **(defaults | training)  # type: ignore[arg-type]
        ),
    )


def build_request(
    data: pathlib.Path,
    pretrained_dir: pathlib.Path | None,
    output_dir: pathlib.Path,
    training: dict[str, object] | None = None,
    **options: object,
) -> finetune.Request:
    """What a fine-tuning of the little task is asked for."""
    settings = build_settings(data, **(training or {}))
    return finetune.Request(
        settings,
        output_dir,
        pretrained_dir,
        **options,  # type: ignore[arg-type]
    )


def replace(
    request: finetune.Request, section: str, **fields: object
) -> finetune.Request:
    """A request with other fields in a section of its settings."""
    settings = schema.replace_fields(request.settings, **{section: fields})
    return dataclasses.replace(request, settings=settings)
