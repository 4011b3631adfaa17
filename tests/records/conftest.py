"""A small vocabulary, small corpora and a builder for the records tests."""

import pathlib
import shutil

import pytest

from electra_tf.records import plan
from electra_tf.records import writer
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import Vocabulary
from tests.records.dataset_folders import LETTERS
from tests.records.dataset_folders import write_corpus


@pytest.fixture(scope="session")
def vocabulary_folder(tmp_path_factory) -> pathlib.Path:
    """A vocabulary of single letters: a word has as many pieces as letters."""
    folder = tmp_path_factory.mktemp("vocabulary")
    pieces = [*LETTERS, *(f"##{letter}" for letter in LETTERS), ".", "word"]
    Vocabulary((*SPECIAL_TOKENS, *pieces)).save(folder)
    return folder


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory) -> pathlib.Path:
    """Six files with ten documents each; not to be changed."""
    return write_corpus(tmp_path_factory.mktemp("text") / "corpus")


@pytest.fixture
def settings(corpus_folder, vocabulary_folder, tmp_path) -> plan.BuildSettings:
    """Settings that give four shards and one for validation."""
    return plan.BuildSettings(
        corpus=(str(corpus_folder),),
        vocabulary=str(vocabulary_folder),
        output_dir=str(tmp_path / "dataset"),
        max_seq_length=32,
        num_out_files=4,
        validation_fraction=0.2,
        seed=5,
    )


@pytest.fixture(scope="session")
def finished_dataset(
    corpus_folder, vocabulary_folder, tmp_path_factory
) -> pathlib.Path:
    """What `settings` build; not to be changed."""
    folder = tmp_path_factory.mktemp("finished") / "dataset"
    writer.build_dataset(
        plan.BuildSettings(
            corpus=(str(corpus_folder),),
            vocabulary=str(vocabulary_folder),
            output_dir=str(folder),
            max_seq_length=32,
            num_out_files=4,
            validation_fraction=0.2,
            seed=5,
        )
    )
    return folder


@pytest.fixture
def dataset(finished_dataset, tmp_path) -> pathlib.Path:
    """A finished dataset folder of one's own, where `settings` put it."""
    return shutil.copytree(finished_dataset, tmp_path / "dataset")
