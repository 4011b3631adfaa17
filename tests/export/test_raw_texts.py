"""Texts that are none are told apart before anything is computed."""

import numpy as np
import pytest

from electra_tf.export import raw_texts


@pytest.mark.parametrize(
    "texts",
    [["a", "b"], ("a", "b"), np.array(["a", "b"]), iter(["a", "b"])],
)
def test_anything_that_gives_str_is_taken(texts):
    assert raw_texts.check("texts", texts) == ["a", "b"]


def test_no_texts_are_fine():
    assert raw_texts.check("texts", []) == []


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one", r"a single str\. Put it into a list"),
        (b"one", "a single bytes"),
        (3, "Received: 3"),
        (None, "Received: None"),
        (["a", b"b"], r"bytes as number 1 \(from 0\): b'b'"),
        ([1.5], "float as number 0"),
        (["a", "b\udc80"], "surrogate pair in number 1 .* character 1"),
    ],
)
def test_anything_else_is_named(texts, message):
    with pytest.raises(ValueError, match=message):
        raw_texts.check("texts", texts)
