"""Records: equal to TensorFlow's own serialisation, and parsed back."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.records import schema
from tests import tiny


def tensorflow_record(features, index):
    """Returns what TensorFlow makes of one example."""
    feature = {
        name: tf.train.Feature(
            int64_list=tf.train.Int64List(value=values[index].tolist())
        )
        for name, values in features.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    return example.SerializeToString(deterministic=True)


@pytest.mark.parametrize(
    "largest_id", [0, 127, 128, 16383, 16384, 2**28, 2**31 - 1]
)
@pytest.mark.parametrize("length", [5, 127, 128])
def test_records_are_byte_equal_to_those_of_tensorflow(largest_id, length):
    rng = np.random.default_rng(0)
    shape = [4, length]
    input_ids = rng.integers(0, largest_id, shape, np.int32, endpoint=True)
    input_ids[0, 0] = largest_id
    features = {
        "input_ids": input_ids,
        "input_mask": rng.integers(0, 2, shape, np.int32),
        "segment_ids": rng.integers(0, 2, shape, np.int32),
    }
    records = schema.serialize_examples(features)
    assert records == [tensorflow_record(features, i) for i in range(4)]


def test_no_examples_are_no_records():
    features = {
        name: np.zeros([0, 16], np.int32) for name in schema.FEATURE_NAMES
    }
    assert schema.serialize_examples(features) == []


@pytest.mark.parametrize(
    ("ids", "segments", "is_good"),
    [
        ("2 7 3 2 7 3 8 3 0 0", "0 0 0 0 0 0 1 1 0 0", True),
        ("2 7 3 8 3 2 7 3", "0 0 0 1 1 0 0 0", True),
        ("2 7 3 0 2 7 3", "0 0 0 0 0 0 0", False),
        ("2 7 8 2 7 3", "0 0 0 0 0 0", False),
        ("2 7 3 2 7 3", "0 0 0 1 1 1", False),
        ("2 7 3 8 3 7 3", "0 0 0 1 1 0 0", False),
    ],
)
def test_rows_hold_whole_texts_and_padding(ids, segments, is_good):
    ids, segments = (np.array([x.split()], np.int32) for x in (ids, segments))
    rows = {"input_ids": ids, "input_mask": ids > 0, "segment_ids": segments}
    records = tf.constant(schema.serialize_examples(rows))
    try:
        schema.parse_examples(records, ids.size, tiny.VOCABULARY)
    except tf.errors.InvalidArgumentError as error:
        assert "Rows must be texts, each" in str(error)
        assert not is_good
    else:
        assert is_good
