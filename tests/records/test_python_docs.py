"""The embedded corpus, from a small stand-in for an installation."""

import json

from electra_tf.records import python_docs
from electra_tf.records.python_docs import prose_paragraphs

WORDS = "one two three four five six seven eight nine ten"
SENTENCES = [
    f"This is sentence number {word} of a long enough documentation text."
    for word in WORDS.split()
]


def test_documents_are_modules_in_order_without_repetitions(
    tmp_path, monkeypatch
):
    # In place of the standard library and the installed packages.
    text = "\n\n".join(SENTENCES)
    body = (
        '\nclass A:\n    """A class that does what its name says it does."""\n'
        '    def f(self):\n        """A method that the class has for us."""\n'
    )
    for name, code in {
        "one/b.py": f'"""{text}"""{body}',
        "one/a.py": '"""Too short to be a document at all."""',
        "one/tests/c.py": f'"""{text.replace("This", "That")}"""',
        "two/a.py": f'"""{text}\n\nOne more of them is new."""',
        "two/broken.py": "def (:\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
    roots = [(name, tmp_path / name) for name in ("one", "two")]
    monkeypatch.setattr(python_docs, "_roots", lambda: roots)
    folder = python_docs.prepare(tmp_path / "out")
    assert (folder / "one.txt").read_text().splitlines() == [
        *SENTENCES,
        "A class that does what its name says it does.",
        "A method that the class has for us.",
    ]
    # All but one paragraph of the second package occurred before, and what
    # is left is too little for a document.
    assert (folder / "two.txt").read_text() == "\n"
    provenance = json.loads((folder / "provenance.json").read_text())
    assert provenance["versions"] == python_docs.installed_versions()
    assert provenance["files"]["one.txt"]["documents"] == 1


def test_sentences_are_kept_and_nothing_else():
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

    ```python
    This is a sentence inside the code.
    ```

    ======  ======
    a       b
    ======  ======

    Parameters
    ----------
    start, stop : array_like
        The values at which the interval begins and ends.

    Returns
    -------
    ndarray
        Samples that are spaced evenly in the interval.

    a_stmt ::= "with" ( "(" stmt ","? ")" | stmt ) ":" suite
    """
    assert prose_paragraphs(docstring) == [
        "Computes the mean of squares of errors.",
        "The result is averaged over the whole batch of examples.",
        "The labels of the examples in this batch.",
        "Predictions, which must have the same shape as the labels.",
        "A tensor with one loss for each example.",
        "The values at which the interval begins and ends.",
        "Samples that are spaced evenly in the interval.",
    ]
