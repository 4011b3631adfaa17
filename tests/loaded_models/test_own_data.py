"""Lists and frames become the files and settings of the task `own`."""

import pytest

from electra_tf import errors
from electra_tf.loaded_models import finetuned
from electra_tf.tasks import catalog


def _build(folder, train, dev=None, **sections):
    data = {"train": train} | ({} if dev is None else {"dev": dev})
    return finetuned.build_settings(folder, data, sections)


@pytest.mark.parametrize(
    ("rows", "kind", "first"),
    [
        ([("a cat", "x"), ("a dog", "y")], "classification",
         ("a cat", None, "x")),
        ([("a", "b", 1), ("c", "d", 0)], "classification", ("a", "b", "1")),
        # Numbers are kept to the bit.
        ({"text": ["a", "b"], "label": [0.1 + 0.6, 3e-20]}, "regression",
         ("a", None, 0.1 + 0.6)),
        ([{"text": "a", "text_pair": "b", "label": True},
          {"text": "c", "text_pair": "d", "label": False}],
         "classification", ("a", "b", "true")),
        ([(["a", "cat"], ["O", "B-X"]), (["sat"], ["O"])], "tagging",
         (("a", "cat"), ("O", "B-X"))),
        ([("A: a", [[0, 1, "X"]])], "tagging",
         (("A", ":", "a"), ("B-X", "O", "O"))),
        ([("A cat", {"entities": [(0, 1, "X")]})], "tagging",
         (("A", "cat"), ("B-X", "O"))),
        ([{"question": "a", "choices": ["b", "c"], "label": 0}],
         "multiple_choice", ("a", "b", 1.0)),
        # Numbers that pandas made floats, and lists of labels.
        ([("a", 0.0), ("b", 1.0), ("c", 1.0)], "classification",
         ("a", None, "0")),
        ([("a cat", ["x", "y"]), ("b", [])], "multilabel",
         ("a cat", None, ("x", "y"))),
        ([("a cat", "['x' 'y' 'x']"), ("b", "[]")], "multilabel",
         ("a cat", None, ("x", "y"))),
        ([{"question": "who?", "context": "a cat", "answer": "cat"}], "qa",
         None),
    ],
)  # fmt: skip
def test_the_kind_is_found_in_the_data(tmp_path, rows, kind, first):
    settings = _build(tmp_path, rows, rows)
    assert settings.own.kind == kind
    (example, *_) = catalog.build_task("own", settings).read_split("train")
    if kind == "qa":
        assert (example.question, example.golds) == ("who?", ("cat",))
    else:
        assert first in (tuple(example)[:2], tuple(example)[1:])


@pytest.mark.parametrize(
    ("rows", "sections", "message"),
    [
        ([], {}, "Received: 0 rows"),
        (["one text"], {}, "rows of text and label.*1 rows of 0"),
        ({"a": ["x"], "label": ["y"]}, {}, "rows of a, label.*text_column"),
        ([("a", "x")], {"optimiser": {}}, "optimiser.*'optimizer'"),
        ([("a", "x")], {"training": {"epochs": 3}}, "training.epochs"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, rows, sections, message):
    kinds = errors.DataError, errors.ConfigError
    with pytest.raises(kinds, match=f"(?s){message}"):
        _build(tmp_path, rows, **sections)
