"""Counts of what is taken for what, and their picture."""

import numpy as np
import pytest

from electra_tf.tasks.sentences import confusion


def test_rows_are_right_classes_and_columns_predicted_ones():
    labels, predictions = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 2, 0])
    assert confusion.count(labels, predictions, 4).tolist() == [
        [1, 1, 0, 0],
        [0, 1, 0, 0],
        [1, 0, 1, 0],
        [0, 0, 0, 0],
    ]


@pytest.mark.parametrize("num_classes", [2, 40, 70])
def test_a_picture_is_drawn_whatever_the_labels(tmp_path, num_classes):
    names = [f"$x_{i} {'long ' * (i % 9)}" for i in range(num_classes)]
    counts = np.arange(num_classes**2).reshape(num_classes, num_classes)
    path = confusion.draw(tmp_path / "a.png", counts, names, "100 %, $")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [path]
