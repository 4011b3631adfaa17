"""Sentences whose words may have labels, and the pieces of their words."""

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import tensorflow as tf

from electra_tf import electra as electra_lib
from electra_tf import errors
from electra_tf.analysis import word_tests

# A file of the Brown corpus: blank lines, and words with their tags.
_BROWN_FILE = re.compile(r"c[a-r]\d\d")
# The beginnings of its tags, to the universal parts of speech; in this order.
_PARTS_OF_SPEECH = {
    "np|nr": "proper noun",
    "n": "noun",
    "be|do|hv|md": "auxiliary",
    "v": "verb",
    "j": "adjective",
    "rp|to": "particle",
    "r|wrb|wql|ql": "adverb",
    "in": "adposition",
    "p|wp|ex": "pronoun",
    "at|a[bp]|dt|wdt": "determiner",
    "c[cs]": "conjunction",
    "cd|od": "numeral",
}


class Sentence(NamedTuple):
    """A sentence and a label for each of its words."""

    words: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The words between single blanks, as models are given them."""
        return " ".join(self.words)


def read(data: str, limit: int, seed: int) -> list[Sentence]:
    """Sentences of a corpus; of the Brown corpus with parts of speech.

    At most `limit` are drawn by the seed, 0 takes 2,000 of running text and
    all of the Brown corpus.
    """
    folder = pathlib.Path(data)
    files = sorted(
        path for path in folder.rglob("*") if _BROWN_FILE.fullmatch(path.name)
    )
    if not files:
        found = word_tests.read_sentences(data, limit or 2_000, seed)
        return [Sentence(tuple(text.split())) for text in found]
    sentences = [one for path in files for one in _read_brown(path)]
    order = np.random.default_rng(seed).permutation(len(sentences))
    return [sentences[i] for i in order[: limit or None]]


def _read_brown(path: pathlib.Path) -> list[Sentence]:
    sentences = []
    lines = path.read_text("utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        pairs = [token.rpartition("/") for token in line.split()]
        if any(not word or not tag for word, _, tag in pairs):
            raise errors.DataError(
                f"{path}, line {number}: every word must be WORD/TAG. "
                f"Received: {line.strip()[:80]!r}."
            )
        if pairs:
            words = tuple(word for word, _, _ in pairs)
            parts = tuple(part_of_speech(tag) for *_, tag in pairs)
            sentences.append(Sentence(words, parts))
    return sentences


def part_of_speech(tag: str) -> str:
    """The universal part of speech of a tag of the Brown corpus.

    >>> [part_of_speech(tag) for tag in ("nn-tl", "np$", "hvd*", ".", "fw-in")]
    ['noun', 'proper noun', 'auxiliary', 'punctuation', 'other']
    """
    for beginning, part in _PARTS_OF_SPEECH.items():
        if re.match(beginning, tag):
            return part
    return "other" if tag[0].isalpha() else "punctuation"


def locate_pieces(
    electra: electra_lib.Electra, sentences: Sequence[Sentence]
) -> pd.DataFrame:
    """The word that every piece of every sentence belongs to.

    A row for each piece, in order: `sentence`, its number; `position` in the
    model's row, from 1 after [CLS]; `id` of the piece; `word`, its number in
    the sentence; `label` of that word, empty without labels.
    """
    texts = tf.constant([sentence.text for sentence in sentences], tf.string)
    ids, starts, _ = electra.tokenizer.tokenize_with_offsets(texts)
    frames = []
    columns = ids.to_list(), starts.to_list(), sentences
    for number, (own, begins, sentence) in enumerate(
        zip(*columns, strict=True)
    ):
        sizes = [len(word.encode()) + 1 for word in sentence.words]
        ends = np.cumsum(sizes, dtype=np.int64)
        words = np.searchsorted(ends, begins, side="right")
        labels = np.array(sentence.labels or [""] * len(sizes), object)
        frames.append(
            pd.DataFrame(
                {
                    "sentence": number,
                    "position": np.arange(1, len(own) + 1),
                    "id": own,
                    "word": words,
                    "label": labels[words],
                }
            )
        )
    return pd.concat(frames, ignore_index=True)
