"""A client of an exported model: which words of a text are suspicious.

    scored = Scorer(export_dir).score(["The cat sat on the banana."])[0]
    print(scored.most_suspicious())

A word is what the tokenizer splits at blanks, punctuation and CJK; its
probability is that of its most suspicious piece. Imports nothing of this
project, as any client would.
"""

import os
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401  (registers the model's operations)

_SIGNATURE = "score_text"
# Texts that the model sees together; more would only cost memory.
_MAX_BATCH = 32


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


class Scorer:
    """Scores texts with an exported model.

    Args:
        export_dir: folder that `scripts/export_saved_model.py` made.

    Raises:
        FileNotFoundError: if there is no SavedModel.
        ValueError: if it is not one of ours.
    """

    def __init__(self, export_dir: str | os.PathLike[str]) -> None:
        folder = pathlib.Path(export_dir)
        if not (folder / "saved_model.pb").is_file():
            raise FileNotFoundError(
                "A SavedModel must be given, a folder with saved_model.pb. "
                f"Received: {folder}. Make one with "
                "scripts/export_saved_model.py."
            )
        # The signature alone would not keep the weights alive.
        self._model = tf.saved_model.load(str(folder))
        if _SIGNATURE not in self._model.signatures:
            raise ValueError(
                f"The SavedModel must have a signature {_SIGNATURE!r}. "
                f"Received: {sorted(self._model.signatures)} in {folder}. "
                "Make it with scripts/export_saved_model.py."
            )
        self._score = self._model.signatures[_SIGNATURE]

    def score(self, texts: Sequence[str | bytes]) -> list[ScoredText]:
        """Scores every word of every text.

        Args:
            texts: sentences; bytes are taken as UTF-8.

        Returns:
            One result per text, in their order.
        """
        encoded = [
            text if isinstance(text, bytes)
            # Bytes that were no UTF-8 on a command line become them again.
            else text.encode("utf-8", "surrogateescape")
            for text in texts
        ]  # fmt: skip
        scored: list[ScoredText] = []
        for first in range(0, len(encoded), _MAX_BATCH):
            batch = encoded[first : first + _MAX_BATCH]
            answers = self._score(texts=tf.constant(batch, tf.string))
            arrays = {name: value.numpy() for name, value in answers.items()}
            for row, data in enumerate(batch):
                scored.append(
                    ScoredText(
                        data,
                        group_words(
                            data,
                            arrays["word_starts"][row],
                            arrays["word_ends"][row],
                            arrays["replaced_probability"][row],
                        ),
                        int(arrays["num_truncated"][row]),
                    )
                )
        return scored


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
    largest: dict[tuple[int, int], float] = {}
    for start, end, probability in zip(
        word_starts.tolist(),
        word_ends.tolist(),
        replaced_probability.tolist(),
        strict=True,
    ):
        if start >= 0:
            known = largest.get((start, end), 0.0)
            largest[start, end] = max(known, probability)
    return tuple(
        ScoredWord(_decode(data[start:end]), start, end, probability)
        for (start, end), probability in largest.items()
    )


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
    before, old, new, after = (
        part.encode("utf-8", "surrogateescape")
        for part in (
            text[: found.start()],
            word,
            replacement,
            text[found.end() :],
        )
    )
    start = len(before)
    return Swap(before + new + after, start, start + len(old), start + len(new))


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
