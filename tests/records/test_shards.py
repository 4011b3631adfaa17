"""Shards: their names, their order, and what counts as finished."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.records import parts
from electra_tf.records import shards
from electra_tf.records.corpus import open_corpus
from electra_tf.records.parts import PartTask
from electra_tf.records.plan import build_plan
from electra_tf.records.schema import parse_examples
from electra_tf.records.shards import ShardTask
from electra_tf.text.vocabulary import Vocabulary


@pytest.fixture
def plan(settings, vocabulary_folder, tmp_path):
    """The plan of a build whose only part is made."""
    folder = tmp_path / "dataset" / ".build"
    for name in ("parts", "shards"):
        (folder / name).mkdir(parents=True)
    corpus = open_corpus(settings.corpus)
    vocabulary = Vocabulary.load(vocabulary_folder)
    plan = build_plan(settings, corpus, vocabulary, folder)

    def tokenize(lines):
        ids = [5 + len(word) for line in lines for word in line.split()]
        return np.array(ids, np.int32), [len(line.split()) for line in lines]

    parts.build_part(plan, PartTask(0, "x"), tokenize, lambda *content: None)
    return plan


def write(plan, index):
    """Writes a training shard."""
    task = ShardTask("train", index, (index,))
    return shards.write_shard(plan, task, lambda *content: None)


def test_names_sort_as_numbers_do():
    names = [shards.shard_name(index, 12) for index in range(12)]
    assert names == sorted(names)
    assert names[3] == "pretrain_data.tfrecord-00003-of-00012"


def test_shard_holds_its_examples_in_another_order(plan):
    shard = write(plan, 2)
    path = shards.shard_path(plan, "train", 2)
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    found = parse_examples(tf.constant(records), 32)["input_ids"].numpy()
    examples = parts.load_shard_examples(plan, 0, "train", 2)
    expected = shards._rows(plan, examples)["input_ids"]
    assert shard.num_examples == len(found) == len(expected)
    assert not np.array_equal(found, expected)
    rows = [collections.Counter(map(bytes, ids)) for ids in (found, expected)]
    assert rows[0] == rows[1]


def test_shards_are_shuffled_differently(plan):
    orders = [
        shards._shuffled(plan, ShardTask("train", index, ()), 50).tolist()
        for index in (0, 1, 0)
    ]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == list(range(50))


def test_finished_shards_are_found_until_their_size_changes(plan):
    assert shards.find_shard(plan, "train", 0) is None
    shard = write(plan, 0)
    assert shards.find_shard(plan, "train", 0) == shard
    path = shards.shard_path(plan, "train", 0)
    path.write_bytes(path.read_bytes()[:-1])
    assert shards.find_shard(plan, "train", 0) is None
    path.unlink()
    assert shards.find_shard(plan, "train", 0) is None
