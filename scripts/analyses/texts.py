"""Reads sentences whose words may have labels, and locates their tokens."""

import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd
import tensorflow as tf

from analyses import word_tests
from electra_tf import storage
from electra_tf.loaded_models import pretrained
from electra_tf.tasks import files

# A file of the Brown corpus: blank lines, and words with their tags.
_BROWN_FILE = re.compile(r"c[a-r]\d\d")
# Universal parts of speech by prefix of the corpus' tags; the first match wins.
_PARTS_OF_SPEECH = {
    "np|nr": "proper noun", "n": "noun", "be|do|hv|md": "auxiliary",
    "v": "verb", "j": "adjective", "rp|to": "particle",
    "r|wrb|wql|ql": "adverb", "in": "adposition", "p|wp|ex": "pronoun",
    "at|a[bp]|dt|wdt": "determiner", "c[cs]": "conjunction",
    "cd|od": "numeral",
}  # fmt: skip

_T = TypeVar("_T")


class Sentence(NamedTuple):
    """A sentence and a label for each of its words."""

    words: tuple[str, ...]
    labels: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The words with single blanks, the input of models."""
        return " ".join(self.words)


def read_sentences(data: str, limit: int, seed: int) -> list[Sentence]:
    """Draws sentences of a corpus; of the Brown corpus with parts of speech.

    A `limit` of 0 means 2,000 sentences of running text, or all of the Brown
    corpus. Raises `DataError` for less than two sentences.
    """
    folder = storage.path(data)
    paths = [p for p in folder.rglob("*") if _BROWN_FILE.fullmatch(p.name)]
    if paths:
        sentences = [x for path in sorted(paths) for x in _read_brown(path)]
        drawn = draw(sentences, limit, seed)
    else:
        lines = word_tests.read_sentences(data, limit or 2_000, seed)
        drawn = [Sentence(tuple(text.split())) for text in lines]
    if len(drawn) < 2:
        expected = "two sentences, one to fit on and one to judge"
        remedy = "Give more text, or a larger --limit."
        raise files.unexpected(data, expected, len(drawn), remedy)
    return drawn


def draw(items: Sequence[_T], limit: int, seed: int) -> list[_T]:
    """Draws at most `limit` items (0: all) in random order."""
    order = np.random.default_rng(seed).permutation(len(items))
    return [items[i] for i in order[: limit or None]]


def _read_brown(path: pathlib.Path) -> list[Sentence]:
    sentences = []
    for number, line in files.read_lines(path):
        pairs = [token.rpartition("/") for token in line.split()]
        if not all(word and tag for word, _, tag in pairs):
            source = f"{path}, line {number}"
            raise files.unexpected(source, "words as WORD/TAG", line.strip())
        if pairs:
            words, _, tags = zip(*pairs, strict=True)
            sentences.append(Sentence(words, (*map(part_of_speech, tags),)))
    return sentences


def part_of_speech(tag: str) -> str:
    """Returns the universal part of speech of a tag of the Brown corpus.

    >>> [part_of_speech(tag) for tag in ("nn-tl", "np$", "hvd*", ".", "fw-in")]
    ['noun', 'proper noun', 'auxiliary', 'punctuation', 'other']
    """
    for prefix, part in _PARTS_OF_SPEECH.items():
        if re.match(prefix, tag):
            return part
    return "other" if tag[0].isalpha() else "punctuation"


def locate_pieces(
    electra: pretrained.PretrainedModel, sentences: Sequence[Sentence]
) -> pd.DataFrame:
    """Builds a table with a row for each piece that the model sees.

    Columns: `sentence`, its number; `position` in the model's row, from 1 after
    [CLS]; `id` of the piece; `word`, its number in the sentence, and
    `flat_word`, its number among all words; `label` of the word, or empty;
    `length`, the number of pieces of the sentence.
    """
    words = list_words(sentences)
    sizes = [len(word.encode()) + 1 for own in sentences for word in own.words]
    ends = np.cumsum([0, *sizes])
    firsts = np.cumsum([0, *(len(own.words) for own in sentences)])
    plain = tf.constant([sentence.text for sentence in sentences], tf.string)
    ids, starts, _ = electra.tokenizer.tokenize_with_offsets(plain)
    number = ids.value_rowids().numpy()
    # Offsets of pieces' begins in all texts, joined by blanks, as `ends`.
    begins = ends[firsts[number]] + starts.flat_values.numpy()
    flat_words = np.searchsorted(ends[1:], begins, side="right")
    pieces = pd.DataFrame(
        {
            "sentence": number, "id": ids.flat_values.numpy(),
            "word": flat_words - firsts[number], "flat_word": flat_words,
            "label": words["label"].to_numpy()[flat_words],
            "length": ids.row_lengths().numpy()[number],
        }
    )  # fmt: skip
    pieces["position"] = pieces.groupby("sentence").cumcount() + 1
    limit = electra.config.max_position_embeddings - 2  # [CLS] and [SEP]
    return pieces[pieces["position"] <= limit].reset_index(drop=True)


def list_words(sentences: Sequence[Sentence]) -> pd.DataFrame:
    """Builds a table with the `sentence` and `label` of each word."""
    sizes = [len(sentence.words) for sentence in sentences]
    labels = (own.labels or [""] * len(own.words) for own in sentences)
    return pd.DataFrame(
        {
            "sentence": np.repeat(np.arange(len(sentences)), sizes),
            "label": [label for own in labels for label in own],
        }
    )


def worst_pieces(
    pieces: pd.DataFrame, values: np.ndarray, num_words: int
) -> np.ndarray:
    """Returns the maximum over each word's pieces; unseen: the minimum."""
    largest = pd.Series(values).groupby(pieces["flat_word"].to_numpy()).max()
    by_word = largest.reindex(range(num_words), fill_value=values.min())
    return by_word.to_numpy(np.float64)


def groups(pieces: pd.DataFrame) -> Iterator[tuple[str, np.ndarray]]:
    """Yields names of groups of pieces, and a bool for each piece.

    Pieces are grouped by position in the sentence, frequency and label.
    """
    third = (pieces["position"] - 1) / pieces["length"]
    counts = pieces["id"].map(pieces["id"].value_counts())
    names = ["once", "2 to 10", "11 to 100", "more often"]
    grouped = {
        "third of the sentence": pd.cut(
            third, [0, 1 / 3, 2 / 3, 1], False, ["first", "2nd", "3rd"]
        ),
        "piece occurs": pd.cut(counts, [0, 1, 10, 100, np.inf], labels=names),
    }
    if pieces["label"].any():
        grouped["part of speech"] = pieces["label"]
    for title, keys in grouped.items():
        for key in keys.astype("category").cat.categories:
            yield f"{title}: {key}", (keys == key).to_numpy()
