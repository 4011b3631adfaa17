"""Exact match and F1 by the official rules."""

import pytest

from electra_tf.tasks.question_answering import task as qa_task

GOLDS = {"a": ("the cat", "dog"), "b": ("red mat",), "c": ()}
TEXTS = {"a": "A Cat.", "b": "red cat", "c": "cat"}
ODDS = {"a": -1.0, "b": 0.0, "c": 2.0}


def test_the_best_gold_answer_counts():
    raw = qa_task.compute_raw_scores(GOLDS, TEXTS)
    assert raw["exact"] == {"a": 1, "b": 0, "c": 0}
    # Of two words each, one is common.
    assert raw["f1"] == {"a": 1, "b": 0.5, "c": 0}


def test_scores_of_2_0_apply_the_threshold():
    scores = qa_task.compute_squad2_scores(GOLDS, TEXTS, ODDS, 1.0)
    assert scores["exact"] == pytest.approx(200 / 3)
    assert scores["f1"] == pytest.approx(250 / 3)
    assert scores["HasAns_exact"] == 50 and scores["HasAns_f1"] == 75
    assert scores["NoAns_exact"] == 100
    assert [scores[k] for k in ("total", "HasAns_total", "NoAns_total")] == [
        3,
        2,
        1,
    ]
    none = qa_task.compute_squad2_scores(GOLDS, TEXTS, ODDS, 2.0)
    assert none["NoAns_exact"] == 0
    assert none["best_f1"] == scores["best_f1"]


def test_the_best_threshold_is_the_lowest_of_the_best():
    scores = qa_task.compute_squad2_scores(GOLDS, TEXTS, ODDS, 0.0)
    assert scores["best_exact"] == pytest.approx(200 / 3)
    assert scores["best_exact_thresh"] == -1.0
    assert scores["best_f1"] == pytest.approx(250 / 3)
    assert scores["best_f1_thresh"] == 0.0


def test_the_best_score_is_the_best_of_all_thresholds():
    golds = {str(n): ("x",) if n % 3 else () for n in range(20)}
    texts = {str(n): "x" if n % 4 else "y" for n in range(20)}
    odds = {str(n): float((7 * n) % 20) for n in range(20)}
    found = qa_task.compute_squad2_scores(golds, texts, odds, 0.0)
    tried = [
        qa_task.compute_squad2_scores(golds, texts, odds, t)["exact"]
        for t in range(-1, 21)
    ]
    assert found["best_exact"] == pytest.approx(max(tried))


def test_empty_answers_differ_between_1_1_and_2_0():
    golds, texts = {"a": ("the",)}, {"a": ""}
    old = qa_task.compute_squad1_scores(golds, texts)
    assert old == {"exact_match": 100.0, "f1": 0.0}
    assert qa_task.compute_raw_scores(golds, texts)["f1"] == {"a": 1.0}
    # To have no words does not make one right by having some.
    assert qa_task.compute_raw_scores({"a": ()}, {"a": "x"})["f1"]["a"] == 0


def test_missing_predictions_count_zero_or_not_at_all():
    golds = {"a": ("cat",), "b": ("dog",)}
    texts = {"a": "cat"}
    assert qa_task.compute_squad1_scores(golds, texts)["f1"] == 50
    assert qa_task.compute_squad1_scores(golds, texts, True)["f1"] == 100
    with pytest.raises(ValueError, match=r"none for 1 of 2.*'b'"):
        qa_task.compute_squad2_scores(golds, texts, {"a": 0, "b": 0}, 0)
    with pytest.raises(
        ValueError, match="needs a prediction and its null odds"
    ):
        qa_task.compute_squad2_scores({"a": ()}, {"a": ""}, {}, 0)


def test_nothing_to_score_is_an_error():
    with pytest.raises(ValueError, match="Expected predictions to score"):
        qa_task.compute_squad1_scores({"a": ("cat",)}, {}, True)
    with pytest.raises(ValueError, match="answers of question 'c'"):
        qa_task.compute_squad1_scores(GOLDS, TEXTS)
    with pytest.raises(ValueError, match="0 of 0 questions"):
        qa_task.compute_squad2_scores({}, {}, {}, 0)
