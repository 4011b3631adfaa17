"""Which words of a text are suspicious, or unlikely.

`score(text_models.LoadedExport(export_dir), ["The cat sat on the banana."])`
gives words, as the tokenizer splits them at blanks, punctuation and CJK.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from electra_tf.export.clients import text_models

LIKELIHOOD_SIGNATURE = "likelihood_text"


class ScoredWord(NamedTuple):
    """A word and how suspicious it is."""

    text: str
    start: int  # byte of the sentence at which it starts
    end: int  # byte after it
    replaced_probability: float  # largest over its pieces


class LikelyWord(NamedTuple):
    """A word and how likely it is, otherwise as `ScoredWord`."""

    text: str
    start: int
    end: int
    log_likelihood: float  # sum over its pieces


class ScoredText(NamedTuple):
    """A sentence and its words."""

    data: bytes  # UTF-8; offsets count its bytes
    words: tuple[Any, ...]  # `ScoredWord` or `LikelyWord`, as far as seen
    num_truncated: int  # pieces at its end that the model did not see
    # Sum over `LikelyWord`s.
    pseudo_log_likelihood: float | None = None

    @property
    def is_likelihood(self) -> bool:
        """Whether words have likelihoods instead of probabilities."""
        return self.pseudo_log_likelihood is not None

    def most_suspicious(self, count: int = 1) -> tuple[Any, ...]:
        """The words most probably replaced, or least likely, worst first."""
        sign = 1 if self.is_likelihood else -1
        return tuple(sorted(self.words, key=lambda w: sign * w[3])[:count])


_WORDS: dict[str, tuple[Any, str, Any]] = {
    "score_text": (ScoredWord, "replaced_probability", max),
    LIKELIHOOD_SIGNATURE: (LikelyWord, "token_log_likelihood", sum),
}


def score(
    model: text_models.TextModel,
    texts: Iterable[str | bytes],
    signature: str = "score_text",
) -> list[ScoredText]:
    """Scores every word of every text.

    `LIKELIHOOD_SIGNATURE` gives likelihoods. Their logarithms are up to a
    constant per token, which the model does not know: they compare texts of
    about equal length, no more.
    """
    build, output, join = _WORDS[signature]
    scored = []
    for (data,), row in model.predict(signature, texts=texts):
        pieces = join_pieces(data, row, output)
        words = tuple(build(*word, join(p)) for word, p in pieces.items())
        total = None
        if signature == LIKELIHOOD_SIGNATURE:
            total = float(row["pseudo_log_likelihood"])
        scored.append(ScoredText(data, words, int(row["num_truncated"]), total))
    return scored


def join_pieces(
    data: bytes, row: dict[str, np.ndarray], output: str
) -> dict[tuple[str, int, int], list[float]]:
    """Joins the pieces of each word of a text.

    `row` are its answers, `output` the name of a `[S]` float array there.

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
    match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)
    if match is None:
        raise ValueError(
            f"The word to swap must occur in the text. Received: {word!r} for "
            f"{text!r}. Choose one of its words."
        )
    return exchange(text, match.start(), match.end(), replacement)


def exchange(text: str, start: int, end: int, replacement: str) -> Swap:
    """Exchanges the characters from `start` to before `end` of a sentence."""
    before, old, new, after = map(
        text_models.to_bytes,
        (text[:start], text[start:end], replacement, text[end:]),
    )
    first = len(before)
    return Swap(before + new + after, first, first + len(old), first + len(new))


def find_suspect(
    scored: ScoredText, start: int, end: int
) -> tuple[int, ScoredWord] | None:
    """The most suspicious word that touches some bytes, None if truncated.

    Before it stands its place by suspicion among all words, from 1.
    """
    for place, word in enumerate(scored.most_suspicious(len(scored.words)), 1):
        if word.start < end and word.end > start:
            return place, word
    return None
