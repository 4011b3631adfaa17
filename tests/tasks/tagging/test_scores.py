"""Scores of tags, from worked examples."""

import pytest

from electra_tf.tasks.tagging import scores

GOLD = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP"]]


def test_right_tags_score_100():
    assert scores.compute_span_scores(GOLD, GOLD) == {
        "precision": 100, "recall": 100, "f1": 100,
    }  # fmt: skip
    assert scores.compute_accuracy(GOLD, GOLD) == 100


def test_whole_spans_count():
    predicted = [["B-NP", "O", "O", "S-VP"], ["O"]]
    # One of two predicted spans is right, and one of three right ones found.
    found = scores.compute_span_scores(GOLD, predicted)
    assert found["precision"] == 50
    assert found["recall"] == pytest.approx(100 / 3)
    assert found["f1"] == pytest.approx(40)


def test_encodings_do_not_matter_for_spans():
    bioes = [["B-NP", "E-NP", "O", "S-VP"], ["S-NP"]]
    assert scores.compute_span_scores(GOLD, bioes)["f1"] == 100
    assert scores.compute_seqeval_scores(GOLD, bioes) == {
        "seqeval_f1": 100, "seqeval_strict_f1": 100,
    }  # fmt: skip


def test_without_a_right_span_all_scores_are_0():
    found = scores.compute_span_scores(GOLD, [["O"] * 4, ["O"]])
    assert found == {"precision": 0, "recall": 0, "f1": 0}
    found = scores.compute_seqeval_scores(GOLD, [["O"] * 4, ["O"]])
    assert set(found.values()) == {0}


def test_words_without_a_prediction_are_missed_spans_and_wrong():
    predicted = [["B-NP", "E-NP", None, None], [None]]
    found = scores.compute_span_scores(GOLD, predicted)
    assert found["precision"] == 100
    assert found["recall"] == pytest.approx(100 / 3)
    # The third word's tag is O, which None must not be taken for.
    assert scores.compute_accuracy([["O", "O"]], [["O", None]]) == 50
    assert scores.compute_seqeval_scores(GOLD, predicted)[
        "seqeval_f1"
    ] == pytest.approx(50)


def test_ill_formed_tags_are_read_leniently_but_not_strictly():
    # To the original one span of verbs, to conlleval two of a word each.
    gold, predicted = [["B-NP", "E-NP"]], [["B-NP", "I-NP"]]
    assert scores.compute_span_scores(gold, predicted)["f1"] == 100
    found = scores.compute_seqeval_scores(gold, predicted)
    assert found == {"seqeval_f1": 100, "seqeval_strict_f1": 0}
    mixed = [["B-VP", "I-NP"]]
    assert scores.compute_span_scores(gold, mixed)["f1"] == 100
    assert scores.compute_seqeval_scores(gold, mixed)["seqeval_f1"] == 0


def test_sentences_and_words_must_be_as_many():
    with pytest.raises(ValueError, match="zip"):
        scores.compute_span_scores(GOLD, GOLD[:1])
    with pytest.raises(ValueError, match="zip"):
        scores.compute_accuracy([["O"]], [["O", "O"]])


def test_accuracy_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one word"):
        scores.compute_accuracy([], [])
