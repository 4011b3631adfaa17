"""A user's own files become tasks by flags alone, or one clear error."""

import json

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import errors
from electra_tf.modeling import task_heads
from electra_tf.tasks import catalog
from electra_tf.tasks.sentences.text_task import Example
from tests.tasks.conftest import build_own
from tests.tasks.conftest import label_studio
from tests.tasks.conftest import own_settings

PRODIGY = {"text": "x", "label": "b", "_input_hash": 5}
CSV = 'text,label\n"fine, really",good\npoor,bad\nawful,bad\n'
SEVERAL = {"kind": "multilabel"}
NUMBERS = {"kind": "regression"}
COLUMNS = {"label_column": "b, a"}


def _lines(*labels):
    rows = ({"text": "x", "label": label} for label in labels)
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_labels_are_those_of_the_training_file(tmp_path):
    task = build_own(tmp_path, CSV)
    assert (task.name, task.labels) == ("own", ("bad", "good"))
    assert (task.splits, task.dev_splits) == (("train",), ())
    texts = [("fine, really", "good"), ("poor", "bad"), ("awful", "bad")]
    assert task.read_split("train") == [
        Example(number, text, None, label)
        for number, (text, label) in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("text", "fields", "labels"),
    [
        # One label: spellings of one thing are one.
        ("text,label\nx,1.0\ny, 0\nz,1\n", {}, ["1", "0", "1"]),
        ("text;label\nx, y;TRUE\n;\nz;False\n", {}, ["true", "false"]),
        ("text, label\nx,['b']\ny,a\u00a0\n", {}, ["b", "a"]),
        ("text,label\nx,NA\ny,DE\n", {"labels": "NA,DE"}, ["NA", "DE"]),
        ('text,label\nx,"a,b"\ny,b\n', {"labels": '["a,b", "b"]'},
         ["a,b", "b"]),
        ('text,label\nx,"To, Go"\ny,To|\n', {}, ["To, Go", "To|"]),
        ('"text"\t"label"\n"a ""b"""\t"x"\n"c"\t"y"\n', {"name": "r.tsv"},
         ["x", "y"]),
        ("text,b,a\nx,1.0,0.0\ny,0,1\n", COLUMNS, ["b", "a"]),
        (_lines("b", {"A": 1.0, "B": 0.0}), {"name": "t.jsonl"}, ["b", "A"]),
        ("[" + ",".join(_lines("x", 2.0).splitlines()) + "]",
         {"name": "t.json"}, ["x", "2"]),
        ("sep=;\ntext;label\nx;\u200fb\ny;a\u200e\n", {}, ["b", "a"]),
        ("__label__b x\n__label__a y\n", {"name": "t.txt"}, ["b", "a"]),
        ("{'text': 'x', 'label': 'b'}\n", {"name": "t.jsonl", "labels": "a,b"},
         ["b"]),
        (json.dumps([["x", {"cats": {"b": 1.0, "a": 0.0}}],
                     ["y", {"entities": [], "cats": {"a": 1}}]]),
         {"name": "t.json"}, ["b", "a"]),
        (json.dumps([label_studio("x", [{"choices": [n]}] * 2) for n in "ba"]),
         {"name": "t.json"}, ["b", "a"]),
        (json.dumps([label_studio("x", [{"rating": n}]) for n in (4, 2)]),
         NUMBERS | {"name": "t.json"}, [4, 2]),
        ("".join(json.dumps(PRODIGY | {"answer": answer}) + "\n"
                 for answer in ("accept", "reject", "ignore")),
         {"name": "t.jsonl", "labels": "a,b"}, ["b"]),
        # Three zeros are no decimals that a program writes.
        ("text,label\nx,1.000\ny,2\n", {}, ["1.000", "2"]),
        # Numbers of classes take the names that are listed.
        ("text,label\nx,1\ny,0.0\n", {"labels": "b,a"}, ["a", "b"]),
        ("text,label\nx,1 0 0\ny,0 0 1\n", {"labels": "b,a,c"}, ["b", "c"]),
        # Several.
        (_lines([0, 2], [1], []), SEVERAL | {"name": "t.jsonl",
         "labels": "b,a,c"}, [("b", "c"), ("a",), ()]),
        ("text,label\nx,\"1.0, 0.0\"\ny,\"1, 1\"\nz,01\n",
         SEVERAL | {"labels": "b,a"}, [("b",), ("b", "a"), ("a",)]),
        ("text,b,a\nx,X,\ny,,A\nz,,\n", SEVERAL | COLUMNS,
         [("b",), ("a",), ()]),
        ("text,b,a\nx,WAHR,f\ny,Non,\u2713\n", SEVERAL | COLUMNS,
         [("b",), ("a",)]),
        ("text,label\nx,\"['b' 'a']\"\ny,[]\nz,a\nw,None\n", SEVERAL,
         [("b", "a"), (), ("a",), ()]),
        ("text,label\nx,b; a\ny,a\n", SEVERAL | {"label_separator": ";"},
         [("b", "a"), ("a",)]),
        ("text,label\nx,[1. 0.]\ny,\n", SEVERAL | {"labels": "b,a"},
         [("b",), ()]),
        ("text,b,a\nx,1,True\ny,0,0\n", SEVERAL | COLUMNS, [("b", "a"), ()]),
        ("text,off,a\nx,off,0\ny,0,A\n", SEVERAL | {"label_column": "off,a"},
         [("off",), ("a",)]),
        (_lines(["x|y", 2, 2], [], {"choices": ["z"]}, {"a": 1, "b": 0}),
         SEVERAL | {"name": "t.jsonl"}, [("x|y", "2"), (), ("z",), ("a",)]),
    ],
)  # fmt: skip
def test_labels_are_understood_in_every_form(tmp_path, text, fields, labels):
    examples = build_own(tmp_path, text, **fields).read_split("train")
    assert [example.label for example in examples] == labels


def test_a_test_file_has_all_labels_or_none(write, tmp_path):
    for text, labels in (
        ("text,label\nx,good\ny,bad\n", ["good", "bad"]),
        ("text,label\nx,\ny,NaN\n", [None, None]),
        ("text,label\nx,-1\ny,-1\n", [None, None]),
        ("text\nx\ny\n", [None, None]),
    ):
        path = str(write("test.csv", text))
        task = build_own(tmp_path, CSV, test_file=path)
        examples = task.read_split("test")
        assert [example.label for example in examples] == labels
        assert task.test_splits == ("test",)
        assert task.has_labels(examples) == (labels == ["good", "bad"])
    write("test.csv", "text,label\nx,-1\n")
    task = build_own(tmp_path, CSV, test_file=path, **NUMBERS)
    assert task.read_split("test")[0].label is None
    write("test.csv", "text,label\nx,good\ny,\n")
    task = build_own(tmp_path, CSV, test_file=path)
    with pytest.raises(errors.DataError, match="line 3: .*'label' empty"):
        task.read_split("test")


def test_metrics_depend_on_the_labels_and_one_decides(tmp_path):
    two = build_own(tmp_path, CSV)
    assert two.metrics == ("accuracy", "mcc", "f1", "macro_f1")
    three = CSV + "x,so so\n"
    task = build_own(tmp_path, three, metric="macro_f1")
    assert task.metrics == ("macro_f1", "accuracy", "mcc")
    with pytest.raises(ValueError, match="'f1'.*accuracy, mcc, macro_f1"):
        build_own(tmp_path, three, metric="f1")


@pytest.mark.parametrize(
    ("labels", "chosen", "positive", "why"),
    [
        ("aab", "", "b", "the rarer"),
        ("abb", "", "a", "the rarer"),
        ("ab", "", "b", "the last"),
        ("abb", "b", "b", "as own.positive_label says"),
        (["yes", "yes", "no"], "", "yes", "by its name"),
    ],
)
def test_f1_is_of_the_label_that_is_named(
    tmp_path, labels, chosen, positive, why
):
    text = "text,label\n" + "".join(f"x,{label}\n" for label in labels)
    task = build_own(tmp_path, text, positive_label=chosen)
    examples = task.read_split("train")
    lines = task.describe_labels({"train": examples})
    assert any(
        line.startswith(f"f1 is of {positive!r} ({why}") for line in lines
    )
    # Whoever always says it has all of it, and what is wrong lowers precision.
    place = task.labels.index(positive)
    logits = np.eye(2)[[place] * len(labels)]
    found = task.decode(examples, None, {"logits": logits})
    share = list(labels).count(positive) / len(labels)
    expected = 100 * 2 * share / (1 + share)
    assert task.score(examples, found)["f1"] == pytest.approx(expected)
    # A trained model keeps it.
    path = task.own.train_file
    task = catalog.build_task(
        "own", own_settings(dev_file=path), {"own": ("x", "y")}
    )
    task.use_conventions({"positive_label": "x"})
    assert task.conventions.positive_label == "x"


def test_labels_are_counted_before_the_first_step(write, tmp_path, caplog):
    dev = str(write("dev.csv", "text,label\nx,pos\ny,pos\nNA,neg\n"))
    text = "text,label\n" + 3 * "x,pos\n" + "y,neg\nz,Pos\nw,1\nv,True\nu,-\n"
    task = build_own(
        tmp_path, text, dev_file=dev, class_weights="neg=2",
        labels="pos,neg,Pos,1,true,-",
    )  # fmt: skip
    splits = {split: task.read_split(split) for split in ("train", "dev")}
    assert task.describe_labels(splits) == [
        "6 labels (train + dev): 'pos' 3 + 2, 'neg' 1 + 1, 'Pos' 1 + 0, '1' "
        "1 + 0, 'true' 1 + 0, '-' 1 + 0.",
        "Labels with at most one training example: 'neg', 'Pos', '1', 'true', "
        "'-'.",
        "Labels that differ only by case (use one spelling): 'pos', 'Pos'.",
        "Labels that may mean the same: '1', 'true'.",
        "Labels that may mean that there is none: '-'.",
        "Always saying 'pos' has accuracy 66.67 on dev.",
        "Weights in the loss: 'pos' 1, 'neg' 2, 'Pos' 1, '1' 1, 'true' 1, "
        "'-' 1.",
    ]
    assert "dev.csv, line 4: 1 texts, such as NA or None" in caplog.text


@pytest.mark.parametrize(
    ("text", "fields", "weights"),
    [
        (CSV, {"class_weights": "balanced"}, (0.75, 1.5)),
        (CSV, {"class_weights": "good = 0.5"}, (1.0, 0.5)),
        ("text,label\nx,a|b\ny,a\nz,a\nw,b\n",
         SEVERAL | {"class_weights": "balanced"}, (1 / 3, 1.0)),
        (CSV, {}, ()),
    ],
)  # fmt: skip
def test_labels_are_weighed_in_the_loss(tmp_path, text, fields, weights):
    head = build_own(tmp_path, text, **fields).build_head(4, seed=1)
    assert head.class_weights == pytest.approx(weights)


def test_losses_are_weighed():
    # Of equal logits a class costs ln 2, and so does each of two labels.
    hidden, options = tf.zeros((2, 1, 4)), {"seed": 1}
    head = task_heads.ClassificationHead(2, **options, class_weights=(3, 0.5))
    head.build((None, None, 4))
    losses = head.compute_losses(hidden, {"label": np.array([0, 1])}, None)
    np.testing.assert_allclose(losses, np.log(2) * np.array([3, 0.5]), 1e-6)
    head = task_heads.MultilabelHead(2, **options, class_weights=(3, 0.5))
    head.build((None, None, 4))
    held = {"labels": np.float32([[0, 0], [1, 1]])}
    losses = head.compute_losses(hidden, held, None)
    # Only where a label holds.
    np.testing.assert_allclose(losses, np.log(2) * np.array([1, 1.75]), 1e-6)


def test_numbers_are_learned_from_a_range(tmp_path):
    text, name = "text\tlabel\na\t2\nb\t[-1.5]\n", "t.tsv"
    given = {"min_value": -2.0, "max_value": 2.0}
    for fields, bounds in (given, (-2, 2)), ({}, (-1.5, 2)):
        task = build_own(
            tmp_path, text, name, metric="pearson", **NUMBERS | fields
        )
        examples = task.read_split("train")
        assert [e.label for e in examples] == [2.0, -1.5]
        assert task.metrics == ("pearson", "spearman", "mse", "mae")
        assert task.bounds == bounds
        line, told = task.describe_labels({"train": examples})
        assert line.startswith(f"Numbers from {bounds[0]} to 2 are learned")
        mean = np.mean([example.label for example in examples])
        error = np.mean([abs(example.label - mean) for example in examples])
        assert told.endswith(f"always saying {mean:.4g} has mae {error:.4g}.")
        # In the unit of the numbers, not of places in the range.
        scores = task.score(examples, np.array([1.0, 0.5]))
        assert (scores["mse"], scores["mae"]) == pytest.approx((2.5, 1.5))
    task = catalog.build_task("own", own_settings(test_file="x", **NUMBERS))
    with pytest.raises(errors.DataError, match="needs the range"):
        task.describe_export()
    task.use_conventions({"min_value": 1.0, "max_value": 3.0})
    assert task.describe_export() == {"min_value": 1.0, "max_value": 3.0}
    task = build_own(tmp_path, CSV, kind="regression", metric="mse")
    assert task.metric == "mse" and task.metric in task.lower_is_better
    with pytest.raises(ValueError, match="'mes'.*mean 'mse'"):
        build_own(tmp_path, CSV, kind="regression", metric="mes")


@pytest.mark.parametrize(
    ("text", "fields", "expected"),
    [
        (CSV + "x,goood\n", {"labels": "good,bad"},
         "line 5: .*'goood'. Did you mean 'good'"),
        (CSV + "x,mixed\n", {"labels": "good,bad"}, "'mixed'. Known: good"),
        (CSV + " \u200b,bad\n", {}, "line 5: expected a text in column 'text'"),
        (CSV + "nan,bad\n", {}, "line 5: expected a text in .*'nan'"),
        (CSV, {"label_column": "class"}, "column 'class'.*text, label"),
        ("text,a,b\nx,1,0\n", SEVERAL, "If each label has a column, list"),
        ("text,a,b\nx,1,\ny,0,1\n", SEVERAL | COLUMNS,
         "line 2: .* 0 or 1, .*'b'. Received: ''"),
        ("text,a,b\nx,b,1\n", SEVERAL | COLUMNS, "line 2: .* 0 or 1, .*'b'"),
        ("text,label\na,1.234\nb,950\n", NUMBERS,
         "line 2: .*decimal points. Received: '1.234'.*as 1234;.*min_value"),
        ("text,label\na,b\n", {}, "at least two labels.*'b'"),
        ("text,label\na,b\nc,NA\n", {}, "line 3: .*'NA'.*list all in"),
        ("text,label\na,#NULL!\nc,b\n", {}, "line 2: expected a label"),
        ("text,label\na,b\ntext,label\n", {}, "line 3: .*Remove the line"),
        ("text,label\na,\"['b' 'c']\"\nc,b\n", {}, "line 2: .*kind=multilabel"),
        ('text,label\na,"b,c"\nd,b\n', {},
         "line 2: .*kind=multilabel and .*separator=','"),
        ("text,label\na,b\u3001c\nd,b\u3001d\ne,c\u3001d\n", {}, "or='\u3001'"),
        ('text,label\na,"b,c"\nd,b\n', SEVERAL, "line 2: .*separator=','"),
        ("text,label\na,b and c\nd,b\ne,c\n", SEVERAL, "separator=' and '"),
        ('text,label\na,"[1, 0, 1]"\nb,[]\n', SEVERAL, "names of labels"),
        ("text,label\na,10\nb,01\n", SEVERAL, "line 2: .*names of labels"),
        ("text,label\na,1 0\nb,0 1\n", {}, "line 2: .*names of labels"),
        ('text,label\na,"[1, 0]"\n', SEVERAL | {"labels": "a,b,c"},
         "line 2: expected a 0 or a 1 for each of 3 labels"),
        ("text,label\na,\"['b', \"\nc,b\n", SEVERAL, "line 2: .*a list of"),
        (_lines({"a": 0.9, "b": 0.1}), {"name": "t.jsonl"}, "line 1: .*0.9"),
        ("text,label\na,\"tensor([1, 0])\"\n", {}, "a list of labels"),
        ("text,label\na,<b><d>\n", SEVERAL, "a list of labels"),
        ("text,label\na,b'd'\n", {}, "a list of labels"),
        (_lines([{"start": 0, "end": 1, "label": "a"}]), {"name": "t.jsonl"},
         "line 1: expected a label, a list"),
        ('text,label\na,b\nc,"d\te"\n', {}, "line 3: expected no tabs"),
        ('text,label\n"a\nb",x\n"c\nd",y\n', {"id_column": "text"},
         "line 2: expected no tabs and line ends"),
        ("text,label\n\"['a', 'b']\",x\n[],y\n", {}, "line 2: .*plain texts"),
        ("text,label\na,1\nb,3\n", NUMBERS | {"max_value": 2.0},
         "line 3: expected a number from 0"),
        ("text,label\na,1\nb,1.0\n", NUMBERS, "different numbers.*'label'"),
        ('text,label\na,"1,5"\n', NUMBERS, "'1,5'. Write a plain"),
        (_lines(1, None), NUMBERS | {"name": "t.jsonl"}, "line 2: .*remove"),
        (CSV, NUMBERS | {"class_weights": "balanced"}, "are for class"),
        (CSV, NUMBERS | COLUMNS, "must be one column.*'b, a'.*regression"),
        (CSV, {"class_weights": "god=2"}, "'god=2'. Did you mean 'good'"),
        (CSV, {"positive_label": "best"}, "one of bad, good. Received: 'best'"),
        (CSV + "x,so\n", {"positive_label": "bad"}, "is for two labels"),
        (CSV, {"labels": "good,bad,good"}, "must list two or more different"),
        ('{"text": [5], "label": "a"}\n', {"name": "t.jsonl"},
         "line 1: expected a text in.*Write a row for each"),
        ('{"text": null, "label": "a"}\n', {"name": "t.jsonl"},
         "line 1: expected a text in.*'null'. Remove the row"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_error(tmp_path, text, fields, expected):
    with pytest.raises(ValueError, match=expected):
        task = build_own(tmp_path, text, **fields)
        task.describe_labels({"train": task.read_split("train")})


def test_a_trained_models_labels_serve_without_a_training_file(write):
    dev_file = str(write("dev.csv", "text,label\na,so so\n"))
    task = catalog.build_task("own", own_settings(dev_file=dev_file))
    with pytest.raises(errors.DataError, match="own.labels=A,B"):
        task.build_head(4, seed=1)
    task.use_labels(("so so", "a, b", "c"))
    assert task.build_head(4, seed=1).dense.kernel.shape == (4, 3)
    assert task.read_split("dev")[0].label == "so so"
    assert task.metrics == ("accuracy", "mcc", "macro_f1")


def test_points_that_may_be_of_thousands_are_told(tmp_path, caplog):
    for text in ("1.234\nb,20.500", "1.234\nb,0.500", "1.234\nb,2.5"):
        task = build_own(tmp_path, f"text,label\na,{text}\n", **NUMBERS)
        assert task.read_split("train")[0].label == 1.234
    assert caplog.text.count("line 2: '1.234' is read as 1.234. Write") == 1
