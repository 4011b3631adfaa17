"""A small vocabulary, small corpora and a builder for the records tests."""

import pathlib
import shutil

import pytest

from electra_tf.records import writer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import Vocabulary
from tests.records import dataset_folders
from tests.records.dataset_folders import LETTERS


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
    return dataset_folders.write_corpus(folder)


@pytest.fixture
def settings(corpus_folder, vocabulary_folder, tmp_path):
    """Settings that give four shards and one for validation."""
    return dataset_folders.build_settings(
        corpus_folder, vocabulary_folder, tmp_path / "dataset"
    )


@pytest.fixture(scope="session")
def finished_dataset(
    corpus_folder, vocabulary_folder, tmp_path_factory
) -> pathlib.Path:
    """What `settings` build; not to be changed."""
    folder = tmp_path_factory.mktemp("finished") / "dataset"
    writer.build_dataset(
        dataset_folders.build_settings(corpus_folder, vocabulary_folder, folder)
    )
    return folder


@pytest.fixture
def dataset(finished_dataset, tmp_path) -> pathlib.Path:
    """A finished dataset folder that may be changed, where `settings` say."""
    return shutil.copytree(finished_dataset, tmp_path / "dataset")
