"""Records: equal to TensorFlow's own serialisation, and parsed back."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.records import examples
from tests import tiny


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
    records = examples.serialize_examples(features)
    for index, record in zip(range(4), records, strict=True):
        example = tf.train.Example()
        for name, rows in features.items():
            feature = example.features.feature[name]
            feature.int64_list.value.extend(rows[index])
        assert record == example.SerializeToString(deterministic=True)
    empty = {name: rows[:0] for name, rows in features.items()}
    assert examples.serialize_examples(empty) == []


@pytest.mark.parametrize(
    ("ids", "mask", "segments", "is_good"),
    [
        ("2 7 3 8 3 0", "111110", "000110", True),
        ("2 7 3 2 7 3 8 3 0", "111111110", "000000110", True),
        ("2 7 3 8 3 2 7 3", "11111111", "00011000", True),
        ("2 7 3 0 2 7 3", "1110111", "0000000", False),
        ("2 7 8 2 7 3", "111111", "000000", False),
        ("2 7 3 2 7 3", "111111", "000111", False),
        ("2 7 3 8 3 7 3", "1111111", "0001100", False),
        ("9 7 3", "111", "000", False),
        ("2 7 9", "111", "000", False),
        ("2 7 3", "111", "010", False),
        ("2 50 3", "111", "000", False),  # of a vocabulary of 50
        ("2 7 3 9", "1110", "0000", False),
        ("2 7 3 0", "1111", "0000", False),
    ],
)
def test_rows_hold_whole_texts_and_padding(ids, mask, segments, is_good):
    columns = ids.split(), [*mask], [*segments]
    rows = (np.array([column], np.int32) for column in columns)
    features = dict(zip(examples.FEATURE_NAMES, rows, strict=True))
    records = tf.constant(examples.serialize_examples(features))
    try:
        examples.parse_examples(records, len(mask), tiny.VOCABULARY)
    except tf.errors.InvalidArgumentError as error:
        assert "Rows must be texts, each" in str(error)
        assert not is_good
    else:
        assert is_good
