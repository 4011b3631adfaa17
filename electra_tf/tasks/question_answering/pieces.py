"""The word pieces of a split's questions and documents, made all at once.

Documents share most of their words: each distinct word is tokenised once, and
so is each distinct question, in a few calls of the tokenizer. A document's
pieces are then a matter of copying. A word's pieces do not depend on the words
beside it, because the tokenizer splits at all of the blanks that `documents`
splits at.
"""

import dataclasses
from collections.abc import Iterable
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.question_answering import documents
from electra_tf.text import tokenizer as tokenizer_lib

# Texts of one call: bounds the memory of what the tokenizer does in between.
_CHUNK = 32_768


@dataclasses.dataclass(frozen=True)
class Documents:
    """C distinct documents as words and pieces.

    Attributes:
        distinct_words: the words of all documents, each once.
        words: `[C, (words)]` int32, indices into `distinct_words`.
        word_starts: `[C, (words)]` int32, characters at which they begin.
        pieces: `[C, (pieces)]` int32 ids.
        word_of_piece: `[C, (pieces)]` int32, the word in its document.
        first_pieces: `[total words + 1]` int64, the index in `pieces.values`
            of each word's first piece, or of the next word's if it has none.
    """

    distinct_words: list[str]
    words: rows_lib.Ragged
    word_starts: rows_lib.Ragged
    pieces: rows_lib.Ragged
    word_of_piece: rows_lib.Ragged
    first_pieces: np.ndarray

    @property
    def num_pieces(self) -> np.ndarray:
        """Pieces of each document, `[C]` int64."""
        return self.pieces.lengths


def build_documents(
    contexts: Sequence[str], tokenizer: tokenizer_lib.Tokenizer
) -> Documents:
    """Words and pieces of documents.

    Args:
        contexts: C texts.
        tokenizer: holds the vocabulary.
    """
    index: dict[str, int] = {}
    words, starts = [], []
    for context in contexts:
        split = documents.split_words(context)
        ids = (index.setdefault(word, len(index)) for word in split.texts)
        words.append(np.fromiter(ids, np.int32, len(split.texts)))
        starts.append(np.asarray(split.starts, np.int32))
    word_ids = rows_lib.Ragged.of(words)
    tokens = tokenize(list(index), tokenizer)
    counts = tokens.lengths[word_ids.values]
    first_pieces = np.concatenate([[0], np.cumsum(counts)])
    sources = ranges(tokens.splits[word_ids.values], counts)
    splits = first_pieces[word_ids.splits]
    # The word's number in its document: all words before, less other's.
    numbers = np.arange(len(counts)) - np.repeat(
        word_ids.splits[:-1], word_ids.lengths
    )
    return Documents(
        distinct_words=list(index),
        words=word_ids,
        word_starts=rows_lib.Ragged.of(starts),
        pieces=rows_lib.Ragged(tokens.values[sources], splits),
        word_of_piece=rows_lib.Ragged(
            np.repeat(numbers.astype(np.int32), counts), splits
        ),
        first_pieces=first_pieces,
    )


def tokenize(
    texts: Sequence[str], tokenizer: tokenizer_lib.Tokenizer
) -> rows_lib.Ragged:
    """Ids of texts, `[N, (pieces)]` int32."""
    values, lengths = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for begin in range(0, len(texts), _CHUNK):
        # Bytes: TensorFlow takes no lone surrogates, which JSON may hold.
        data = [
            text.encode(errors="surrogatepass")
            for text in texts[begin : begin + _CHUNK]
        ]
        ids = tokenizer.tokenize(tf.constant(data, tf.string))
        values.append(ids.values.numpy())
        lengths.append(ids.row_lengths().numpy())
    splits = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    return rows_lib.Ragged(np.concatenate(values), splits.astype(np.int64))


def number_distinct(texts: Iterable[str]) -> tuple[list[str], np.ndarray]:
    """The distinct texts, and for every text the number of its own."""
    index: dict[str, int] = {}
    numbers = [index.setdefault(text, len(index)) for text in texts]
    return list(index), np.asarray(numbers, np.int32)


def ranges(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Whole numbers from each start on, one range after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3]))
    array([5, 6, 0, 1, 2])
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) + np.repeat(starts - (ends - counts), counts)
