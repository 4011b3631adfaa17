"""A small vocabulary, small corpora and a builder for the records tests."""

import dataclasses
import pathlib
import random
import shutil
from contextlib import AbstractContextManager

import pytest

from electra_tf import errors
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import shards
from electra_tf.records import writer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def refused(message: str) -> AbstractContextManager:
    """Expects a `DataError` of these words."""
    return pytest.raises(errors.DataError, match=message)


def write_corpus(folder: pathlib.Path, num_files: int = 6) -> pathlib.Path:
    """Writes files of random words; the same ones at every call."""
    rng = random.Random(7)

    def line():
        words = range(rng.randint(1, 12))
        return " ".join(
            "".join(rng.choices(LETTERS, k=rng.randint(1, 6))) for _ in words
        )

    folder.mkdir(parents=True)
    for index in range(num_files):
        documents = [
            "\n".join(line() for _ in range(rng.randint(1, 12)))
            for _ in range(10)
        ]
        text = "\n\n".join(documents) + "\n"
        (folder / f"part_{index}.txt").write_text(text)
    return folder


def build_settings(corpus, vocabulary, output) -> shards.BuildSettings:
    """Settings that give four shards and one for validation."""
    return shards.BuildSettings(
        corpus=(str(corpus),), vocabulary=str(vocabulary),
        output_dir=str(output), max_seq_length=32, num_out_files=4,
        validation_fraction=0.2, seed=5,
    )  # fmt: skip


def build(settings, **changes) -> pathlib.Path:
    """Builds a dataset by settings with changes; its folder."""
    settings = dataclasses.replace(settings, **changes)
    writer.build_dataset(settings)
    return pathlib.Path(settings.output_dir)


def folder_bytes(folder: pathlib.Path) -> dict[str, bytes]:
    """Every file below a folder with its content."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def read_units(corpus, unit_bytes=1 << 20) -> tuple[list[list[str]], int]:
    """The documents read unit by unit, and the number of units."""
    units = corpus_lib.plan_units(corpus, unit_bytes)
    documents = [
        document.lines
        for unit in units
        for source in unit
        for document in corpus_lib.open_source(source, corpus.options)
    ]
    return documents, len(units)


@pytest.fixture
def many_units(monkeypatch):
    """Cuts the corpus into units of about one file each."""
    plan_units = corpus_lib.plan_units
    monkeypatch.setattr(
        corpus_lib, "plan_units", lambda corpus: plan_units(corpus, 1500)
    )


@pytest.fixture
def interrupt(monkeypatch):
    """Makes the n-th call of a pass the last for now; gives all its tasks."""

    def prepare(module, name, number):
        function, tasks = getattr(module, name), []

        def call(plan, task, *rest):
            tasks.append(task)
            if len(tasks) == number:
                raise KeyboardInterrupt
            return function(plan, task, *rest)

        monkeypatch.setattr(module, name, call)
        return tasks

    return prepare


@pytest.fixture(scope="session")
def vocabulary_folder(tmp_path_factory) -> pathlib.Path:
    """A vocabulary of single letters: a word has as many pieces as letters."""
    folder = tmp_path_factory.mktemp("vocabulary")
    pieces = [*LETTERS, *(f"##{letter}" for letter in LETTERS), ".", "word"]
    Vocabulary((*SPECIAL_TOKENS, *pieces)).save(folder)
    return folder


@pytest.fixture
def vocabulary(vocabulary_folder) -> Vocabulary:
    return Vocabulary.load(vocabulary_folder)


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory) -> pathlib.Path:
    """Six files with ten documents each; not to be changed."""
    folder = tmp_path_factory.mktemp("text") / "corpus"
    return write_corpus(folder)


@pytest.fixture
def settings(corpus_folder, vocabulary_folder, tmp_path):
    output = tmp_path / "dataset"
    return build_settings(corpus_folder, vocabulary_folder, output)


@pytest.fixture(scope="session")
def finished_dataset(
    corpus_folder, vocabulary_folder, tmp_path_factory
) -> pathlib.Path:
    """The dataset that `settings` build; tests must not change it."""
    folder = tmp_path_factory.mktemp("finished") / "dataset"
    return build(build_settings(corpus_folder, vocabulary_folder, folder))


@pytest.fixture
def dataset(finished_dataset, tmp_path) -> pathlib.Path:
    """A finished dataset folder that may be changed, where `settings` say."""
    return shutil.copytree(finished_dataset, tmp_path / "dataset")
