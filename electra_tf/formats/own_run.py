"""Converts pre-training runs of this project to portable models, and back.

A converted model is a run without a step of ours: `config.json`, vocabulary and
one checkpoint without an optimizer, stored as bfloat16 if that is lossless.
Every command that takes a run takes a converted model.
"""

import dataclasses
import pathlib

import ml_dtypes
import numpy as np

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.formats import portable
from electra_tf.modeling import networks
from electra_tf.objectives import registry
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints

_ROW_LENGTH = 128  # in the config of a converted model
_WORDS = "embeddings/word_embeddings"
_SAFE_TO_CHANGE = checkpoints.SAFE_TO_CHANGE | {
    "training.eval_steps",
    "training.num_eval_batches",
    "training.peak_flops",
    "data.dataset_dir",
}
TRIAL_FIELDS = {"format", "labels"}
"""Fields that only the config.json of a trial has."""


def is_trial(path: pathlib.Path) -> bool:
    """Returns whether a folder is the folder of a trial."""
    return portable.peek(path / "config.json").keys() >= TRIAL_FIELDS


def load_settings(model_dir: pathlib.Path) -> config.ExperimentConfig:
    """Loads the settings of a run; `ModelError` if there is none."""
    path = model_dir / checkpoints.CONFIG_FILE
    if not path.is_file() or "model_type" in schema.read_object(path):
        raise errors.ModelError(
            f"No run in {model_dir}: expected its config.json there. Give the "
            "folder of a run; electra-convert turns other models into runs."
        )
    return schema.read_file(config.ExperimentConfig, path)


def check(
    model_dir: pathlib.Path,
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    may_extend: bool = False,
) -> list[str]:
    """Checks that a folder is free, or has a run that can continue.

    Returns the changed settings, each as `section.field: stored, new`. Raises
    `ModelError` for changes that a run does not allow, or another vocabulary.
    """
    if not checkpoints.has_config(model_dir, "run", "--model_dir"):
        return []
    old = registry.complete(load_settings(model_dir))
    settings = registry.complete(settings)
    new_steps, old_steps = (s.training.num_train_steps for s in (settings, old))
    extended = {"training.num_train_steps"} if new_steps > old_steps else set()
    changed = checkpoints.require_same_settings(
        model_dir, old, settings, _SAFE_TO_CHANGE | extended, "--model_dir"
    )
    if extended and not may_extend:
        raise errors.ModelError(
            f"{model_dir} holds a run of {old_steps} steps. Received: "
            f"training.num_train_steps={new_steps}. --extend stretches its "
            "learning-rate schedule over all steps, so the rate jumps up. Or "
            f"use --init_from={model_dir} in another --model_dir."
        )
    if (model_dir / "vocab.txt").exists():
        checkpoints.require_same_vocabulary(model_dir, vocabulary)
    return changed


def read_model(
    path: pathlib.Path, which: str = "latest", use_average: bool = False
) -> portable.PortableModel:
    """Reads a run's weights or their moving average, without its optimizer.

    `which` is `latest`, `best`, or the folder of a checkpoint. Raises
    `ModelError` if the weights do not fit the run's config.
    """
    settings = load_settings(path)
    vocabulary = vocabulary_lib.Vocabulary.load(path)
    checkpoint = checkpoints.find(path, which)
    tensors = load_tensors(checkpoint, settings, use_average)
    encoder = networks.resolve_vocab_size(
        settings.encoder, vocabulary.size, path
    )
    model = portable.PortableModel(
        tensors,
        encoder,
        tying=settings.generator.weight_tying.replace("disentangled", "none"),
        vocabulary=vocabulary,
        objective=settings.objective["name"],
        step=checkpoints.step_of(checkpoint),
        origin=f"run {checkpoint}",
    )
    if model.generator_parts or (model.tying == "all" and model.has_both_heads):
        generator = settings.generator.encoder_config(encoder)
        model = dataclasses.replace(model, generator=generator)
    for part in model.parts:
        # Parts that the objective does not declare are not checked.
        if not portable.part_shapes(part, model):
            tensors = portable.drop_part(tensors, part)
    portable.check(dataclasses.replace(model, tensors=tensors))
    return model


def load_tensors(
    checkpoint: pathlib.Path,
    settings: config.ExperimentConfig,
    use_average: bool = False,
) -> dict[str, np.ndarray]:
    """Reads the weights of a checkpoint, by path.

    Disentangled embeddings are stored as a difference; this returns the sum.
    """
    prefix = "average" if use_average else "model"
    tensors = checkpoints.load_tensors(checkpoint, prefix)
    if settings.generator.disentangled_embeddings:
        shared = tensors[f"{portable.GENERATOR}/{_WORDS}"]
        main = f"{portable.MAIN}/{_WORDS}"
        tensors = {**tensors, main: tensors[main] + shared}
    return tensors


def write(
    model: portable.PortableModel, folder: pathlib.Path
) -> portable.PortableModel:
    """Writes a run from which export, fine-tuning and pre-training start."""
    vocabulary = model.require_vocabulary()
    settings = build_settings(model)
    portable.require_generator(
        model,
        settings,
        "The generator of a config can differ from the discriminator only in "
        "width, depth, attention heads and feed-forward width",
    )
    checkpoints.claim_folder(folder, settings, vocabulary)
    state = {
        "position": {"epoch": 0, "batch": 0},
        "seed": settings.training.seed,
        "dataset": {"converted from": model.origin},
        "best_loss": None,
        "best_step": None,
    }
    tensors = {f"model/{path}": v for path, v in model.tensors.items()}
    packed = {p: v.astype(ml_dtypes.bfloat16) for p, v in tensors.items()}
    if all(
        packed[path].astype(np.float32).tobytes() == value.tobytes()
        for path, value in tensors.items()
    ):
        tensors = packed
    checkpoints.save(folder, model.step, tensors, state, keep=1)
    return model


def build_settings(model: portable.PortableModel) -> config.ExperimentConfig:
    """Returns the config of a run that could have trained a model."""
    # No format has the stages' lengths or the source of a frozen generator.
    objective = model.trained_by.weights_of or model.trained_by
    length = min(_ROW_LENGTH, model.encoder.max_position_embeddings)
    return config.ExperimentConfig(
        encoder=model.encoder,
        generator=portable.generator_settings(model),
        objective={"name": registry.find_name(objective)},
        data=config.DataConfig(max_seq_length=length),
    )
