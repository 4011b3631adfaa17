"""Rows of whole sentences, and where in them each word is looked at.

A row is `[CLS] pieces [SEP]`; a word is tagged at its first piece. This is
what the original's tagging code makes, with its ways of treating what is out
of the ordinary:

- A word without pieces is looked at where the next word (or [SEP]) begins.
- The words `[CLS]` and `[SEP]` are not tagged.
- Sentences may be cut early, see `align`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import word_pieces
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib


class Alignment(NamedTuple):
    """Rows of N sentences.

    Attributes:
        ids: `[N, (tokens)]` int32, [CLS] and [SEP] included.
        positions: `[N, (words)]` int32, where in the row the words are looked
            at that can be tagged.
        words: `[N, (words)]` int32, which words of the sentence they are.
    """

    ids: rows_lib.Ragged
    positions: rows_lib.Ragged
    words: rows_lib.Ragged


class _Words(NamedTuple):
    """All words of N sentences, flat: `[W]`, but for `counts`, `[N]`."""

    counts: np.ndarray  # words of a sentence
    rows: np.ndarray  # the sentence it is of
    indices: np.ndarray  # in the sentence
    entries: np.ndarray  # index among the distinct words
    num_pieces: np.ndarray
    positions: np.ndarray  # tokens before it, [CLS] included


def align(
    sentences: Sequence[Sequence[str]],
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
    cuts_early: bool = True,
) -> Alignment:
    """Rows of sentences.

    Args:
        sentences: their words.
        tokenizer: holds the vocabulary.
        max_seq_length: most tokens of a row; what does not fit is cut off at
            the end.
        cuts_early: cut as the original does, which ends a row before the first
            word for which (words of the sentence) + 2 + (tokens before the
            word) + 1 exceeds the length. So a row of a long sentence may be
            half empty, or a lone [SEP]. (Where its last word has so many
            pieces that the row is too long after all, the original stops; here
            the word is cut.) False fills rows.
    """
    numbers = {
        word: number
        for number, word in enumerate(
            dict.fromkeys(word for words in sentences for word in words)
        )
    }
    distinct = word_pieces.split_words(list(numbers), tokenizer)
    words = _lay_out(sentences, numbers, distinct.pieces)
    if cuts_early:
        num_needed = words.positions + words.counts[words.rows] + 3
        is_kept = num_needed <= max_seq_length
        has_start = words.counts + 3 <= max_seq_length
    else:
        is_kept = np.ones(len(words.rows), bool)
        has_start = np.ones(len(words.counts), bool)
    num_pieces = np.bincount(
        words.rows,
        weights=np.where(is_kept, words.num_pieces, 0),
        minlength=len(words.counts),
    ).astype(np.int64)
    limit = max_seq_length - 2
    is_cut = num_pieces > limit
    is_tagged = is_kept & ~distinct.is_special[words.entries]
    is_tagged &= ~is_cut[words.rows] | (words.positions <= limit)
    ids = _fill_rows(
        words, is_kept, np.minimum(num_pieces, limit), has_start,
        distinct.pieces, tokenizer.vocabulary,
    )  # fmt: skip
    return Alignment(
        ids,
        _select(words.positions, words.rows, is_tagged, len(sentences)),
        _select(words.indices, words.rows, is_tagged, len(sentences)),
    )


def _lay_out(
    sentences: Sequence[Sequence[str]],
    numbers: dict[str, int],
    pieces: rows_lib.Ragged,
) -> _Words:
    counts = np.array([len(words) for words in sentences], np.int64)
    entries = np.fromiter(
        (numbers[word] for words in sentences for word in words),
        np.int64,
        int(counts.sum()),
    )
    num_pieces = pieces.lengths[entries]
    before = np.concatenate([[0], np.cumsum(num_pieces)])
    starts = np.cumsum(counts) - counts
    rows = np.repeat(np.arange(len(counts)), counts)
    return _Words(
        counts=counts,
        rows=rows,
        indices=np.arange(len(entries)) - starts[rows],
        entries=entries,
        num_pieces=num_pieces,
        positions=1 + before[:-1] - before[starts[rows]],
    )


def _fill_rows(
    words: _Words,
    is_kept: np.ndarray,
    num_pieces: np.ndarray,
    has_start: np.ndarray,
    pieces: rows_lib.Ragged,
    vocabulary: vocabulary_lib.Vocabulary,
) -> rows_lib.Ragged:
    """The rows' ids.

    Args:
        words: laid out.
        is_kept: `[W]` bool, whether its pieces go into the row.
        num_pieces: `[N]`, those that fit.
        has_start: `[N]` bool, whether the row begins with [CLS].
        pieces: of the distinct words.
        vocabulary: gives the special tokens.
    """
    lengths = num_pieces + 1 + has_start
    splits = np.concatenate([[0], np.cumsum(lengths)])
    ids = np.full(splits[-1], vocabulary.sep_id, np.int32)
    ids[splits[:-1][has_start]] = vocabulary.cls_id
    counts = np.where(is_kept, words.num_pieces, 0)
    # For every piece: which word it is of, and its number in the word.
    owners = np.repeat(np.arange(len(counts)), counts)
    offsets = np.arange(len(owners)) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    places = words.positions[owners] + offsets
    owner_rows = words.rows[owners]
    fits = places <= num_pieces[owner_rows]
    sources = pieces.splits[words.entries[owners]] + offsets
    targets = splits[owner_rows] + places
    ids[targets[fits]] = pieces.values[sources[fits]]
    return rows_lib.Ragged(ids, splits)


def _select(
    values: np.ndarray, rows: np.ndarray, is_chosen: np.ndarray, num_rows: int
) -> rows_lib.Ragged:
    counts = np.bincount(rows[is_chosen], minlength=num_rows)
    splits = np.concatenate([[0], np.cumsum(counts)])
    return rows_lib.Ragged(values[is_chosen].astype(np.int32), splits)
