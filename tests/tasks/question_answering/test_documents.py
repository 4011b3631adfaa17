"""Words between blanks, and the words of an answer."""

import pytest

from electra_tf.tasks.question_answering import documents


def _find(context, answer, start):
    words = documents.split_words(context)
    return documents.find_answer(context, words, answer, start)


def test_words_end_at_five_blanks_and_no_others():
    text = " a\tb\r\nc\u202fd\u00a0e  \u2028f"
    words = documents.split_words(text)
    assert words.texts == ["a", "b", "c", "d\u00a0e", "\u2028f"]
    assert words.starts == [1, 3, 6, 8, 13]
    for word, start in zip(words.texts, words.starts, strict=True):
        assert text[start:].startswith(word)


@pytest.mark.parametrize("text", ["", " ", "\n\t "])
def test_blanks_alone_are_no_words(text):
    assert documents.split_words(text) == documents.Words([], [])


@pytest.mark.parametrize(
    ("context", "answer", "start", "expected"),
    [
        ("a big cat", "big", 2, (1, 1)),
        ("a big cat", "big cat", 2, (1, 2)),
        # Case and numbers of blanks do not matter.
        ("a BIG  cat", "big cat", 2, (1, 2)),
        # A wrong place in the right word does not either.
        ("a (big) cat", "big", 2, (1, 1)),
        ("a (big) cat", "big", 4, (1, 1)),
        ("a big cat", "big", 5, (1, 2)),
        ("a big cat", "big", 6, None),
        ("a big cat", "cat", 0, None),
        # From a blank on, the word before it is covered.
        ("a big cat", "big", 1, (0, 1)),
        # Beyond the text, before it, nothing.
        ("a big cat", "cats", 6, None),
        ("a big cat", "cat", 7, None),
        ("a big cat", "cat", 90, None),
        ("a big cat", "a", -9, None),
        ("a big cat", "", 2, None),
        ("", "a", 0, None),
        # A blank that splits no words is one in the answer.
        ("a\u00a0b", "a\u00a0b", 0, None),
        # The blanks before the only word.
        (" cat", "cat", 0, (-1, 0)),
        (" big cat", "big", 0, None),
    ],
)
def test_an_answer_is_in_the_words_that_cover_it(
    context, answer, start, expected
):
    assert _find(context, answer, start) == expected
