"""The words of a document, and where among them an answer stands.

Answers are annotated by characters, models read tokens; words between blanks
are what both share (the original's `finetune/qa/qa_tasks.py`, and BERT's code
before).
"""

import bisect
import re
from typing import NamedTuple

# Blanks of the original. Others, for example U+00A0, are inside words.
_WORD = re.compile("[^ \t\r\n\u202f]+")


class Words(NamedTuple):
    """The words of a text.

    Attributes:
        texts: the words.
        starts: the character of the text at which each begins.
    """

    texts: list[str]
    starts: list[int]


def split_words(text: str) -> Words:
    r"""The words between blanks.

    >>> split_words("New  York\u00a0City")
    Words(texts=['New', 'York\xa0City'], starts=[0, 5])
    """
    texts, starts = [], []
    for match in _WORD.finditer(text):
        texts.append(match[0])
        starts.append(match.start())
    return Words(texts, starts)


def find_answer(
    context: str, words: Words, answer: str, start: int
) -> tuple[int, int] | None:
    """The words that an answer lies in.

    An offset may be wrong: what counts is that the answer, in lower case and
    with single blanks, is in the words that cover the characters said.

    Args:
        context: the document.
        words: of the document.
        answer: the answer's text.
        start: the character at which it is said to begin.

    Returns:
        First and last word; None if the answer is not there. The first is -1
        if the answer is said to begin with the blanks before the document's
        only word; that counts from the end, as in the original.
    """
    last = start + len(answer) - 1
    if not answer or start < 0 or last >= len(context):
        return None
    first_word = _word_at(words, start)
    last_word = _word_at(words, last)
    covering = " ".join(words.texts[first_word : last_word + 1])
    if " ".join(answer.split()).lower() not in covering.lower():
        return None
    return first_word, last_word


def _word_at(words: Words, place: int) -> int:
    """The word of a character; that before it if it is a blank, or -1."""
    return bisect.bisect_right(words.starts, place) - 1
