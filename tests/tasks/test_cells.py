"""What a cell is, however a program wrote it."""

import math

import numpy as np
import pytest

from electra_tf.tasks import cells


@pytest.mark.parametrize(
    ("cell", "meaning"),
    [
        # JSON, pandas, NumPy; with blanks and quotes.
        ("['a', 'b']", ["a", "b"]),
        ('["a","b"]', ["a", "b"]),
        ("['a' 'b'\n 'c']", ["a", "b", "c"]),
        ("[np.str_('a'), np.str_('b')]", ["a", "b"]),
        ("('a', 'b')", ["a", "b"]),
        ("{'b', 'a'}", ["b", "a"]),
        ("""["it's", 'a, b', 'c" "d']""", ["it's", "a, b", 'c" "d']),
        (np.array(["a", "b"]), ["a", "b"]),
        ("[]", []),
        ("[1 0 1]", [1, 0, 1]),
        ("[1. 0.]", [1, 0]),
        ("[True, False]", [True, False]),
        ('{"labels": ["a"]}', {"labels": ["a"]}),
        ("{'a': 1, 'b': 0}", {"a": 1, "b": 0}),
        ('"a"', "a"),
        ("'a' 'b'", ["a", "b"]),
        ("set()", []),
        (" a\xa0\u200b", "a"),
        # What only begins like one of these is a string, and so is a word.
        ("[a b]", "[a b]"),
        ("[a, b]", "[a, b]"),
        ("b'a'", "b'a'"),
        ("1 0 1", "1 0 1"),
        ("['a', 'b", "['a', 'b"),
        ("[0 1 ... 1]", "[0 1 ... 1]"),
        ("'tis", "'tis"),
        ("(a)", "(a)"),
        ("(1)", "(1)"),
        ("NA", "NA"),
        ("1.0", "1.0"),
        ("  ", None),
        (math.nan, None),
        (None, None),
    ],
)
def test_a_cell_is_what_its_form_says(cell, meaning):
    assert cells.understand(cell) == meaning


@pytest.mark.parametrize(
    ("value", "name"),
    [(1.0, "1"), ("-2.00", "-2"), (True, "true"), ("TRUE", "true"), (0, "0"),
     ("e\u0301", "\xe9"), (" a", "a"), ("none", "none"), (0.5, "0.5"),
     *((missing, None) for missing in ("", " ", math.nan, "NA", "None"))],
)  # fmt: skip
def test_a_label_has_one_spelling(value, name):
    assert cells.label_name(value) == name
    assert cells.label_name("None", {"None"}) == "None"
    assert cells.label_name("1.0", {"1.0"}) == "1.0"
