"""Settings and what follows from them."""

import dataclasses

import pytest

from electra_tf.records.corpus import Corpus
from electra_tf.records.corpus import Source
from electra_tf.records.plan import BuildSettings
from electra_tf.records.plan import build_record
from electra_tf.records.readers import ReadingOptions
from electra_tf.text.vocabulary import Vocabulary


def num_shards(settings, vocabulary_folder, num_bytes):
    """Returns the planned shards for a corpus of that size."""
    corpus = Corpus("x", (Source("x", "x", num_bytes),), ReadingOptions())
    vocabulary = Vocabulary.load(vocabulary_folder)
    return build_record(settings, corpus, vocabulary)["builder"]["num_shards"]


@pytest.mark.parametrize(
    ("num_bytes", "expected"),
    [
        (10, {"train": 1, "validation": 1}),
        (5 << 16, {"train": 5, "validation": 1}),
        (50 << 20, {"train": 8, "validation": 2}),
        (1 << 30, {"train": 64, "validation": 13}),
        (1 << 40, {"train": 1000, "validation": 200}),
    ],
)
def test_number_of_shards_grows_with_the_corpus(
    settings, vocabulary_folder, num_bytes, expected
):
    settings = dataclasses.replace(settings, num_out_files=0)
    assert num_shards(settings, vocabulary_folder, num_bytes) == expected


def test_number_of_shards_is_taken_as_given(settings, vocabulary_folder):
    settings = dataclasses.replace(settings, num_out_files=12)
    expected = {"train": 12, "validation": 2}
    assert num_shards(settings, vocabulary_folder, 10) == expected
    settings = dataclasses.replace(settings, validation_fraction=0.0)
    assert num_shards(settings, vocabulary_folder, 10) == {"train": 12}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seq_length": 4}, "max_seq_length must be from 5 to 65536"),
        ({"num_out_files": -1}, "num_out_files must be from 0 .* Received: -1"),
        ({"seed": -1}, "seed must be from 0"),
        ({"validation_fraction": 1.0}, "from 0 to below 1. Received: 1.0"),
        ({"original_order": True}, "set validation_fraction to 0"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        BuildSettings(("x",), "v", "o", **change)
