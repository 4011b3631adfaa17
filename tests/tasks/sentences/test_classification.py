"""Classes are decoded, scored and written."""

import numpy as np
import pytest

from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences.text_task import Example
from tests.tasks.sentences.test_text_task import StubSource

LABELS = ("contradiction", "entailment", "neutral")
LOGITS = np.log([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]]).astype(np.float32)
EXAMPLES = [Example(1, "b"), Example(0, "a")]


@pytest.fixture
def task():
    return classification.ClassificationTask("mnli", StubSource(), LABELS)


def _decode(task, logits=LOGITS):
    return task.decode(EXAMPLES, None, {"logits": list(logits)})


def test_the_likeliest_class_and_probabilities_are_decoded(task):
    predictions = _decode(task)
    assert predictions.classes.tolist() == [0, 2]
    np.testing.assert_allclose(predictions.probabilities, np.exp(LOGITS))


def test_scores_compare_names_of_classes(task):
    examples = [e._replace(label="contradiction") for e in EXAMPLES]
    assert task.score(examples, _decode(task)) == {"accuracy": 50.0}
    assert task.metric == "accuracy"


def test_one_class_for_everything_is_degenerate(task):
    assert not task.is_degenerate(EXAMPLES, _decode(task))
    assert task.is_degenerate(EXAMPLES, _decode(task, LOGITS[[0, 0]]))
    # Of one example nothing can be said.
    assert not task.is_degenerate(EXAMPLES[:1], _decode(task, LOGITS[:1]))


def test_unlabelled_predictions_are_a_table_and_a_submission(task, tmp_path):
    paths = task.write_predictions(tmp_path, "ax", EXAMPLES, _decode(task))
    assert [p.name for p in paths] == ["ax_predictions.tsv", "AX.tsv"]
    assert paths[0].read_text() == (
        "index\tlabel\tprobability_contradiction\tprobability_entailment"
        "\tprobability_neutral\n"
        "1\tcontradiction\t0.700000\t0.200000\t0.100000\n"
        "0\tneutral\t0.100000\t0.300000\t0.600000\n"
    )
    assert paths[1].read_text() == (
        "index\tprediction\n0\tneutral\n1\tcontradiction\n"
    )


def test_labelled_predictions_have_a_picture(task, tmp_path):
    examples = [e._replace(label="neutral") for e in EXAMPLES]
    paths = task.write_predictions(
        tmp_path, "dev_matched", examples, _decode(task)
    )
    assert [p.name for p in paths] == [
        "dev_matched_predictions.tsv",
        "dev_matched_confusion.png",
    ]
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert sorted(paths) == sorted(tmp_path.iterdir())


def test_labels_of_a_trained_model_may_come_in_another_order(task, tokenizer):
    task.use_labels(LABELS[::-1])
    examples = [e._replace(label="neutral") for e in EXAMPLES]
    rows = task.build_rows(examples, tokenizer, 8, False)
    assert rows.columns["label"].tolist() == [0, 0]
    with pytest.raises(ValueError, match="Received one with 0, 1"):
        task.use_labels(("0", "1"))
