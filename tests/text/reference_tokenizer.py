"""The original's tokenization rules, spelt out one character at a time.

A second, independent reading of the rules on top of Python's `unicodedata`,
to fuzz the graph against. It needs Python 3.11, whose tables are Unicode 14.
"""

import itertools
import unicodedata
from collections.abc import Iterator

from electra_tf.text.vocabulary import Vocabulary

IDEOGRAPHS = [
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
]  # fmt: skip


def tokenize(
    text: bytes, numbers: dict[str, int], vocabulary: Vocabulary
) -> list[int]:
    """The ids of one text; `numbers` are the ids by token."""
    decoded = text.decode("utf-8", errors="replace")
    return [
        numbers[piece]
        for word in split_words(decoded, vocabulary)
        for piece in split_pieces(word, numbers, vocabulary)
    ]


def split_words(text: str, vocabulary: Vocabulary) -> list[str]:
    """Returns normalised words."""
    settings = vocabulary.settings
    cleaned = "".join(map(clean, text))
    words = []
    for word in cleaned.split():
        if settings.do_lower_case:
            word = word.lower()
            if settings.strip_accents:
                word = unicodedata.normalize("NFD", word)
                word = "".join(
                    c for c in word if unicodedata.category(c) != "Mn"
                )
        words.extend(split_punctuation(word))
    return words


def clean(character: str) -> str:
    """Returns what is left of a character, an ideograph between blanks."""
    category = unicodedata.category(character)
    if character in "\t\n\r" or category == "Zs":
        return " "
    if category.startswith("C") or character == "\ufffd":
        return ""
    if any(first <= ord(character) <= last for first, last in IDEOGRAPHS):
        return f" {character} "
    return character


def split_punctuation(word: str) -> Iterator[str]:
    """Yields runs without punctuation and single punctuation characters."""
    for is_mark, run in itertools.groupby(word, is_punctuation):
        if is_mark:
            yield from run
        else:
            yield "".join(run)


def is_punctuation(character: str) -> bool:
    """Returns whether the character is a word of its own."""
    if character.isascii():
        return not character.isalnum() and character.isprintable()
    return unicodedata.category(character).startswith("P")


def split_pieces(
    word: str, numbers: dict[str, int], vocabulary: Vocabulary
) -> list[str]:
    """Returns the longest matches from left to right, or [UNK]."""
    if len(word) > vocabulary.settings.max_word_length:
        return ["[UNK]"]
    pieces = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            if prefix + word[start:end] in numbers:
                break
        else:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces
