"""Settings and what follows from them."""

import dataclasses

import pytest

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.records import shards
from electra_tf.records.shards import BuildSettings


@pytest.mark.parametrize(
    ("num_bytes", "expected"),
    [
        (10, {"train": 1, "validation": 1}),
        (50 << 20, {"train": 8, "validation": 2}),
        (1 << 30, {"train": 64, "validation": 13}),
        (1 << 40, {"train": 1000, "validation": 200}),
    ],
)
def test_number_of_shards_grows_with_the_corpus(settings, num_bytes, expected):
    settings = dataclasses.replace(settings, num_out_files=0)
    assert shards._choose_num_shards(settings, num_bytes) == expected


def test_number_of_shards_is_taken_as_given(settings):
    settings = dataclasses.replace(settings, num_out_files=12)
    expected = {"train": 12, "validation": 2}
    assert shards.build_plan(settings).num_shards == expected
    settings = dataclasses.replace(settings, validation_fraction=0.0)
    assert shards.build_plan(settings).num_shards == {"train": 12}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seq_length": 4}, "`max_seq_length` must be at least 5"),
        ({"validation_fraction": 1.0}, "must be less than 1. Received: 1.0"),
        ({"corpus_format": "xml"}, "'auto', 'text', .* Received: 'xml'"),
        ({"original_order": True}, "set validation_fraction to 0"),
    ],
)
def test_impossible_settings_are_refused(change, message):
    values = {"corpus": ["x"], "vocabulary": "v", "output_dir": "o"} | change
    with pytest.raises(ValueError, match=message):
        schema.build(BuildSettings, values)


def test_output_inside_the_corpus_is_refused(settings, tmp_path):
    settings = dataclasses.replace(
        settings, corpus=(str(tmp_path),), output_dir=str(tmp_path / "x/out")
    )
    with pytest.raises(errors.DataError, match="lies inside the corpus"):
        shards.build_plan(settings)
