"""Files of predictions have the names and columns that are asked for."""

import numpy as np
import pytest

from electra_tf.tasks.sentences import submissions


def test_glue_files_are_sorted_by_index_under_the_sites_header(tmp_path):
    paths = submissions.write_glue(
        tmp_path, "cola", "test", [10, 2, 0], ["1", "0", "1"]
    )
    assert paths == [tmp_path / "CoLA.tsv"]
    assert paths[0].read_bytes() == b"index\tprediction\n0\t1\n2\t0\n10\t1\n"


@pytest.mark.parametrize("key", [("cola", "dev"), ("own", "test")])
def test_other_splits_have_no_submission(tmp_path, key):
    assert submissions.write_glue(tmp_path, *key, [0], ["1"]) == []
    assert list(tmp_path.iterdir()) == []


def test_the_names_are_the_sites():
    assert set(submissions.GLUE_FILES.values()) == {
        "CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv",
        "MNLI-m.tsv", "MNLI-mm.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv",
        "AX.tsv",
    }  # fmt: skip


def test_scores_are_cut_to_the_range():
    numbers = np.array([-0.2, 3.14159, 7.0])
    assert submissions.format_scores(numbers, 0, 5) == [
        "0.000",
        "3.142",
        "5.000",
    ]


def test_a_table_that_fails_leaves_nothing(tmp_path):
    def rows():
        yield 1, 2
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        submissions.write_table(tmp_path / "a.tsv", ("a", "b"), rows())
    assert list(tmp_path.iterdir()) == []


def test_texts_of_ids_and_labels_are_kept(tmp_path):
    path = submissions.write_classes(
        tmp_path / "a.tsv",
        ["q 1", "q2"],
        ["süß", "other"],
        np.array([1, 0]),
        np.array([[0.25, 0.75], [1.0, 0.0]]),
    )
    assert path.read_text("utf-8").splitlines() == [
        "index\tlabel\tprobability_süß\tprobability_other",
        "q 1\tother\t0.250000\t0.750000",
        "q2\tsüß\t1.000000\t0.000000",
    ]
