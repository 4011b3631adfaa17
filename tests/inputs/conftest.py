"""Small splits on disk whose rows say which example they are."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inputs.dataset import Split
from electra_tf.records import examples

LENGTH = 8


def number_examples(first, count, length=LENGTH):
    """Features that begin with [CLS] and 1000 + the example's number."""
    numbers = 1000 + np.arange(first, first + count)
    input_ids = np.zeros([count, length], np.int64)
    input_ids[:, :5] = 7
    input_ids[:, 0] = 101
    input_ids[:, 1] = numbers
    segment_ids = np.zeros_like(input_ids)
    segment_ids[:, 3:5] = 1
    return {
        "input_ids": input_ids,
        "input_mask": (input_ids > 0).astype(np.int64),
        "segment_ids": segment_ids,
    }


def write_shard(path, features):
    """Writes features as one TFRecord file."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in examples.serialize_examples(features):
            writer.write(record)


@pytest.fixture
def make_split(tmp_path):
    """A function from shard sizes to a `Split` of numbered examples."""

    def make(shard_sizes, length=LENGTH):
        paths, first = [], 0
        for index, size in enumerate(shard_sizes):
            path = tmp_path / f"pretrain_data.tfrecord-{index:05d}"
            write_shard(path, number_examples(first, size, length))
            paths.append(str(path))
            first += size
        return Split(tuple(paths), tuple(shard_sizes), length)

    return make
