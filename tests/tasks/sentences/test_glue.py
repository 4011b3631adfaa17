"""The table of GLUE says what is published; files are read, or refused."""

import pytest

from electra_tf import errors
from electra_tf.tasks import tfds
from electra_tf.tasks.sentences import glue
from electra_tf.tasks.sentences.text_task import Example
from tests.tasks.conftest import settings_of


def _task(name, folder):
    return glue.build_task(name, settings_of(data_dir=str(folder)))


QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"


def test_broken_lines_of_qqp_are_left_out(write, tmp_path, caplog):
    text = f"{QQP}0\t1\t2\ta\tb\t1\n1\t1\t2\ta\n\n2\t1\t2\tc\td\t0\n"
    write("QQP/train.tsv", text)
    examples = _task("qqp", tmp_path).read_split("train")
    assert examples == [Example(0, "a", "b", "1"), Example(3, "c", "d", "0")]
    assert "left out 2 lines" in caplog.text
    assert "lines 3, 4." in caplog.text
    assert "2 examples, the official file 363846" in caplog.text


@pytest.mark.parametrize(
    ("name", "place", "text", "expected"),
    [
        ("cola", "CoLA", "a\t1\t\tx\nb\t1\tx\n", "line 2: expected 4 .*of 3"),
        ("cola", "CoLA", "a\t2\t\tx\n", "line 1: .* 0, 1. Received: '2'"),
        ("cola", "CoLA", "", "expected examples of CoLA. Received: none"),
        ("sst2", "SST-2", "x\t1\ny\t0\n", r"line 1: expected the names.*x\\t1"),
        ("stsb", "STS-B", "a\tb\ts\nx\ty\t5.1\n", "line 2: expected a score"),
        ("stsb", "STS-B", "a\tb\ts\nx\ty\tnan\n", "line 2: expected a score"),
        ("rte", "RTE", "index\ta\tb\n0\tx\ty\n", "at least 4 between tabs"),
        ("rte", "RTE", "0\tx\ty\t0\n1\tx\ty\t1\n", "line 1: expected the na"),
    ],
)  # fmt: skip
def test_a_bad_line_is_one_error(write, tmp_path, name, place, text, expected):
    path = write(f"{place}/train.tsv", text)
    with pytest.raises(errors.DataError, match=expected) as error:
        _task(name, tmp_path).read_split("train")
    assert str(path) in str(error.value)


def test_tensorflow_datasets_gives_the_same_examples(monkeypatch):
    calls = []
    row = {"idx": 4, "question1": "c", "question2": "d", "label": "duplicate"}
    rows = [row, row | {"idx": 1, "label": "not_duplicate"}]

    def read(name, split):
        calls.append((name, split))
        return rows

    monkeypatch.setattr(tfds, "read", read)
    task = _task("qqp", "tfds")
    expected = [Example(1, "c", "d", "0"), Example(4, "c", "d", "1")]
    assert task.read_split("train") == expected
    assert [e.label for e in task.read_split("test")] == [None, None]
    assert calls == [("glue/qqp", "train"), ("glue/qqp", "test")]
    rows[:] = [{"idx": 0, "sentence1": "a", "sentence2": "b", "label": 2.5}]
    stsb = _task("stsb", "tfds").read_split("dev")
    assert stsb == [Example(0, "a", "b", 2.5)]


def test_every_unlabelled_split_has_a_submission():
    assert len(glue.TASKS) == 9
    submissions = []
    for name in glue.TASKS:
        task = _task(name, "")
        assert set(task.metrics) <= set(task.known_metrics)
        labelled = {"train", *task.dev_splits}
        assert set(task.submissions) == set(task.splits) - labelled
        submissions += task.submissions.values()
    assert len(set(submissions)) == 11
    assert {"CoLA.tsv", "MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"} < {*submissions}
