"""What classification and regression have in common."""

import numpy as np
import pytest

from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences import text_task
from electra_tf.tasks.sentences.text_task import Example
from tests.tasks.conftest import VOCABULARY

CLS, SEP, CAT, SAT = (
    VOCABULARY.id_of(token) for token in ("[CLS]", "[SEP]", "cat", "sat")
)
EXAMPLES = [Example(0, "cat", "sat", "1"), Example(2, "sat sat", "", "0")]


class StubSource:
    splits = ("train", "dev", "test")
    dev_splits = ("dev",)

    def read(self, split):
        return EXAMPLES


def _task(is_unordered=False):
    return classification.ClassificationTask(
        "stub", StubSource(), ("0", "1"), is_unordered=is_unordered
    )


def test_rows_have_tokens_segments_and_labels(tokenizer):
    task = _task()
    rows = task.build_rows(task.read("train"), tokenizer, 8, True)
    assert [row.tolist() for row in rows.ids] == [
        [CLS, CAT, SEP, SAT, SEP],
        [CLS, SAT, SAT, SEP],
    ]
    assert rows.segment_starts.tolist() == [3, 4]
    assert rows.examples.tolist() == [0, 1]
    assert rows.columns["label"].tolist() == [1, 0]
    assert rows.columns["label"].dtype == np.int32


def test_unordered_pairs_are_learned_both_ways_but_asked_once(tokenizer):
    task = _task(is_unordered=True)
    rows = task.build_rows(EXAMPLES, tokenizer, 8, True)
    assert [row.tolist() for row in rows.ids] == [
        [CLS, CAT, SEP, SAT, SEP],
        [CLS, SAT, SEP, CAT, SEP],
        [CLS, SAT, SAT, SEP],
        [CLS, SEP, SAT, SAT, SEP],
    ]
    assert rows.examples.tolist() == [0, 0, 1, 1]
    assert rows.columns["label"].tolist() == [1, 1, 0, 0]
    assert task.build_rows(EXAMPLES, tokenizer, 8, False).num_rows == 2


def test_swapped_pairs_are_numbered_on():
    doubled = text_task.add_swapped([Example(0, "a", "b", "1"), EXAMPLES[1]])
    assert doubled[1] == Example(2, "b", "a", "1")
    assert doubled[3] == Example(4, "", "sat sat", "0")
    named = text_task.add_swapped([Example("q", "a", "b")])
    assert [example.eid for example in named] == ["q", "q"]


def test_rows_without_labels_have_zeros(tokenizer):
    rows = _task().build_rows([Example(0, "cat")], tokenizer, 8, False)
    assert rows.columns["label"].tolist() == [0]


def test_the_head_has_the_originals_names_and_a_seed_of_its_own():
    head = _task().build_head(4, seed=1)
    assert [v.path for v in head.trainable_variables] == [
        "task_specific/stub/dense/kernel",
        "task_specific/stub/dense/bias",
    ]
    assert head.dense.kernel.shape == (4, 2)
    same, other = _task().build_head(4, seed=1), _task().build_head(4, seed=2)
    np.testing.assert_array_equal(head.dense.kernel, same.dense.kernel)
    assert np.any(np.array(head.dense.kernel) != np.array(other.dense.kernel))


def test_examples_without_labels_cannot_be_scored():
    task = _task()
    predictions = classification.ClassPredictions(np.zeros(1, int), np.eye(2))
    with pytest.raises(ValueError, match="number 5 without one. Score dev"):
        task.score([Example(5, "cat")], predictions)
