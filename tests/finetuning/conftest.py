"""Little task files and a random encoder that reads them."""

import dataclasses
import functools

import numpy as np
import pytest

from electra_tf import config
from electra_tf.finetuning import finetune
from electra_tf.finetuning import model as model_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from tests import tiny
from tests.finetuning import little_task

_NOUNS = ("cat", "dog", "table", "item")
_VERBS = ("sat", "ran", "fell")
_ADJECTIVES = (("poor", "awful"), ("fine", "great"))
VOCABULARY = vocabulary_lib.Vocabulary(
    (
        *vocabulary_lib.SPECIAL_TOKENS,
        *("the", "a", "un", "##able", "."),
        *(*_NOUNS, *_VERBS, *_ADJECTIVES[1], *_ADJECTIVES[0]),
    )
)


@pytest.fixture(scope="session")
def settings():
    """The tiny model, for rows of 16 tokens, with dropout."""
    settings = tiny.with_dropout(tiny.build_settings())
    encoder = dataclasses.replace(settings.encoder, initializer_range=0.2)
    return dataclasses.replace(settings, encoder=encoder)


@pytest.fixture
def loaded(settings):
    """A random encoder of its own for every test."""
    return model_lib.random_encoder(settings.encoder, VOCABULARY, seed=5)


@pytest.fixture(scope="session")
def pretrained_dir(settings, tmp_path_factory):
    """A folder as a pre-training run leaves it."""
    folder = tmp_path_factory.mktemp("pretrained") / "model"
    loaded = model_lib.random_encoder(settings.encoder, VOCABULARY, seed=5)
    return write_run(folder, settings, loaded.encoder.variables)


def write_run(model_dir, settings, variables):
    """Writes what a run leaves: settings, vocabulary, a checkpoint."""
    VOCABULARY.save(model_dir)
    (model_dir / "config.json").write_text(config.to_json(settings))
    named = {f"model/{v.path}": v for v in variables}
    checkpoints.save(model_dir, 1, named, {}, keep=1)
    return model_dir


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    return little_task.write_files(tmp_path_factory.mktemp("little") / "data")


@pytest.fixture(scope="session")
def done(data, pretrained_dir, tmp_path_factory):
    """A fine-tuning of two trials on the little task, and its summary."""
    output = tmp_path_factory.mktemp("finetuned") / "out"
    request = little_task.build_request(
        data, pretrained_dir, output, num_trials=2, actions=finetune.ACTIONS
    )
    return request, finetune.finetune(request)


@pytest.fixture
def ask(data, pretrained_dir, tmp_path):
    """Builds requests of the little task that write to `out`."""
    return functools.partial(
        little_task.build_request, data, pretrained_dir, tmp_path / "out"
    )


@pytest.fixture(scope="session")
def tasks_dir(tmp_path_factory):
    """Files whose labels follow from one word, in the official layouts."""
    folder = tmp_path_factory.mktemp("tasks")
    generator = np.random.default_rng(1)
    for name, heading, held_out in (
        ("CoLA/{}.tsv", "", "dev"),
        ("glue_data/SST-2/{}.tsv", "sentence\tlabel\n", "dev"),
        ("STS-B/{}.tsv", "\t".join("x" * 10) + "\n", "dev"),
        ("tagging/conll2000/{}.txt", "", "test"),
    ):
        (folder / name).parent.mkdir(parents=True)
        for split, count in (("train", 96), (held_out, 40)):
            lines = [_line(name, generator) for _ in range(count)]
            (folder / name.format(split)).write_text(heading + "".join(lines))
    return folder


def _line(name, generator):
    label = int(generator.integers(2))
    choices = (("the", "a"), _ADJECTIVES[label], _NOUNS, _VERBS)
    words = [str(generator.choice(own)) for own in choices]
    if name.startswith("CoLA"):
        return f"xx\t{label}\t\t{' '.join(words)}.\n"
    if name.startswith("STS"):
        number = 0.5 + 4 * label
        return "\t".join([*"x" * 7, " ".join(words), words[-1], f"{number}\n"])
    if name.startswith("glue"):
        return f"{' '.join(words)} \t{label}\n"
    tags = ("B-NP", "I-NP", "I-NP", "B-VP")
    pairs = zip(words, tags, strict=True)
    return "".join([*(f"{word} X {tag}\n" for word, tag in pairs), "\n"])
