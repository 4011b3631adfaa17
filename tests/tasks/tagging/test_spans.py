"""Spans, schemes and scores, from worked examples and random spans."""

import random

import pytest

from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging.spans import Span


@pytest.mark.parametrize("scheme", spans.SCHEMES)
def test_spans_survive_every_scheme(scheme):
    sentences = []
    rng = random.Random(3)
    for _ in range(200):
        found, start = [], 0
        while start < 12:
            end = start + rng.randrange(4)
            if rng.random() < 0.6:
                found.append(Span(start, end, rng.choice(["NP", "VP"])))
            start = end + 1
        tags = spans.encode_spans(found, 16, scheme)
        assert spans.find_spans(tags, scheme) == found
        assert spans.reencode(tags, scheme, scheme) == tags
        learned = spans.reencode(tags, "BIOES", scheme)
        assert learned == spans.encode_spans(found, 16, "BIOES")
        kinds = ["", *(tag.partition("-")[2] for tag in tags)]
        translated = [
            spans.translate(tag, scheme, kind == tag.partition("-")[2])
            for tag, kind in zip(learned, kinds, strict=False)
        ]
        assert translated == tags
        sentences.append(tags)
    assert spans.find_scheme(sentences) == scheme


def test_spans_are_learned_in_one_scheme():
    tags = [("B-NP", "I-NP", "O"), ("I-VP",)]
    expected = ("B-NP", "E-NP", "O", "S-VP")
    assert spans.list_classes(tags, "BIO") == expected
    assert spans.list_classes([("VB", "NN"), ("NN",)], "") == ("NN", "VB")
    # A span of three words, and of one, in the letters of each scheme.
    both = [Span(0, 2, "A"), Span(3, 3, "A")]
    tags = [spans.encode_spans(both, 4, scheme) for scheme in spans.SCHEMES]
    letters = " ".join("".join(tag[0] for tag in row) for row in tags)
    assert letters == "BIIB BIES BILU IIIB BIEB BMES"
    # Kinds that meet are two spans in IOB1 alone.
    for scheme, learned in (("IOB1", ["S-A", "S-B"]), ("BIO", ["B-B", "E-B"])):
        assert spans.reencode(["I-A", "I-B"], "BIOES", scheme) == learned


def test_ill_formed_tags_are_read_leniently_but_not_strictly():
    # To the original one span of verbs, to conlleval two of a word each.
    gold, predicted = [["B-NP", "E-NP"]], [["B-NP", "I-NP"]]
    assert spans.compute_span_scores(gold, predicted)["f1"] == 100
    found = spans.compute_seqeval_scores(gold, predicted)
    assert found == {"seqeval_f1": 100, "seqeval_strict_f1": 0}
    half = spans.compute_span_scores([["S-NP", "S-VP"]], [["S-NP", "O"]])
    assert half == {
        "precision": 100,
        "recall": 50,
        "f1": pytest.approx(200 / 3),
    }
    mixed = [["B-VP", "I-NP"]]
    assert spans.compute_span_scores(gold, mixed)["f1"] == 100
    assert spans.compute_seqeval_scores(gold, mixed)["seqeval_f1"] == 0
