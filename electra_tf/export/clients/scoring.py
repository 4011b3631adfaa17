"""Which words of a text are suspicious, or unlikely.

    model = text_models.LoadedExport(export_dir)
    scored = scoring.score(model, ["The cat sat on the banana."])[0]
    print(scored.most_suspicious())

A word is what the tokenizer splits at blanks, punctuation and CJK.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from electra_tf.export.clients import text_models

LIKELIHOOD_SIGNATURE = "likelihood_text"
_SCORE_SIGNATURE = "score_text"


class ScoredWord(NamedTuple):
    """A word and how suspicious it is."""

    text: str
    start: int  # byte of the sentence at which it starts
    end: int  # byte after it
    replaced_probability: float  # largest over its pieces


class ScoredText(NamedTuple):
    """A sentence and its words."""

    data: bytes  # UTF-8; offsets count its bytes
    words: tuple[ScoredWord, ...]  # as far as they were seen
    num_truncated: int  # pieces at its end that the model did not see

    def most_suspicious(self, count: int = 1) -> tuple[ScoredWord, ...]:
        """The words with the largest probabilities, largest first."""
        ranked = sorted(self.words, key=lambda word: -word.replaced_probability)
        return tuple(ranked[:count])


class LikelyWord(NamedTuple):
    """A word and how likely it is, otherwise as `ScoredWord`."""

    text: str
    start: int
    end: int
    log_likelihood: float  # sum over its pieces


class LikelyText(NamedTuple):
    """A sentence and how likely it is, otherwise as `ScoredText`."""

    data: bytes
    words: tuple[LikelyWord, ...]
    num_truncated: int
    pseudo_log_likelihood: float  # sum over its words

    def least_likely(self, count: int = 1) -> tuple[LikelyWord, ...]:
        """The words with the smallest log likelihoods, smallest first."""
        ranked = sorted(self.words, key=lambda word: word.log_likelihood)
        return tuple(ranked[:count])


def score(
    model: text_models.TextModel, texts: Iterable[str | bytes]
) -> list[ScoredText]:
    """Scores every word of every text."""
    scored = []
    for (data,), row in model.predict(_SCORE_SIGNATURE, texts=texts):
        pieces = join_pieces(data, row, "replaced_probability")
        words = (ScoredWord(*word, max(p)) for word, p in pieces.items())
        scored.append(ScoredText(data, tuple(words), int(row["num_truncated"])))
    return scored


def score_likelihood(
    model: text_models.TextModel, texts: Iterable[str | bytes]
) -> list[LikelyText]:
    """Computes the likelihood of every text and of its words.

    Log likelihoods are up to a constant per token, which the model does not
    know: they compare texts of about equal length, no more.
    """
    scored = []
    for (data,), row in model.predict(LIKELIHOOD_SIGNATURE, texts=texts):
        pieces = join_pieces(data, row, "token_log_likelihood")
        words = (LikelyWord(*word, sum(p)) for word, p in pieces.items())
        num_truncated = int(row["num_truncated"])
        total = float(row["pseudo_log_likelihood"])
        scored.append(LikelyText(data, tuple(words), num_truncated, total))
    return scored


def join_pieces(
    data: bytes, row: dict[str, np.ndarray], output: str
) -> dict[tuple[str, int, int], list[float]]:
    """Joins the pieces of each word of a text.

    Args:
        data: the text.
        row: its answers, `word_starts` and `word_ends` among them.
        output: name of a `[S]` float array in the row.

    Returns:
        Text, first byte and byte after each word to the output at its pieces.
    """
    words: dict[tuple[str, int, int], list[float]] = {}
    columns = row["word_starts"], row["word_ends"], row[output]
    for start, end, value in zip(*(c.tolist() for c in columns), strict=True):
        if start >= 0:
            text = data[start:end].decode("utf-8", "replace")
            words.setdefault((text, start, end), []).append(value)
    return words


class Swap(NamedTuple):
    """A sentence in which one word was exchanged."""

    data: bytes  # the new sentence in UTF-8
    start: int  # byte at which the word starts, in both sentences
    old_end: int  # byte after it in the old sentence
    new_end: int  # byte after it in the new sentence


def swap_word(text: str, swap: str) -> Swap:
    """Exchanges the first occurrence of a word in a sentence."""
    word, colon, replacement = swap.partition(":")
    if not (word and colon and replacement):
        raise ValueError(
            f"A swap must be given as WORD:REPLACEMENT. Received: {swap!r}."
        )
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)
    if found is None:
        raise ValueError(
            f"The word to swap must occur in the text. Received: {word!r} for "
            f"{text!r}. Choose one of its words."
        )
    return exchange(text, found.start(), found.end(), replacement)


def exchange(text: str, start: int, end: int, replacement: str) -> Swap:
    """Exchanges the characters from `start` to before `end` of a sentence."""
    before, old, new, after = (
        part.encode("utf-8", "surrogateescape")
        for part in (text[:start], text[start:end], replacement, text[end:])
    )
    first = len(before)
    return Swap(before + new + after, first, first + len(old), first + len(new))


def find_suspect(
    scored: ScoredText, start: int, end: int
) -> tuple[int, ScoredWord] | None:
    """The most suspicious word that touches some bytes of the sentence.

    Returns:
        Its place by suspicion among all words, from 1, and the word; None if
        the bytes were truncated.
    """
    ranked = scored.most_suspicious(len(scored.words))
    for place, word in enumerate(ranked, 1):
        if word.start < end and word.end > start:
            return place, word
    return None
