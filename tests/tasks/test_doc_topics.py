"""The embedded little task, from a small corpus made here."""

import collections
import random

from data.doc_topics import topics

SIZES = {"train": 80, "dev": 16, "test": 16}
_WORDS = ("axis", "loop", "value", "node", "color", "layer", "frame", "line")


def _sentence(rng):
    return f"The {' '.join(rng.choices(_WORDS, k=7))} is here."


def test_no_document_is_in_two_splits():
    rng = random.Random(1)
    documents = {
        label: [[_sentence(rng) for _ in range(5)] for _ in range(12)]
        for label in topics.TOPICS
    }
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
