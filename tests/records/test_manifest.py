"""Manifests: round trip, and the check against a reader's expectations."""

import json

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.records.manifest import Manifest
from electra_tf.records.manifest import load_index
from electra_tf.records.manifest import load_token_counts
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary


def test_a_reader_that_expects_something_else_is_told_all_of_it(
    dataset, vocabulary
):
    manifest = Manifest.load(dataset / "train")
    manifest.check(dataset, vocabulary, 32)
    other = Vocabulary(
        (*SPECIAL_TOKENS, "a"), TokenizerSettings(do_lower_case=False)
    )
    with pytest.raises(errors.DataError) as caught:
        manifest.check(dataset, other, 128)
    for difference in (
        "max_seq_length: 32, 128",
        f"vocabulary.sha256: {vocabulary.sha256!r}, {other.sha256!r}",
        f"vocabulary.size: {vocabulary.size}, 6",
        "tokenizer.do_lower_case: True, False",
    ):
        assert difference in str(caught.value)


def test_an_unknown_field_of_a_shard_is_named(dataset):
    path = dataset / "train" / "manifest.json"
    content = json.loads(path.read_text())
    content["shards"][0]["num_bytez"] = 1
    path.write_text(json.dumps(content))
    with pytest.raises(errors.DataError, match="field 'shards.0.num_bytez'"):
        Manifest.load(dataset / "train")


def test_whole_dataset_and_split_are_told_apart(dataset):
    with pytest.raises(
        errors.DataError, match=r"one of its splits. .* \['train', 'val"
    ):
        Manifest.load(dataset)
    with pytest.raises(errors.DataError, match="folder of a whole dataset"):
        load_index(dataset / "train")
    with pytest.raises(errors.DataError, match="No dataset at .*--resume"):
        load_index(dataset / "elsewhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 9}, "`format_version` must be 1. Received: 9"),
        ({"extra": 1}, "Unknown .* 'extra'"),
    ],
)
def test_foreign_manifests_are_refused(dataset, change, message):
    path = dataset / "train" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(errors.DataError, match=message):
        Manifest.load(dataset / "train")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda counts: counts[:-1], r"each of 59 ids.*: int64 \[58\]"),
        (lambda counts: counts / 2, r"Received: float64 \[59\]"),
        (lambda counts: counts - counts.max(), "from 0 up"),
        (lambda counts: 0 * counts, "not all 0"),
    ],
)
def test_impossible_token_counts_are_refused(dataset, change, message):
    path = dataset / "train" / "unigram_counts.npy"
    np.save(path, change(np.load(path)))
    with pytest.raises(errors.DataError, match=message):
        load_token_counts(dataset / "train")
    path.unlink()
    with pytest.raises(errors.DataError, match="counts.npy cannot be read"):
        load_token_counts(dataset / "train")
