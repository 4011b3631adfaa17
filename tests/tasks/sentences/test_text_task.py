"""Texts with classes or numbers: rows, answers, scores and files."""

import numpy as np
import pytest

from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences import glue
from electra_tf.tasks.sentences.text_task import Example
from tests.tasks.conftest import settings_of

LABELS = ("contradiction", "entailment", "neutral")
LOGITS = np.log([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]).astype(np.float32)
EXAMPLES = [Example(10, "b"), Example(2, "a")]
NUMBERS = [Example(0, "a", "b", 0.0), Example(1, "c", "d", 2.5)]


@pytest.fixture
def task():
    return glue.build_task("mnli", settings_of())


def _decode(task, logits=LOGITS):
    return task.decode(EXAMPLES, None, {"logits": list(logits)})


def test_one_class_for_everything_is_degenerate(task):
    assert not task.is_degenerate(EXAMPLES, _decode(task))
    assert task.is_degenerate(EXAMPLES, _decode(task, LOGITS[[0, 0]]))
    # Of one example nothing can be said.
    assert not task.is_degenerate(EXAMPLES[:1], _decode(task, LOGITS[:1]))


def test_predictions_are_a_table_with_a_submission_or_a_picture(task, tmp_path):
    paths = task.write_predictions(tmp_path, "ax", EXAMPLES, _decode(task))
    assert [p.name for p in paths] == ["ax_predictions.tsv", "AX.tsv"]
    assert paths[0].read_text() == (
        "index\tlabel\tprobability_contradiction\tprobability_entailment"
        "\tprobability_neutral\n"
        "10\tcontradiction\t0.700000\t0.200000\t0.100000\n"
        "2\tneutral\t0.100000\t0.300000\t0.600000\n"
    )
    # Sorted by the number.
    assert paths[1].read_text() == (
        "index\tprediction\n2\tneutral\n10\tcontradiction\n"
    )
    examples = [e._replace(label="neutral") for e in EXAMPLES]
    paths = task.write_predictions(tmp_path, "dev", examples, _decode(task))
    names = ["dev_predictions.tsv", "dev_confusion.png"]
    assert [p.name for p in paths] == names and paths[1].exists()


def test_labels_of_a_trained_model_may_come_in_another_order(task, tokenizer):
    task.use_labels(LABELS[::-1])
    examples = [e._replace(label="neutral") for e in EXAMPLES]
    rows = task.build_rows(examples, tokenizer, 8, False)
    assert rows.columns["label"].tolist() == [0, 0]
    with pytest.raises(ValueError, match="Received one with 0, 1"):
        task.use_labels(("0", "1"))


def test_the_submission_has_three_decimals_within_the_range(tmp_path):
    stsb = glue.build_task("stsb", settings_of())
    places = np.float32([1.5, 0.25])
    found = stsb.decode(NUMBERS, None, {"prediction": places})
    paths = stsb.write_predictions(tmp_path, "test", NUMBERS, found)
    assert [p.name for p in paths] == ["test_predictions.tsv", "STS-B.tsv"]
    assert paths[0].read_text().splitlines()[1] == "0\t7.500000"
    assert paths[1].read_text() == "index\tprediction\n0\t5.000\n1\t1.250\n"


def test_macro_f1_is_the_mean_over_classes():
    # Class 0: precision 1, recall 1/2; class 1: 1/2 and 1; class 2: 1 and 1.
    labels, predictions = np.array([0, 0, 1, 2]), np.array([0, 1, 1, 2])
    score = classification.METRICS["macro_f1"](labels, predictions)
    assert score == pytest.approx(100 * (2 / 3 + 2 / 3 + 1) / 3)
