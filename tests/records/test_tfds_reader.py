"""TFDS corpora, against a stand-in for the optional package."""

import sys
import types

import pytest

from electra_tf import errors
from electra_tf.records.corpus import open_corpus
from electra_tf.records.tfds_reader import parse_reference

TEXTS = [f"text {index}\n\nmore".encode() for index in range(10)]


class FakeBuilder:
    """The few members of a TFDS builder that are used."""

    def __init__(self, name):
        if name == "unknown":
            raise ValueError("Not found\n - ab\n - cd\nDid you mean ab?")
        split = types.SimpleNamespace(num_examples=10, num_bytes=4 << 20)
        self.info = types.SimpleNamespace(
            features={"text": None, "title": None},
            full_name=f"{name}/1.0.0",
            splits={"train": split},
        )
        self.is_prepared = False

    def download_and_prepare(self):
        self.is_prepared = True

    def as_dataset(self, split, shuffle_files, read_config):
        assert not shuffle_files
        assert read_config == {"interleave_cycle_length": 1}
        begin, end = split.removeprefix("train[").removesuffix("]").split(":")
        texts = TEXTS[int(begin) : int(end)]
        examples = [{"text": text, "title": text[:4]} for text in texts]
        return types.SimpleNamespace(as_numpy_iterator=lambda: iter(examples))


@pytest.fixture
def fake_tfds(monkeypatch):
    module = types.ModuleType("tensorflow_datasets")
    module.builder = FakeBuilder
    module.ReadConfig = dict
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", module)


def test_examples_are_documents_in_order(fake_tfds):
    corpus = open_corpus("tfds:books")
    lines = [document.lines for document in corpus.documents()]
    assert lines == [[f"text {index}", "more"] for index in range(10)]
    assert len(corpus.sources) == 4
    assert corpus.provenance == {"books": "books/1.0.0"}


def test_field_is_chosen_and_checked(fake_tfds):
    documents = list(open_corpus("tfds:books:title").documents())
    assert documents[0].lines == ["text"]
    with pytest.raises(
        errors.DataError, match="no field 'body'; it has .*'title'"
    ):
        list(open_corpus("tfds:books:body").documents())


def test_unknown_data_set_is_one_clear_error(fake_tfds):
    with pytest.raises(
        errors.DataError,
        match=r"cannot give unknown, split train: Not found Did you mean ab\?$",
    ):
        open_corpus("tfds:unknown")


def test_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(errors.DataError, match=r"electra-tf\[tfds\]"):
        open_corpus("tfds:books")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("tfds:books", ("books", "text")),
        ("tfds:wiki/2023.en:1.0.0", ("wiki/2023.en:1.0.0", "text")),
        ("tfds:wiki/2023.en:1.*.*:title", ("wiki/2023.en:1.*.*", "title")),
        ("tfds:books:body", ("books", "body")),
    ],
)
def test_references_are_parsed(reference, expected):
    assert parse_reference(reference) == expected


@pytest.mark.parametrize("reference", ["tfds:", "tfds:a:b:c"])
def test_bad_references_are_refused(reference):
    with pytest.raises(errors.DataError, match="Expected tfds:NAME"):
        parse_reference(reference)
