"""Metrics against their definitions."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from electra_tf.training import metrics


def test_detection_scores_are_a_worked_example():
    # Predictions: fake, fake, real, real as for 0; the last is padding.
    logits = tf.constant([[2.0, 1.0, 0.0, -2.0, 3.0]])
    labels = tf.constant([[1, 0, 1, 0, 1]])
    weights = tf.constant([[1.0, 1.0, 1.0, 1.0, 0.0]])
    counts = metrics.detection_statistics(logits, labels, weights)
    assert metrics.summarize_detection(counts) == {
        "disc_accuracy": 0.5, "majority_share": 0.5, "disc_precision": 0.5,
        "disc_recall": 0.5, "disc_auc": 0.75, "replaced_fraction": 0.5,
    }  # fmt: skip


def test_auc_equals_the_rank_statistic():
    rng = np.random.default_rng(0)
    fake, real = rng.normal(1, 1, 400), rng.normal(0, 1, 900)
    logits = np.concatenate([fake, real]).astype("float32")
    labels = np.repeat([1, 0], [400, 900])
    counts = metrics.detection_statistics(
        tf.constant(logits[None]), tf.constant(labels[None]), tf.ones([1, 1300])
    )
    expected = stats.mannwhitneyu(fake, real).statistic / (400 * 900)
    auc = metrics.compute_auc(
        counts["fake_histogram"].numpy(), counts["real_histogram"].numpy()
    )
    assert float(auc) == pytest.approx(expected, abs=2e-3)
