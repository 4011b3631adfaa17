import numpy as np
import pytest

from electra_tf.finetuning import scores

NONE = np.zeros(0, int)


def test_accuracy_is_the_share_of_right_labels():
    labels, predictions = np.array([0, 1, 2, 1]), np.array([0, 1, 1, 2])
    assert scores.compute_score("accuracy", labels, predictions, NONE) == 0.5


def test_matthews_correlation_of_a_worked_example():
    # 3 true and 2 false positives, 4 true and 1 false negatives:
    # (3 * 4 - 2 * 1) / sqrt(5 * 4 * 6 * 5)
    labels = np.array([1] * 3 + [0] * 2 + [0] * 4 + [1])
    predictions = np.array([1] * 5 + [0] * 5)
    score = scores.compute_score("mcc", labels, predictions, NONE)
    assert score == pytest.approx(10 / 600**0.5)


def test_one_answer_for_everything_is_worth_nothing():
    labels = np.array([1, 0, 1, 1])
    assert scores.compute_score("mcc", labels, np.ones(4, int), NONE) == 0.0


def test_words_that_were_cut_off_are_wrong():
    labels = np.array([0, 1])
    cut_off = np.array([0, 1])
    assert scores.compute_score("accuracy", labels, labels, cut_off) == 0.5
