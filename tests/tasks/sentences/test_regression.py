"""Numbers are scaled to learn from, and scaled back to be told."""

import numpy as np
import pytest

from electra_tf.tasks.sentences import regression
from electra_tf.tasks.sentences.text_task import Example
from tests.tasks.sentences.test_text_task import StubSource

EXAMPLES = [Example(0, "a", "b", 1.0), Example(1, "c", "d", 3.0)]


@pytest.fixture
def task():
    return regression.RegressionTask("stsb", StubSource(), 1.0, 5.0)


def _decode(task, places):
    places = [np.float32(place) for place in places]
    return task.decode(EXAMPLES, None, {"prediction": places})


def test_targets_are_places_in_the_range(task, tokenizer):
    examples = [*EXAMPLES, Example(2, "a", "b")]
    rows = task.build_rows(examples, tokenizer, 8, False)
    assert rows.columns["target"].tolist() == [0.0, 0.5, 0.0]
    assert rows.columns["target"].dtype == np.float32


def test_predictions_are_in_the_tasks_unit_and_may_leave_the_range(task):
    assert _decode(task, [0.25, 1.5]).tolist() == [2.0, 7.0]


def test_scores_are_correlations_and_the_error_of_places(task):
    found = task.score(EXAMPLES, _decode(task, [0.25, 0.5]))
    assert found["spearman"] == pytest.approx(100)
    assert found["pearson"] == pytest.approx(100)
    assert found["mse"] == pytest.approx(0.25**2 / 2)
    assert list(found)[0] == task.metric == "spearman"


def test_nearly_one_number_for_everything_is_degenerate(task):
    assert task.is_degenerate(EXAMPLES, _decode(task, [0.5, 0.5005]))
    assert not task.is_degenerate(EXAMPLES, _decode(task, [0.5, 0.6]))
    assert not task.is_degenerate(EXAMPLES[:1], _decode(task, [0.5]))


def test_the_submission_has_three_decimals_within_the_range(task, tmp_path):
    paths = task.write_predictions(
        tmp_path, "test", EXAMPLES, _decode(task, [1.5, 0.25])
    )
    assert [p.name for p in paths] == ["test_predictions.tsv", "STS-B.tsv"]
    assert paths[0].read_text().splitlines()[1] == "0\t7.000000"
    assert paths[1].read_text() == "index\tprediction\n0\t5.000\n1\t2.000\n"


def test_the_head_predicts_one_number(task):
    head = task.build_head(4, seed=1)
    assert head.dense.kernel.shape == (4, 1)
    assert head.name == "stsb"
