"""The embedded little task, from a small corpus made here."""

import collections
import json
import random

import pytest

from data.doc_topics import topics
from electra_tf import errors
from electra_tf.records import python_docs

SIZES = {"train": 80, "dev": 16, "test": 16}
_WORDS = ("axis", "loop", "value", "node", "color", "layer", "frame", "line")


def _sentence(rng):
    return f"The {' '.join(rng.choices(_WORDS, k=7))} is here."


def _documents(num_documents=12):
    rng, rows = random.Random(1), range(num_documents)
    return {
        label: [[_sentence(rng) for _ in range(5)] for _ in rows]
        for label in topics.TOPICS
    }


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Takes the place of the embedded corpus."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    rng = random.Random(2)
    for names in topics.TOPICS.values():
        for name in names:
            rows = [[_sentence(rng) for _ in range(6)] for _ in range(9)]
            text = "\n\n".join(map(" ".join, rows))
            (folder / f"{name}.txt").write_text(text + "\n")
    versions = {"versions": python_docs.installed_versions()}
    (folder / python_docs.PROVENANCE_FILE).write_text(json.dumps(versions))
    monkeypatch.setattr(topics, "SIZES", SIZES)
    return folder


def test_no_document_is_in_two_splits():
    documents = _documents()
    home = {
        sentence: (label, number)
        for label, rows in documents.items()
        for number, sentences in enumerate(rows)
        for sentence in sentences
    }
    splits = topics.make_splits(documents, SIZES, seed=3)
    found = [{home[e.text] for e in rows} for rows in splits.values()]
    assert sum(map(len, found)) == len(set.union(*found))
    for split, size in SIZES.items():
        assert all(home[e.text][0] == e.label for e in splits[split])
        counts = collections.Counter(e.label for e in splits[split])
        assert counts == dict.fromkeys(topics.TOPICS, size // 4)
    assert topics.make_splits(documents, SIZES, seed=2) != splits


def test_what_is_there_is_kept_and_nothing_else_overwritten(corpus, tmp_path):
    folder = topics.prepare(tmp_path / "out", corpus)
    time = (folder / "train.csv").stat().st_mtime_ns
    assert topics.prepare(folder, corpus) == folder
    assert (folder / "train.csv").stat().st_mtime_ns == time
    with pytest.raises(errors.DataError, match="holds other files.*Delete it"):
        topics.prepare(folder, corpus, seed=2)
