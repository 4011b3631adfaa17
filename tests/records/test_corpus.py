"""Corpus names to sources and work units."""

import types

import pytest

from electra_tf.records import corpus as corpus_lib
from electra_tf.records.corpus import open_corpus
from tests.records.conftest import read_units
from tests.records.conftest import refused


def all_documents(corpus):
    return [
        document.lines
        for source in corpus.sources
        for document in corpus_lib.open_source(source, corpus.options)
    ]


def test_folder_is_searched_recursively_in_sorted_order(tmp_path):
    for name in ("b.txt", "a/z.txt", "a/.hidden", ".git/x", "c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    corpus = open_corpus(str(tmp_path))
    names = [source.name for source in corpus.sources]
    assert names == ["a/z.txt", "b.txt", "c"]
    assert all_documents(corpus) == [["a/z.txt"], ["b.txt"], ["c"]]


def test_a_link_to_a_folder_is_not_left_out_in_silence(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.txt").write_text("one")
    (tmp_path / "near").mkdir()
    for name in (".hidden", "link"):
        (tmp_path / "near" / name).symlink_to(tmp_path / "far")
    with refused("near/link is a link to a fol"):
        open_corpus(str(tmp_path / "near"))
    corpus = open_corpus(str(tmp_path / "near" / "*"))
    assert all_documents(corpus) == [["one"]]


def test_missing_and_empty_corpora_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("")
    for name, message in (
        ("nowhere", "No corpus at .*nowhere. Name a"),
        ("", "is empty: 1 files, 0 bytes"),
    ):
        with refused(message):
            open_corpus(str(tmp_path / name))


def test_units_hold_every_document_once(tmp_path):
    documents = [
        "\n".join(f"document {index} line {line}" for line in range(index % 5))
        for index in range(40)
    ]
    (tmp_path / "a.txt").write_text("\n\n".join(documents))
    (tmp_path / "b.txt").write_text("\n \t\n\n".join(documents) + "\n\n\n")
    (tmp_path / "c.txt").write_text("tiny")
    corpus = open_corpus(str(tmp_path))
    for unit_bytes in (1, 120, 10**6):
        found, num_units = read_units(corpus, unit_bytes)
        assert found == all_documents(corpus)
        assert (num_units > 1) == (unit_bytes < 10**6)


def test_how_a_corpus_is_read_is_told_first(tmp_path, monkeypatch):
    (tmp_path / "a").write_text('{"text": "one"}\n' * 2)
    (tmp_path / "b.txt").write_text("two\n\nthree")
    (tmp_path / "c.txt").write_text("x")
    corpus = open_corpus(str(tmp_path))
    assert corpus_lib.preview(corpus) == [
        "Corpus: 1 file of jsonl, a document each 'text'.",
        "Corpus: 2 files of text, blank lines between documents.",
        "5 documents, 3 characters on average.",
        "The first, of a: one",
    ]
    monkeypatch.setattr(corpus_lib, "_MOST_CHARACTERS", 3)
    monkeypatch.setattr(corpus_lib, "_MOST_FILES", 1)
    assert corpus_lib.preview(corpus)[1:3] == [
        "2 more files were not looked at yet.",
        "The first 2 documents, 3 characters on average.",
    ]


JSON = [f'{{"text": "{"x" * n}"}}\n' for n in (9, 3 << 20, 9, 9)]


@pytest.mark.parametrize(
    ("name", "records", "unit_bytes", "num_units"),
    [
        ("a.jsonl", JSON[:1] * 48, 100, 10),
        ("wiki_00", ['<doc id="1">\nTitle\n\nText.\n</doc>\n'] * 48, 100, 12),
        # The second line is longer than what is read at once.
        ("a.jsonl", JSON, 1000, 2),
    ],
)
def test_large_structured_files_are_cut_between_documents(
    tmp_path, name, records, unit_bytes, num_units
):
    (tmp_path / name).write_text("".join(records))
    corpus = open_corpus(str(tmp_path))
    found, count = read_units(corpus, unit_bytes)
    assert found == all_documents(corpus)
    assert (len(found), count) == (len(records), num_units)


TEXTS = [f"text {index}\n\nmore".encode() for index in range(10)]


class FakeBuilder:
    """The few members of a TFDS builder that are used."""

    def __init__(self, name):
        split = types.SimpleNamespace(num_examples=10, num_bytes=4 << 20)
        self.info = types.SimpleNamespace(
            features={"text": None, "title": None},
            full_name=f"{name}/1.0.0",
            splits={"train": split},
        )
        self.download_and_prepare = lambda: None

    def as_dataset(self, split, shuffle_files, read_config):
        assert not shuffle_files
        assert read_config == {"interleave_cycle_length": 1}
        begin, end = split.removeprefix("train[").removesuffix("]").split(":")
        texts = TEXTS[int(begin) : int(end)]
        examples = [{"text": text, "title": text[:4]} for text in texts]
        return types.SimpleNamespace(as_numpy_iterator=lambda: iter(examples))


def test_tfds_examples_are_documents_in_order(fake_tfds):
    corpus = open_corpus("tfds:books")
    expected = [[f"text {index}", "more"] for index in range(10)]
    assert all_documents(corpus) == expected
    assert len(corpus.sources) == 4
    assert corpus.provenance == {"books": "books/1.0.0"}
