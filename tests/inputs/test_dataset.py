"""A dataset folder is opened whole, and known by its examples."""

import shutil

import pytest

from electra_tf import errors
from electra_tf.inputs import dataset as dataset_lib
from tests import tiny
from tests import tiny_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """105 and 21 examples of 16 tokens."""
    return tiny_run.write_dataset(tmp_path_factory.mktemp("data") / "dataset")


def test_both_splits_and_the_vocabulary_are_opened(folder):
    opened = dataset_lib.open_dataset(folder, tiny.LENGTH)
    assert opened.vocabulary == tiny.VOCABULARY
    assert opened.train.num_examples == 105
    assert opened.held_out.num_examples == 21
    assert set(opened.identity) == {"train", "validation"}


def test_a_dataset_may_have_no_held_out_split(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(copy / "validation")
    opened = dataset_lib.open_dataset(copy, tiny.LENGTH)
    assert opened.held_out is None
    assert set(opened.identity) == {"train"}


def test_the_identity_follows_the_examples_and_not_the_place(folder, tmp_path):
    def identify(path):
        return dataset_lib.open_dataset(path, tiny.LENGTH).identity

    before = identify(folder)
    assert identify(shutil.copytree(folder, tmp_path / "copy")) == before
    other = tiny_run.write_dataset(tmp_path / "other", seed=1)
    after = identify(other)
    assert all(before[split] != after[split] for split in before)


def test_rows_of_another_length_are_refused(folder):
    with pytest.raises(errors.DataError, match="max_seq_length"):
        dataset_lib.open_dataset(folder, 32)


def test_a_folder_without_a_dataset_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="expected train/manifest"):
        dataset_lib.open_dataset(tmp_path, tiny.LENGTH)
