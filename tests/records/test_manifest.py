"""Manifests: round trip and checks; damage of every kind is found and named."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.records.examples import FEATURE_NAMES
from electra_tf.records.examples import FORM
from electra_tf.records.examples import serialize_examples
from electra_tf.records.manifest import Index
from electra_tf.records.manifest import Manifest
from electra_tf.records.manifest import file_sha256
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
    with refused("No dataset in .*--resume"):
        Index.load(dataset / "elsewhere")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("train:shards/0/name", "../../x", "shards.0.name` must be text of"),
        ("train:shards", [], "`shards` must name one or more .* 0 different"),
        ("train:num_examples", 5, "different files with 5 examples"),
        ("train:token_counts", "/etc/passwd", "`token_counts` must be text"),
        ("train:max_seq_length", 10**12, "must be at most 65536"),
        (".:splits", ["train"], "`splits` must be a section of fields"),
        (".:splits/train", {}, "num_examples` is missing"),
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


SHARD = "pretrain_data.tfrecord-00002-of-00004"


def test_all_damage_is_listed(dataset):
    path = dataset / "train" / SHARD
    path.write_bytes(path.read_bytes()[:-100])
    flipped = dataset / "train" / SHARD.replace("2-", "0-")
    content = bytearray(flipped.read_bytes())
    content[-50] ^= 1
    flipped.write_bytes(content)
    (dataset / "train" / SHARD.replace("2-", "1-")).unlink()
    manifest = dataset / "validation" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 5', '"seed": 6'))
    with pytest.raises(errors.DataError) as error:
        verify_dataset(dataset)
    for text in (
        f"{path} has {path.stat().st_size} bytes; the manifest says",
        f"{path} holds record ",
        f"{flipped} was changed: its sha256",
        f"{flipped} holds record ",
        "00001-of-00004 is missing",
        "validation: the manifest was changed",
        "--resume",
    ):
        assert text in str(error.value)


def _rewrite(folder, records):
    """Writes other records into a shard, as if the builder had made them."""
    path, manifest = folder / SHARD, folder / "manifest.json"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)
    content = json.loads(manifest.read_text())
    found = {"num_bytes": path.stat().st_size, "sha256": file_sha256(path)}
    content["shards"][2] |= found
    manifest.write_text(json.dumps(content))


def test_a_lost_record_and_a_row_of_another_form_are_found(dataset):
    shard = tf.data.TFRecordDataset(str(dataset / "train" / SHARD))
    records = list(shard.as_numpy_iterator())
    _rewrite(dataset / "train", records[1:])
    with refused(f"{SHARD} holds {len(records) - 1} records, as"):
        verify_dataset(dataset)
    # It ends without [SEP].
    row = {name: np.zeros([1, 32], np.int32) for name in FEATURE_NAMES}
    row["input_ids"][0, :3] = 2, 10, 11
    row["input_mask"][0, :3] = 1
    _rewrite(dataset / "train", serialize_examples(row))
    with refused(f"is not {re.escape(FORM)}"):
        verify_dataset(dataset)


def test_wrong_token_counts_are_found(dataset):
    path = dataset / "train" / "unigram_counts.npy"
    np.save(path, np.load(path) + 1)
    with refused("counts of train differ"):
        verify_dataset(dataset)
