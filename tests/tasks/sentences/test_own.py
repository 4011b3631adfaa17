"""A user's own files become tasks by flags alone, or one clear error."""

import json

import numpy as np
import pytest

from electra_tf import errors
from electra_tf.tasks import catalog
from electra_tf.tasks.sentences.text_task import Example
from tests.tasks.conftest import build_own
from tests.tasks.conftest import own_settings

CSV = 'text,label\n"fine, really",good\npoor,bad\nawful,bad\n'


def _write(folder, name, text):
    path = folder / name
    path.write_text(text, "utf-8")
    return str(path)


def test_labels_are_those_of_the_training_file(tmp_path):
    task = build_own(tmp_path, CSV)
    assert task.labels == ("bad", "good")
    assert task.splits == ("train",)
    assert task.dev_splits == ()
    assert task.read_split("train") == [
        Example(0, "fine, really", None, "good"),
        Example(1, "poor", None, "bad"),
        Example(2, "awful", None, "bad"),
    ]
    assert task.name == "own"


def test_columns_are_the_users(tmp_path):
    rows = [
        {"key": 5, "q": "a", "p": "b", "same": True},
        {"key": "x", "q": "c", "p": "", "same": False},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    columns = {"id_column": "key", "text_column": "q", "label_column": "same"}
    columns |= {"text_pair_column": "p"}
    task = build_own(tmp_path, lines, "t.jsonl", **columns)
    assert task.labels == ("false", "true")
    assert task.read_split("train") == [
        Example("5", "a", "b", "true"),
        Example("x", "c", "", "false"),
    ]


def test_a_file_to_predict_needs_no_labels(tmp_path):
    test_file = _write(tmp_path, "new.tsv", "text\nso so\n")
    settings = own_settings(test_file=test_file, labels="good, bad")
    task = catalog.build_task("own", settings)
    assert task.labels == ("good", "bad")
    assert task.read_split("test") == [Example(0, "so so")]
    assert task.splits == ("test",)
    with pytest.raises(ValueError, match="--config.own.train_file"):
        task.read_split("train")


def test_a_test_file_has_all_labels_or_none(tmp_path):
    for text, labels in (
        ("text,label\nx,good\ny,bad\n", ["good", "bad"]),
        ("text,label\nx,\ny,\n", [None, None]),
        ("text\nx\ny\n", [None, None]),
    ):
        path = _write(tmp_path, "test.csv", text)
        task = build_own(tmp_path, CSV, test_file=path)
        examples = task.read_split("test")
        assert [example.label for example in examples] == labels
        assert task.test_splits == ("test",)
        assert task.has_labels(examples) == (labels == ["good", "bad"])
    _write(tmp_path, "test.csv", "text,label\nx,good\ny,\n")
    task = build_own(tmp_path, CSV, test_file=path)
    with pytest.raises(errors.DataError, match="line 3: .*'label' empty"):
        task.read_split("test")


def test_metrics_depend_on_the_labels_and_one_decides(tmp_path):
    two = build_own(tmp_path, CSV)
    assert two.metrics == ("accuracy", "mcc", "f1", "macro_f1")
    three = CSV + "x,so so\n"
    task = build_own(tmp_path, three, metric="macro_f1")
    assert task.metrics == ("macro_f1", "accuracy", "mcc")
    assert task.metric == "macro_f1"
    with pytest.raises(ValueError, match="'f1'.*accuracy, mcc, macro_f1"):
        build_own(tmp_path, three, metric="f1")


def test_numbers_are_learned_from_a_range(tmp_path):
    task = build_own(
        tmp_path, "text\tlabel\na\t2\nb\t-1.5\n", "t.tsv",
        kind="regression", min_value=-2, max_value=2, metric="pearson",
    )  # fmt: skip
    assert [e.label for e in task.read_split("train")] == [2.0, -1.5]
    assert task.metrics == ("pearson", "spearman", "mse", "mae")
    # In the unit of the numbers, not of places in the range.
    found = np.array([1.0, 0.5])
    scores = task.score(task.read_split("train"), found)
    assert (scores["mse"], scores["mae"]) == (2.5, 1.5)
    task = build_own(tmp_path, CSV, kind="regression", metric="mse")
    assert task.metric == "mse" and task.metric in task.lower_is_better
    with pytest.raises(ValueError, match="'mes'.*mean 'mse'"):
        build_own(tmp_path, CSV, kind="regression", metric="mes")


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        (CSV + "x,goood\n", {"labels": "good,bad"},
         "line 5: .*'goood'. Did you mean 'good'"),
        (CSV + " ,bad\n", {}, "line 5: expected a text in column 'text'"),
        (CSV, {"label_column": "class"}, "column 'class'.*text, label"),
        ("text,label\na,b\n", {}, "at least two labels.*'b'"),
        ("text,label\na,b\nc,\n", {}, "line 3: expected a label"),
        ('text,label\na,b\nc,"d\te"\n', {}, "line 3: expected no tabs"),
        ('text,label\n"a\nb",x\n"c\nd",y\n', {"id_column": "text"},
         "line 2: expected no tabs and line ends"),
        ("text,label\na,1\nb,3\n", {"kind": "regression", "max_value": 2.0},
         "line 3: expected a number from 0"),
        ("text,label\na,1\nb,1.0\n", {"kind": "regression", "metric": "mae"},
         "expected different numbers in column 'label'"),
        ('text,label\na,"1,5"\n', {"kind": "regression"}, "decimal point"),
        ("text,label\na,nan\n", {"kind": "regression"}, "expected a number"),
        (CSV, {"labels": "good,bad,good"}, "must list two or more different"),
        ('{"text": 5.5, "label": "a"}\n{"text": "x", "label": "b"}\n',
         {"name": "t.jsonl"}, "line 1: expected a text in.*: 5.5"),
        ('{"text": "y", "label": "a"}\n{"text": "x", "label": ["b", "a"]}\n',
         {"name": "t.jsonl"}, "line 2: expected one label"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_error(tmp_path, text, fields, expected):
    with pytest.raises(ValueError, match=expected):
        task = build_own(tmp_path, text, **fields)
        task.describe_labels({"train": task.read_split("train")})


def test_a_trained_models_labels_serve_where_there_is_no_training_file(
    tmp_path,
):
    dev_file = _write(tmp_path, "dev.csv", "text,label\na,so so\n")
    task = catalog.build_task("own", own_settings(dev_file=dev_file))
    with pytest.raises(errors.DataError, match="--config.own.labels=A,B"):
        task.build_head(4, seed=1)
    task.use_labels(("so so", "a, b", "c"))
    assert task.build_head(4, seed=1).dense.kernel.shape == (4, 3)
    assert task.read_split("dev")[0].label == "so so"
    assert task.metrics == ("accuracy", "mcc", "macro_f1")
