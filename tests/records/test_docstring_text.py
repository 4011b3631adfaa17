"""Docstrings to prose, by worked examples."""

import pytest

from electra_tf.records.docstring_text import prose_paragraphs


def test_google_style_keeps_sentences_only():
    docstring = """Computes the mean of squares of errors.

    The result is averaged over the
    whole batch of examples.

    Args:
        x: The labels of the examples in this batch.
        y (optional): Predictions, which must have
            the same shape as the labels.
        z: A number.

    Returns:
        A tensor with one loss for each example.

    >>> compute(x, y)
    This is not a sentence of the text but output.
    """
    assert prose_paragraphs(docstring) == [
        "Computes the mean of squares of errors.",
        "The result is averaged over the whole batch of examples.",
        "The labels of the examples in this batch.",
        "Predictions, which must have the same shape as the labels.",
        "A tensor with one loss for each example.",
    ]


def test_numpy_style_drops_names_types_and_underlines():
    docstring = """
    Return evenly spaced values within a given interval.

    Parameters
    ----------
    start, stop : array_like
        The values at which the interval begins and ends.

    Returns
    -------
    ndarray
        Samples that are spaced evenly in the interval.
    """
    assert prose_paragraphs(docstring) == [
        "Return evenly spaced values within a given interval.",
        "The values at which the interval begins and ends.",
        "Samples that are spaced evenly in the interval.",
    ]


def test_code_and_tables_go():
    docstring = """
    ```python
    This is a sentence inside the code.
    ```

    ======  ======
    a       b
    ======  ======

    a_stmt ::= "with" ( "(" stmt ","? ")" | stmt ) ":" suite

       manager = (EXPRESSION)
       enter = type(manager).__enter__
    """
    assert prose_paragraphs(docstring) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "See :func:`~numpy.dot` and ``a.b`` for `more` of it [1]_.",
            "See numpy.dot and a.b for more of it.",
        ),
        (
            "Read [the guide](https://x.org/a_(b)) or **this** page first.",
            "Read the guide) or this page first.",
        ),
        (
            "It is *not* the case that 2 * 3 * 4 is large.",
            "It is not the case that 2 * 3 * 4 is large.",
        ),
        (
            "- the items of a list, which go on\n  in another line.",
            "The items of a list, which go on in another line.",
        ),
    ],
)
def test_markup_goes(text, expected):
    assert prose_paragraphs(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "Too short a text.",
        "no sentence because no full stop ends the paragraph",
        "Dict[str, int] -> x == 3 or y[0] = f(a, b) == {} of.",
        "Mean squared error loss function regression value.",
    ],
)
def test_what_is_no_sentence_goes(text):
    assert prose_paragraphs(text) == []
