"""The table of GLUE says what is published."""

import pytest

from electra_tf.tasks.sentences import glue
from electra_tf.tasks.sentences import scores
from electra_tf.tasks.sentences import submissions

# Of the GLUE paper's Table 1 and the task's files: train, dev, test.
COUNTS = {
    "cola": (8_551, 1_043, 1_063),
    "sst2": (67_349, 872, 1_821),
    "mrpc": (3_668, 408, 1_725),
    "stsb": (5_749, 1_500, 1_379),
    "qqp": (363_846, 40_430, 390_965),
    "mnli": (392_702, 9_815, 9_832, 9_796, 9_847, 1_104),
    "qnli": (104_743, 5_463, 5_463),
    "rte": (2_490, 277, 3_000),
    "wnli": (635, 71, 146),
}


@pytest.mark.parametrize("name", COUNTS)
def test_every_task_has_its_published_counts(name):
    splits = glue.TASKS[name].splits.values()
    assert tuple(split.counts[0] for split in splits) == COUNTS[name]


def test_there_are_nine_tasks_and_a_submission_for_each_unlabelled_split():
    assert set(glue.TASKS) == set(COUNTS)
    unlabelled = {
        (task.name, split)
        for task in glue.TASKS.values()
        for split, file in task.splits.items()
        if file.columns.label is None
    }
    assert unlabelled == set(submissions.GLUE_FILES)
    assert len(set(submissions.GLUE_FILES.values())) == 11


def test_rte_and_sts_train_longer_and_scores_are_the_officials():
    tasks = glue.TASKS.values()
    epochs = {task.name: task.num_train_epochs for task in tasks}
    assert {n for n, e in epochs.items() if e == 10} == {"rte", "stsb"}
    assert set(epochs.values()) == {3, 10}
    metrics = {task.name: task.metrics for task in tasks}
    assert metrics["cola"] == ("mcc",)
    assert metrics["mrpc"] == metrics["qqp"] == ("accuracy", "f1")
    assert metrics["stsb"][:2] == ("spearman", "pearson")
    for task in tasks:
        known = (
            scores.CLASSIFICATION_METRICS
            if task.labels
            else scores.REGRESSION_METRICS
        )
        assert set(task.metrics) <= set(known)


def test_mnli_is_decided_on_the_matched_half():
    assert glue.TASKS["mnli"].dev_splits == ("dev_matched", "dev_mismatched")


def test_a_file_without_header_has_as_many_columns_as_are_read():
    columns = glue.TASKS["cola"].splits["train"].columns
    assert (columns.least_width, columns.has_header) == (4, False)
    assert glue.Columns(-3, -2, -1).least_width == 3
    assert glue.Columns(8, 9, -1).least_width == 10
