"""Records: equal to TensorFlow's own serialisation, and parsed back."""

import contextlib

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
def test_records_are_byte_equal_to_tensorflow_and_parsed_back(
    largest_id, length
):
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
    parsed = schema.parse_examples(tf.constant(records), length)
    assert list(parsed) == list(features)
    for name, values in parsed.items():
        assert values.dtype == tf.int32
        np.testing.assert_array_equal(values, features[name])


def test_no_examples_are_no_records():
    features = {
        name: np.zeros([0, 16], np.int32) for name in schema.FEATURE_NAMES
    }
    assert schema.serialize_examples(features) == []


_A_TEXT = [2, 7, 3], [1, 1, 1], [0, 0, 0]
_A_PAIR = [2, 7, 3, 8, 3], [1, 1, 1, 1, 1], [0, 0, 0, 1, 1]
_PADDING = [0, 0], [0, 0], [0, 0]


@pytest.mark.parametrize(
    ("parts", "is_good"),
    [
        ((_A_TEXT, _A_PAIR, _PADDING), True),
        ((_A_PAIR, _A_TEXT), True),
        ((_A_PAIR, _PADDING), True),
        ((_PADDING, _A_TEXT), False),
        ((_A_TEXT, _PADDING, _A_TEXT), False),
        # A text that ends without [SEP], one that begins in segment 1, and a
        # segment that goes back to 0 within a text.
        ((([2, 7, 8], *_A_TEXT[1:]), _A_TEXT), False),
        ((_A_PAIR, (*_A_TEXT[:2], [1, 1, 1])), False),
        ((_A_PAIR, ([7, 3], [1, 1], [0, 0])), False),
    ],
)
def test_rows_hold_whole_texts_and_padding(parts, is_good):
    rows = [np.concatenate(values)[None] for values in zip(*parts, strict=True)]
    records = schema.serialize_examples(
        dict(zip(schema.FEATURE_NAMES, rows, strict=True))
    )
    expected = contextlib.nullcontext()
    if not is_good:
        expected = pytest.raises(
            tf.errors.InvalidArgumentError, match="Rows must be texts, each"
        )
    with expected:
        schema.parse_examples(
            tf.constant(records), rows[0].shape[1], tiny.VOCABULARY
        )
