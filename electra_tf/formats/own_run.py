"""Pre-training runs of this project as portable models, and back.

A converted model is a run that has made no step here: `config.json`,
vocabulary and one checkpoint with weights alone, in half the space where they
are bfloat16 numbers. Every command that takes a run takes it.
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

# Rows of a run that continues from a converted model, unless it says more.
_ROW_LENGTH = 128
_WORDS = "embeddings/word_embeddings"
_SAFE_TO_CHANGE = checkpoints.SAFE_TO_CHANGE | {
    "training.eval_steps",
    "training.num_eval_batches",
    "training.peak_flops",
    "data.dataset_dir",
}
TRIAL_FIELDS = {"format", "labels"}
"""Of a config.json, by which a fine-tuned trial is told."""


def is_trial(path: pathlib.Path) -> bool:
    """Returns whether a folder is that of a fine-tuned trial."""
    return portable.peek(path / "config.json").keys() >= TRIAL_FIELDS


def load_settings(model_dir: pathlib.Path) -> config.ExperimentConfig:
    """Loads the settings of a run; `ModelError` if there is none."""
    path = model_dir / checkpoints.CONFIG_FILE
    if not path.is_file() or "model_type" in schema.read_object(path):
        raise errors.ModelError(
            f"No run in {model_dir}: expected its config.json there. Give the "
            "folder of a run; electra-convert makes one of other models."
        )
    return schema.read_file(config.ExperimentConfig, path)


def check(
    model_dir: pathlib.Path,
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
    may_extend: bool = False,
) -> list[str]:
    """Checks that the folder is free or already this run's; writes nothing.

    Returns the settings that differ, each as `section.field: there, now`.
    """
    if not checkpoints.has_config(model_dir, "run", "--model_dir"):
        return []
    old = registry.complete(load_settings(model_dir))
    settings = registry.complete(settings)
    now, there = (s.training.num_train_steps for s in (settings, old))
    extended = {"training.num_train_steps"} if now > there else set()
    changed = checkpoints.require_same_settings(
        model_dir, old, settings, _SAFE_TO_CHANGE | extended, "--model_dir"
    )
    if extended and not may_extend:
        raise errors.ModelError(
            f"{model_dir} holds a run of {there} steps. Received: "
            f"training.num_train_steps={now}. --extend stretches its learning-"
            "rate schedule over all of them: the rate jumps up. Or warm up and "
            f"decay anew, in another --model_dir with --init_from={model_dir}."
        )
    if (model_dir / "vocab.txt").exists():
        checkpoints.require_same_vocabulary(model_dir, vocabulary)
    return changed


def read_model(
    path: pathlib.Path, which: str = "latest", use_average: bool = False
) -> portable.PortableModel:
    """Reads a run's weights, or their moving average; not its optimizer.

    `which` is `latest`, `best`, or the folder of a checkpoint.
    """
    settings = load_settings(path)
    vocabulary = vocabulary_lib.Vocabulary.load(path)
    checkpoint = checkpoints.find(path, which)
    tensors = load_tensors(checkpoint, settings, use_average)
    sizes = settings.encoder, vocabulary.size, path
    encoder = networks.resolve_vocab_size(*sizes)
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
        # A part that the objective does not declare.
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

    Disentangled embeddings, kept as a difference, are added up.
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
    """Writes a run that export, fine-tuning and pre-training start from."""
    vocabulary = model.require_vocabulary()
    settings = build_settings(model)
    portable.require_generator(
        model,
        settings,
        "A config's generator differs from the discriminator in no more than "
        "width, depth, heads and inner width",
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
    """Returns the config of a run that would have made a model."""
    # No format keeps the length of stages or the source of a frozen generator.
    objective = model.trained_by.weights_of or model.trained_by
    length = min(_ROW_LENGTH, model.encoder.max_position_embeddings)
    return config.ExperimentConfig(
        encoder=model.encoder,
        generator=portable.generator_settings(model),
        objective={"name": registry.find_name(objective)},
        data=config.DataConfig(max_seq_length=length),
    )
