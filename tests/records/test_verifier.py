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


def test_another_vocabulary_is_found(dataset):
    path = dataset / "vocab.txt"
    lines = path.read_text().splitlines()
    lines[-1], lines[-2] = lines[-2], lines[-1]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(errors.DataError, match="train records do not fit"):
        verify_dataset(dataset)


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
    manifest = dataset / "validation" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 5', '"seed": 6'))
    with pytest.raises(errors.DataError) as error:
        verify_dataset(dataset)
    text = str(error.value)
    assert f"{SHARD} has {path.stat().st_size} bytes; the manifest" in text
    assert f"{SHARD} holds record" in text
    assert "validation: the manifest was changed" in text
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
    assert f"{SHARD} holds record" in str(error.value)


def test_lost_record_is_found(dataset):
    path = dataset / "train" / SHARD
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    rewrite(path, records[1:])
    adjust_manifest(dataset / "train")
    with pytest.raises(
        errors.DataError, match=f"{SHARD} holds {len(records) - 1} records, as"
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
    ("name", "position", "value"),
    [
        ("input_ids", 2, 59),  # outside the vocabulary
        ("input_ids", 0, 9),  # no [CLS]
        ("input_ids", 3, 9),  # no [SEP]
        ("input_ids", 6, 9),
        ("input_ids", 20, 9),  # no [PAD]
        ("input_mask", 20, 1),
        ("segment_ids", 1, 1),
    ],
)
def test_malformed_examples_are_found(dataset, name, position, value):
    good, bad = good_row(), good_row()
    bad[name][position] = value
    features = {key: np.stack([good[key], bad[key]]) for key in good}
    rewrite(dataset / "train" / SHARD, serialize_examples(features))
    adjust_manifest(dataset / "train")
    with pytest.raises(errors.DataError, match=r"record 1 \(from 0\), which"):
        verify_dataset(dataset)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: np.save(path, np.load(path) + 1), "differ"),
        (lambda path: path.write_bytes(path.read_bytes()[:-8]), "be read"),
    ],
)
def test_wrong_token_counts_are_found(dataset, damage, message):
    damage(dataset / "train" / "unigram_counts.npy")
    with pytest.raises(errors.DataError, match=f"train.*{message}"):
        verify_dataset(dataset)
