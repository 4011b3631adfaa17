"""Folders of tiny runs with a vocabulary of words, for `electra_tf.load`."""

import pathlib

import keras

from electra_tf import config
from electra_tf.config import schema
from electra_tf.loaded_models import pretrained
from electra_tf.objectives import base
from electra_tf.objectives import registry
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from tests import tiny

WORDS = "the cat sat on mat dog good bad film a was un ##able ##s . , ! ( )"
VOCABULARY = vocabulary_lib.Vocabulary(
    (*vocabulary_lib.SPECIAL_TOKENS, *WORDS.split())
)


def build_settings(objective: str = "electra") -> config.ExperimentConfig:
    """A tiny config whose random weights give telling answers."""
    settings = tiny.with_dropout(tiny.build_settings())
    settings = tiny.with_objective(settings, objective)
    return schema.replace_fields(settings, encoder={"initializer_range": 0.3})


def build() -> pretrained.PretrainedModel:
    """A random model, the same every time."""
    keras.utils.set_random_seed(5)
    settings = build_settings()
    return pretrained.PretrainedModel.untrained(
        settings.encoder, VOCABULARY, settings.generator
    )


def write_run(
    folder: pathlib.Path,
    objective: str = "electra",
    vocabulary: vocabulary_lib.Vocabulary = VOCABULARY,
) -> base.PretrainingModel:
    """Writes what a run leaves, and gives its model."""
    settings = build_settings(objective)
    keras.utils.set_random_seed(6)
    model = registry.build_model(settings, vocabulary)
    save(folder, model, settings, vocabulary)
    return model


def save(
    folder: pathlib.Path,
    model: base.PretrainingModel,
    settings: config.ExperimentConfig,
    vocabulary: vocabulary_lib.Vocabulary,
) -> None:
    """Writes the folder of a run that left a model at step 7."""
    folder.mkdir(parents=True, exist_ok=True)
    checkpoints.claim_folder(folder, settings, vocabulary)
    weights = {f"model/{v.path}": v for v in model.trainable_variables}
    checkpoints.save(folder, 7, weights, {"best_step": None}, keep=1)
