"""TensorFlow Datasets, against a stand-in for the optional package."""

import sys
import types

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.tasks import files

CLASSES = types.SimpleNamespace(int2str=lambda index: ("no", "yes")[index])
EXAMPLES = [
    {
        "sentence": "né".encode(),
        "label": np.int64(1),
        "idx": np.int32(7),
        "tags": np.array([0, 1]),
        "answers": {"text": np.array([b"a", b"b"], object)},
    },
    {
        "sentence": np.bytes_(b"x"),
        "label": np.int64(-1),
        "idx": np.int32(3),
        "tags": np.zeros(0, np.int64),
        "answers": {"text": np.zeros(0, object)},
    },
]


class FakeBuilder:
    """The few members of a TFDS builder that are used."""

    data_dir = "somewhere"

    def __init__(self, name):
        if name == "unknown":
            raise ValueError("Dataset unknown not found.\n - ab\n - cd")
        self.name = name
        sequence = types.SimpleNamespace(feature=CLASSES)
        answers = types.SimpleNamespace(feature={"text": None})
        self.info = types.SimpleNamespace(
            features={"sentence": None, "label": CLASSES, "idx": None,
                      "tags": sequence, "answers": answers},
            splits={"train": None, "test": None},
        )  # fmt: skip

    def is_prepared(self):
        return self.name != "elsewhere"

    def as_dataset(self, split, shuffle_files, read_config):
        assert not shuffle_files
        assert read_config == {"interleave_cycle_length": 1}
        return types.SimpleNamespace(as_numpy_iterator=lambda: iter(EXAMPLES))


@pytest.fixture
def fake_tfds(monkeypatch):
    module = types.ModuleType("tensorflow_datasets")
    module.builder = FakeBuilder
    module.ReadConfig = dict
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", module)


def test_values_are_pythons_own_and_classes_are_named(fake_tfds):
    first, second = files.read_tfds("glue/cola", "train")
    assert first == {
        "sentence": "né",
        "label": "yes",
        "idx": 7,
        "tags": ["no", "yes"],
        "answers": {"text": ["a", "b"]},
    }
    assert type(first["idx"]) is int
    assert second["sentence"] == "x"
    assert second["label"] is None
    assert second["tags"] == second["answers"]["text"] == []


@pytest.mark.parametrize(
    ("name", "split", "expected"),
    [
        ("unknown", "train", r"not know unknown: Dataset unknown not found\.$"),
        ("elsewhere", "train", "tfds build elsewhere"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(
    fake_tfds, name, split, expected
):
    with pytest.raises(errors.DataError, match=expected):
        files.read_tfds(name, split)


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(
        errors.DataError, match=r"pip install 'electra-tf\[tfds\]"
    ):
        files.read_tfds("glue/cola", "train")
