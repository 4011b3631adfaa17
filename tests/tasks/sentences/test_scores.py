"""Metrics of classification and regression, by hand and at their limits."""

import numpy as np
import pytest

from electra_tf.tasks.sentences import scores

CLASSES = scores.CLASSIFICATION_METRICS
NUMBERS = scores.REGRESSION_METRICS


def _arrays(*lists):
    return [np.array(numbers) for numbers in lists]


def test_one_answer_for_everything_correlates_with_nothing():
    labels, predictions = _arrays([1, 0, 1, 1], [1, 1, 1, 1])
    assert CLASSES["mcc"](labels, predictions) == 0
    assert NUMBERS["pearson"](labels, predictions) == 0
    assert NUMBERS["spearman"](labels, predictions) == 0


def test_macro_f1_is_the_mean_over_classes():
    # Class 0: precision 1, recall 1/2; class 1: 1/2 and 1; class 2: 1 and 1.
    labels, predictions = _arrays([0, 0, 1, 2], [0, 1, 1, 2])
    score = CLASSES["macro_f1"](labels, predictions)
    assert score == pytest.approx(100 * (2 / 3 + 2 / 3 + 1) / 3)


@pytest.mark.parametrize("num_classes", [2, 40, 70])
def test_a_picture_is_drawn_whatever_the_labels(tmp_path, num_classes):
    names = [f"$x_{i} {'long ' * (i % 9)}" for i in range(num_classes)]
    labels = np.arange(num_classes).repeat(2)
    path = tmp_path / "a.png"
    scores.draw_confusion(path, labels, labels[::-1], names, "100 %, $")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [path]
