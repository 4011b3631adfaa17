"""Damage of every kind is found and named."""

import json

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.records.manifest import Manifest
from electra_tf.records.manifest import file_sha256
from electra_tf.records.schema import serialize_examples
from electra_tf.records.verifier import verify_dataset

SHARD = "pretrain_data.tfrecord-00002-of-00004"


def rewrite(path, records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def adjust_manifest(folder):
    """Makes sizes and checksums of the manifest fit the shards again."""
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    for shard in content["shards"]:
        shard["num_bytes"] = (folder / shard["name"]).stat().st_size
        shard["sha256"] = file_sha256(folder / shard["name"])
    path.write_text(json.dumps(content))


def test_another_vocabulary_and_a_changed_manifest_are_found(dataset):
    path = dataset / "validation" / "manifest.json"
    path.write_text(path.read_text().replace('"seed": 5', '"seed": 6'))
    path = dataset / "vocab.txt"
    lines = path.read_text().splitlines()
    lines[-1], lines[-2] = lines[-2], lines[-1]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(errors.DataError) as caught:
        verify_dataset(dataset)
    assert "manifest.json was changed" in str(caught.value)
    assert "vocabulary is not the recorded" in str(caught.value)


def test_intact_dataset_passes(dataset):
    counts = verify_dataset(dataset)
    assert counts == {
        split: Manifest.load(dataset / split).num_examples
        for split in ("train", "validation")
    }


def test_all_damage_is_listed(dataset):
    path = dataset / "train" / SHARD
    path.write_bytes(path.read_bytes()[:-100])
    (dataset / "train" / SHARD.replace("2-", "1-")).unlink()
    (dataset / "validation" / "pretrain_data.tfrecord-00000-of-00001").unlink()
    with pytest.raises(errors.DataError) as error:
        verify_dataset(dataset)
    text = str(error.value)
    assert f"{SHARD} is truncated: {path.stat().st_size} bytes" in text
    assert "00001-of-00004 is missing" in text
    assert "00000-of-00001 is missing" in text
    assert "--resume" in text


@pytest.mark.parametrize("position", [3, -50])
def test_flipped_bit_is_named(dataset, position):
    path = dataset / "train" / SHARD
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.DataError) as error:
        verify_dataset(dataset)
    assert f"{SHARD} was changed: its sha256" in str(error.value)
    assert f"{SHARD}: reading fails after" in str(error.value)


def test_lost_record_is_found(dataset):
    path = dataset / "train" / SHARD
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    rewrite(path, records[1:])
    adjust_manifest(dataset / "train")
    with pytest.raises(
        errors.DataError, match=f"{SHARD} holds {len(records) - 1} examples"
    ):
        verify_dataset(dataset)


def good_row():
    """Returns one well-formed example of 32 tokens: 2 is [CLS], 3 [SEP]."""
    ids = np.zeros([32], np.int32)
    ids[:7] = [2, 10, 11, 3, 12, 13, 3]
    segments = np.zeros([32], np.int32)
    segments[4:7] = 1
    mask = (ids > 0).astype(np.int32)
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


@pytest.mark.parametrize(
    ("name", "position", "value", "message"),
    [
        ("input_ids", 2, 59, "outside the vocabulary of 59"),
        ("input_ids", 0, 9, r"does not begin with \[CLS\]"),
        ("input_ids", 6, 9, r"does not end with \[SEP\]"),
        ("input_ids", 20, 9, r"no?t? ?\[PAD\] where input_mask is 0"),
        ("input_mask", 20, 1, "not ones followed by zeros"),
        ("segment_ids", 1, 1, "segment_ids are not zeros, then ones"),
    ],
)
def test_malformed_examples_are_found(dataset, name, position, value, message):
    row = good_row()
    row[name][position] = value
    features = {key: values[np.newaxis] for key, values in row.items()}
    rewrite(dataset / "train" / SHARD, serialize_examples(features))
    adjust_manifest(dataset / "train")
    with pytest.raises(errors.DataError, match=message):
        verify_dataset(dataset)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: np.save(path, np.load(path) + 1), "token counts differ"),
        (lambda path: path.write_bytes(path.read_bytes()[:-8]), "be read"),
    ],
)
def test_wrong_token_counts_are_found(dataset, damage, message):
    damage(dataset / "train" / "unigram_counts.npy")
    with pytest.raises(errors.DataError, match=f"train.*{message}"):
        verify_dataset(dataset)
