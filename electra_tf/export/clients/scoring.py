"""A client of an exported model: which words are suspicious, or unlikely.

    export = loaded_export.LoadedExport(export_dir)
    scored = scoring.score(export, ["The cat sat on the banana."])[0]
    print(scored.most_suspicious())

A word is what the tokenizer splits at blanks, punctuation and CJK; its
probability is that of its most suspicious piece.
"""

import re
from collections.abc import Iterable
from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol

import numpy as np

LIKELIHOOD_SIGNATURE = "likelihood_text"
_SIGNATURE = "score_text"


class ScoredWord(NamedTuple):
    """A word and how suspicious it is.

    Attributes:
        text: as it stands in the sentence.
        start: byte of the sentence at which it starts.
        end: byte after it.
        replaced_probability: 0-1, largest over its pieces.
    """

    text: str
    start: int
    end: int
    replaced_probability: float


class ScoredText(NamedTuple):
    """A sentence and its words.

    Attributes:
        data: the sentence in UTF-8; offsets count its bytes.
        words: in the order of the sentence, as far as it was seen.
        num_truncated: pieces at its end that the model did not see.
    """

    data: bytes
    words: tuple[ScoredWord, ...]
    num_truncated: int

    def most_suspicious(self, count: int = 1) -> tuple[ScoredWord, ...]:
        """The words with the largest probabilities, largest first."""
        ranked = sorted(self.words, key=lambda word: -word.replaced_probability)
        return tuple(ranked[:count])


class LikelyWord(NamedTuple):
    """A word and how likely it is.

    Attributes:
        start: byte of the sentence at which it starts.
        end: byte after it.
        log_likelihood: sum over its pieces.
    """

    start: int
    end: int
    log_likelihood: float


class LikelyText(NamedTuple):
    """A sentence and how likely it is.

    Attributes:
        data: the sentence in UTF-8; offsets count its bytes.
        words: in the order of the sentence, as far as it was seen.
        pseudo_log_likelihood: sum over its words.
        num_truncated: pieces at its end that the model did not see.
    """

    data: bytes
    words: tuple[LikelyWord, ...]
    pseudo_log_likelihood: float
    num_truncated: int

    def least_likely(self, count: int = 1) -> tuple[LikelyWord, ...]:
        """The words with the smallest log likelihoods, smallest first."""
        ranked = sorted(self.words, key=lambda word: word.log_likelihood)
        return tuple(ranked[:count])


class AnswersTexts(Protocol):
    """`loaded_export.LoadedExport`, or `live_answers.LiveAnswers`."""

    def answer_texts(
        self, signature: str, texts: Sequence[str | bytes]
    ) -> Iterable[tuple[bytes, dict[str, np.ndarray]]]:
        """Every text in UTF-8, with what a signature answers for it."""


def score(
    export: AnswersTexts, texts: Sequence[str | bytes]
) -> list[ScoredText]:
    """Scores every word of every text.

    Args:
        export: of a run whose objective detects replaced tokens; or such a
            model in memory.
        texts: sentences; bytes are taken as UTF-8.

    Returns:
        One result per text, in their order.

    Raises:
        ValueError: if the model does not detect replaced tokens.
    """
    return [
        ScoredText(
            data,
            group_words(
                data,
                row["word_starts"],
                row["word_ends"],
                row["replaced_probability"],
            ),
            int(row["num_truncated"]),
        )
        for data, row in export.answer_texts(_SIGNATURE, texts)
    ]


def group_words(
    data: bytes,
    word_starts: np.ndarray,
    word_ends: np.ndarray,
    replaced_probability: np.ndarray,
) -> tuple[ScoredWord, ...]:
    """Joins the pieces of each word.

    Args:
        data: the text that the offsets point into.
        word_starts: `[S]` int, bytes; negative where there is no word.
        word_ends: `[S]` int, bytes.
        replaced_probability: `[S]` float, 0-1.

    Returns:
        The words in the order of the text.
    """
    pieces = join_pieces(word_starts, word_ends, replaced_probability)
    return tuple(
        ScoredWord(_decode(data[start:end]), start, end, max(values))
        for (start, end), values in pieces.items()
    )


def join_pieces(
    word_starts: np.ndarray, word_ends: np.ndarray, values: np.ndarray
) -> dict[tuple[int, int], list[float]]:
    """The values of each word's pieces, by the word's place in the text.

    Args:
        word_starts: `[S]` int, bytes; negative where there is no word.
        word_ends: `[S]` int, bytes.
        values: `[S]` float.

    Returns:
        First byte and byte after the word to its values, in order.
    """
    words: dict[tuple[int, int], list[float]] = {}
    for start, end, value in zip(
        word_starts.tolist(), word_ends.tolist(), values.tolist(), strict=True
    ):
        if start >= 0:
            words.setdefault((start, end), []).append(value)
    return words


def score_likelihood(
    export: AnswersTexts, texts: Sequence[str | bytes]
) -> list[LikelyText]:
    """The likelihood of every text and of its words.

    Log likelihoods are up to a constant per token, which the model does not
    know: they compare texts of about equal length, no more.

    Args:
        export: of a run of the objective `electric`.
        texts: sentences; bytes are taken as UTF-8.

    Returns:
        One result per text, in their order.

    Raises:
        ValueError: if the model does not offer likelihoods.
    """
    scored = []
    for data, row in export.answer_texts(LIKELIHOOD_SIGNATURE, texts):
        words = join_pieces(
            row["word_starts"], row["word_ends"], row["token_log_likelihood"]
        )
        scored.append(
            LikelyText(
                data,
                tuple(LikelyWord(*span, sum(v)) for span, v in words.items()),
                float(row["pseudo_log_likelihood"]),
                int(row["num_truncated"]),
            )
        )
    return scored


class Swap(NamedTuple):
    """A sentence in which one word was exchanged.

    Attributes:
        data: the new sentence in UTF-8.
        start: byte at which the word starts, in both sentences.
        old_end: byte after it in the old sentence.
        new_end: byte after it in the new sentence.
    """

    data: bytes
    start: int
    old_end: int
    new_end: int


def swap_word(text: str, swap: str) -> Swap:
    """Exchanges the first occurrence of a word.

    Args:
        text: a sentence.
        swap: `WORD:REPLACEMENT`; the word counts only as a whole word, with
            equal case.

    Raises:
        ValueError: if `swap` has another form or the word does not occur.
    """
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
    """Exchanges a part of a sentence.

    Args:
        text: a sentence.
        start: character at which the part starts.
        end: character after it.
        replacement: what stands there instead.
    """
    before, old, new, after = (
        part.encode("utf-8", "surrogateescape")
        for part in (text[:start], text[start:end], replacement, text[end:])
    )
    first = len(before)
    return Swap(before + new + after, first, first + len(old), first + len(new))


def find_suspect(
    scored: ScoredText, start: int, end: int
) -> tuple[int, ScoredWord] | None:
    """The most suspicious word that touches a part of the sentence.

    Args:
        scored: the sentence.
        start: byte at which the part starts.
        end: byte after it.

    Returns:
        Its place by suspicion among all words, from 1, and the word; None if
        the part was truncated.
    """
    ranked = scored.most_suspicious(len(scored.words))
    for place, word in enumerate(ranked, 1):
        if word.start < end and word.end > start:
            return place, word
    return None


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
