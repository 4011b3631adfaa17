"""Records: equal to TensorFlow's own serialisation, and parsed back."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.records import schema


def make_features(num_examples, max_seq_length, largest_id, seed=0):
    """Returns random features, the largest id among them."""
    rng = np.random.default_rng(seed)
    shape = [num_examples, max_seq_length]
    input_ids = rng.integers(0, largest_id, shape, endpoint=True)
    input_ids[0, 0] = largest_id
    return {
        "input_ids": input_ids,
        "input_mask": rng.integers(0, 2, shape, dtype=np.int32),
        "segment_ids": rng.integers(0, 2, shape, dtype=np.int32),
    }


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
@pytest.mark.parametrize("max_seq_length", [5, 127, 128])
def test_records_are_byte_equal_to_tensorflow(largest_id, max_seq_length):
    features = make_features(4, max_seq_length, largest_id)
    records = schema.serialize_examples(features)
    expected = [tensorflow_record(features, index) for index in range(4)]
    assert records == expected


def test_parsing_gives_the_features_back():
    features = make_features(9, 64, 30521)
    parsed = schema.parse_examples(
        tf.constant(schema.serialize_examples(features)), 64
    )
    assert list(parsed) == ["input_ids", "input_mask", "segment_ids"]
    for name, values in parsed.items():
        assert values.dtype == tf.int32
        np.testing.assert_array_equal(values, features[name])


def test_records_of_another_length_are_refused_by_the_parser():
    records = schema.serialize_examples(make_features(1, 64, 99))
    with pytest.raises(tf.errors.InvalidArgumentError):
        schema.parse_examples(tf.constant(records), 128)


def test_no_examples_are_no_records():
    features = {
        name: np.zeros([0, 16], np.int32) for name in schema.FEATURE_NAMES
    }
    assert schema.serialize_examples(features) == []
