"""Little task files and a random encoder that reads them."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import pytest

from electra_tf import config
from electra_tf.finetuning import encoders
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from tests import tiny

_NOUNS = ("cat", "dog", "table", "item")
_VERBS = ("sat", "ran", "fell")
_GOOD, _BAD = ("fine", "great"), ("poor", "awful")
VOCABULARY = vocabulary_lib.Vocabulary(
    (
        *vocabulary_lib.SPECIAL_TOKENS,
        *("the", "a", "un", "##able", "."),
        *(*_NOUNS, *_VERBS, *_GOOD, *_BAD),
    )
)


@pytest.fixture(scope="session")
def settings() -> config.ExperimentConfig:
    """The tiny model, for rows of 16 tokens, with dropout."""
    settings = tiny.with_dropout(tiny.build_settings())
    encoder = dataclasses.replace(settings.encoder, initializer_range=0.2)
    return dataclasses.replace(settings, encoder=encoder)


@pytest.fixture
def loaded(settings: config.ExperimentConfig) -> encoders.LoadedEncoder:
    """A random encoder of its own for every test."""
    return encoders.random_encoder(settings.encoder, VOCABULARY, seed=5)


@pytest.fixture(scope="session")
def pretrained_dir(
    settings: config.ExperimentConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> pathlib.Path:
    """A folder as a pre-training run leaves it."""
    folder = tmp_path_factory.mktemp("pretrained") / "model"
    loaded = encoders.random_encoder(settings.encoder, VOCABULARY, seed=5)
    return write_run(folder, settings, loaded.encoder.variables)


def write_run(
    model_dir: pathlib.Path, settings: config.ExperimentConfig, variables: Any
) -> pathlib.Path:
    """Writes what a run leaves: settings, vocabulary, a checkpoint."""
    VOCABULARY.save(model_dir)
    (model_dir / "config.json").write_text(config.to_json(settings))
    named = {f"model/{v.path}": v for v in variables}
    checkpoints.save(model_dir, 1, named, {}, keep=1)
    return model_dir


@pytest.fixture(scope="session")
def tasks_dir(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Files whose labels follow from one word, in the official layouts."""
    folder = tmp_path_factory.mktemp("tasks")
    for name in ("CoLA", "glue_data/SST-2", "tagging/conll2000"):
        (folder / name).mkdir(parents=True)
    generator = np.random.default_rng(1)
    for split, rows in (("train", 96), ("dev", 40)):
        (folder / "CoLA" / f"{split}.tsv").write_text(
            "".join(_cola_line(generator) for _ in range(rows))
        )
        (folder / "glue_data" / "SST-2" / f"{split}.tsv").write_text(
            "sentence\tlabel\n"
            + "".join(_sst2_line(generator) for _ in range(rows))
        )
    for name, rows in (("train", 96), ("test", 40)):
        (folder / "tagging" / "conll2000" / f"{name}.txt").write_text(
            "\n".join(_tagged_sentence(generator) for _ in range(rows))
        )
    return folder


def _sentence(generator: np.random.Generator, adjectives: object) -> str:
    words = (("the", "a"), adjectives, _NOUNS, _VERBS)
    return " ".join(str(generator.choice(choices)) for choices in words)


def _cola_line(generator: np.random.Generator) -> str:
    label = int(generator.integers(2))
    return f"xx\t{label}\t\t{_sentence(generator, (_BAD, _GOOD)[label])}.\n"


def _sst2_line(generator: np.random.Generator) -> str:
    label = int(generator.integers(2))
    return f"{_sentence(generator, (_BAD, _GOOD)[label])} \t{label}\n"


def _tagged_sentence(generator: np.random.Generator) -> str:
    words = _sentence(generator, _GOOD).split()
    tags = ("B-NP", "I-NP", "I-NP", "B-VP")
    return "".join(
        f"{word} X {tag}\n" for word, tag in zip(words, tags, strict=True)
    )
