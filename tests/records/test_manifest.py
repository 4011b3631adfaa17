"""Manifests: round trip, and the check against a reader's expectations."""

import json

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.records.manifest import Index
from electra_tf.records.manifest import Manifest
from electra_tf.records.manifest import load_token_counts
from electra_tf.records.manifest import verify_dataset
from electra_tf.text.vocabulary import SPECIAL_TOKENS
from electra_tf.text.vocabulary import TokenizerSettings
from electra_tf.text.vocabulary import Vocabulary
from tests.records.conftest import refused


def test_a_reader_that_expects_something_else_is_told_all_of_it(
    dataset, vocabulary
):
    manifest = Manifest.load(dataset / "train")
    manifest.check(dataset, vocabulary, 32)
    cased = TokenizerSettings(do_lower_case=False)
    other = Vocabulary((*SPECIAL_TOKENS, "a"), cased)
    with pytest.raises(errors.DataError) as caught:
        manifest.check(dataset, other, 128)
    for difference in (
        "max_seq_length: 32, 128",
        f"vocabulary.sha256: {vocabulary.sha256!r}, {other.sha256!r}",
        f"vocabulary.size: {vocabulary.size}, 6",
        "tokenizer.do_lower_case: True, False",
        "Set --config.data.max_seq_length=32, or build the dataset with 128",
    ):
        assert difference in str(caught.value)


def test_whole_dataset_and_split_are_told_apart(dataset):
    with refused(r"one of its splits. .* of a whole data"):
        Manifest.load(dataset)
    with refused("folder of a whole dataset"):
        Index.load(dataset / "train")
    with refused("No dataset at .*--resume"):
        Index.load(dataset / "elsewhere")


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
    with refused(message):
        load_token_counts(dataset / "train")
    path.unlink()
    with refused("counts.npy cannot be read"):
        load_token_counts(dataset / "train")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("train:shards/0/name", "../../x", "shards.0.name` must be text of"),
        ("train:shards/0/num_bytes", -1, "num_bytes` must be at least 0"),
        ("train:shards/0/bytez", 1, "Unknown field 'shards.0.bytez'"),
        ("train:shards", [], "`shards` must name one or more .* 0 different"),
        ("train:num_examples", 5, "different files with 5 examples"),
        ("train:token_counts", "/etc/passwd", "`token_counts` must be text"),
        ("train:max_seq_length", 10**12, "must be at most 65536"),
        ("train:format_version", 9, "version` must be 1. Received: 9"),
        ("train:extra", 1, "Unknown .* 'extra'"),
        (".:splits", {}, "`splits` must be"),
        (".:splits", ["train"], "`splits` must be a section of fields"),
        (".:splits/train", {}, "num_examples` is missing"),
        (".:splits/test", 3, "must be 'train' or 'validation'"),
        (".:build", None, "`build` must be a section of fields"),
    ],
)
def test_edited_manifests_are_refused(dataset, path, value, message):
    folder, _, keys = path.partition(":")
    file = dataset / folder / "manifest.json"
    *parents, last = keys.split("/", 2)
    place = content = json.loads(file.read_text())
    for key in parents:
        place = place[int(key) if key.isdigit() else key]
    place[last] = value
    file.write_text(json.dumps(content))
    with refused(f"{file}: .*{message}"):
        verify_dataset(dataset)
