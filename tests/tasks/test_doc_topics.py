"""The embedded little task, from a small corpus made here."""

import collections

from data.doc_topics import topics

SIZES = {"train": 80, "dev": 16, "test": 16}


def test_no_document_is_in_two_splits():
    documents = {
        label: [
            [f"The {label} of node {n} has {k} axes or lines." for k in "abcde"]
            for n in range(12)
        ]
        for label in topics.TOPICS
    }
    splits = topics.make_splits(documents, SIZES, seed=3)
    used = [{e.text.split(" has ")[0] for e in r} for r in splits.values()]
    assert sum(map(len, used)) == len(set.union(*used))
    for split, size in SIZES.items():
        assert all(f"The {e.label} of" in e.text for e in splits[split])
        counts = collections.Counter(e.label for e in splits[split])
        assert counts == dict.fromkeys(topics.TOPICS, size // 4)
    assert topics.make_splits(documents, SIZES, seed=2) != splits
