"""Manifests: round trip, and the check against a reader's expectations."""

import dataclasses
import json

import numpy as np
import pytest

from electra_tf.records.manifest import DatasetError
from electra_tf.records.manifest import Manifest
from electra_tf.records.manifest import describe_vocabulary
from electra_tf.records.manifest import load_index
from electra_tf.records.manifest import load_token_counts
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary


@pytest.fixture
def vocabulary(vocabulary_folder):
    return Vocabulary.load(vocabulary_folder)


def test_manifest_is_the_same_after_a_round_trip(dataset, tmp_path):
    manifest = Manifest.load(dataset / "train")
    (tmp_path / "copy").mkdir()
    manifest.save(tmp_path / "copy")
    assert Manifest.load(tmp_path / "copy") == manifest


def test_matching_reader_is_accepted(dataset, vocabulary):
    manifest = Manifest.load(dataset / "train")
    manifest.check(vocabulary=vocabulary, max_seq_length=32)
    manifest.check()


def test_other_length_is_named_with_both_values(dataset):
    with pytest.raises(
        DatasetError,
        match="max_seq_length: the dataset has 32, expected was 128",
    ):
        Manifest.load(dataset / "train").check(max_seq_length=128)


def test_other_vocabulary_is_named_with_both_values(dataset, vocabulary):
    other = Vocabulary((*SPECIAL_TOKENS, "a"), vocabulary.settings)
    message = (
        f"vocabulary sha256: the dataset has {vocabulary.sha256}, expected "
        f"was {other.sha256}; vocabulary size: the dataset has "
        f"{vocabulary.size}, expected was 6"
    )
    with pytest.raises(DatasetError, match=message):
        Manifest.load(dataset / "train").check(vocabulary=other)


def test_other_casing_is_named(dataset, vocabulary):
    settings = TokenizerSettings(do_lower_case=False)
    other = dataclasses.replace(vocabulary, settings=settings)
    with pytest.raises(
        DatasetError,
        match="tokenizer do_lower_case: the dataset has True, expected was F",
    ):
        Manifest.load(dataset / "train").check(vocabulary=other)


def test_missing_manifest_says_what_to_do(tmp_path):
    with pytest.raises(DatasetError, match="manifest.json is missing. Build"):
        Manifest.load(tmp_path)


def test_whole_dataset_and_split_are_told_apart(dataset):
    with pytest.raises(DatasetError, match=r"holds the splits \['train', 'val"):
        Manifest.load(dataset)
    with pytest.raises(DatasetError, match="holds one split"):
        load_index(dataset / "train")
    assert set(load_index(dataset)["splits"]) == {"train", "validation"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(format_version=9), "manifest format 9"),
        (lambda content: content.update(extra=1), r"unknown \['extra'\]"),
        (lambda content: content.pop("seed"), r"missing \['seed'\]"),
    ],
)
def test_foreign_manifests_are_refused(dataset, change, message):
    path = dataset / "train" / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=message):
        Manifest.load(dataset / "train")


def test_manifest_that_is_no_json_is_refused(dataset):
    (dataset / "train" / "manifest.json").write_text("{")
    with pytest.raises(DatasetError, match="no JSON file"):
        Manifest.load(dataset / "train")


def test_vocabulary_is_described_by_hash_size_and_special_ids(vocabulary):
    description = describe_vocabulary(vocabulary)
    assert description["special_ids"] == [0, 1, 2, 3, 4]
    assert description["size"] == 5 + 26 + 26 + 2


def test_token_counts_add_up(dataset, vocabulary):
    manifest = Manifest.load(dataset / "train")
    counts = load_token_counts(dataset / "train")
    assert counts.shape == (vocabulary.size,)
    assert counts.dtype == np.int64
    assert counts[[vocabulary.cls_id, vocabulary.sep_id, 0]].sum() == 0
    num_special = manifest.num_tokens - counts.sum()
    assert 2 * manifest.num_examples <= num_special
    assert num_special <= 3 * manifest.num_examples
