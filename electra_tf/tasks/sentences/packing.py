"""Texts and pairs of texts to rows of tokens, a whole split at a time.

`[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`. What is too long loses tokens
from the ends, a pair from whichever text is longer at the time (the
original's rule, and BERT's before).
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

# Examples that are made into rows at once: bounds the memory of the rest.
_CHUNK = 16_384


def pack(
    texts: Sequence[str],
    pairs: Sequence[str | None],
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
) -> tuple[rows_lib.Ragged, np.ndarray]:
    """The rows of N texts or pairs of texts.

    A second text without pieces counts as none.

    Args:
        texts: N first texts.
        pairs: N second texts, None for none.
        tokenizer: holds the vocabulary.
        max_seq_length: most tokens of a row, special tokens included.

    Returns:
        Ids `[N, (tokens)]` and where segment 1 begins, `[N]` int32, as in
        `rows.Rows`.

    Raises:
        ValueError: if a row cannot hold one piece of each text.
    """
    if max_seq_length < 5:
        raise ValueError(
            "`max_seq_length` must be at least 5, for [CLS], [SEP], [SEP] and "
            f"one piece of each text. Received: {max_seq_length}."
        )
    values, lengths, first_lengths = [], [], []
    for begin in range(0, len(texts), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        first = _tokenize(texts[part], tokenizer)
        second = _tokenize([pair or "" for pair in pairs[part]], tokenizer)
        kept = cut_pairs(first.lengths, second.lengths, max_seq_length)
        packed = _join(first, second, kept, tokenizer.vocabulary)
        values.append(packed.values)
        lengths.append(packed.lengths)
        first_lengths.append(kept[0])
    splits = np.concatenate([[0], np.cumsum(np.concatenate([[], *lengths]))])
    ids = np.concatenate([np.zeros(0, np.int32), *values])
    starts = np.concatenate([np.zeros(0, np.int64), *first_lengths]) + 2
    return (
        rows_lib.Ragged(ids, splits.astype(np.int64)),
        starts.astype(np.int32),
    )


def cut_pairs(
    first: np.ndarray, second: np.ndarray, max_seq_length: int
) -> tuple[np.ndarray, np.ndarray]:
    """How many pieces are kept of each text.

    In closed form what this comes to: while a row is too long, the longer
    text loses its last piece, the second where both are equally long.

    Args:
        first: `[N]` integer, pieces of the first texts.
        second: `[N]` integer, of the second ones, 0 for none.
        max_seq_length: most tokens of a row.
    """
    room = max_seq_length - np.where(second > 0, 3, 2)
    half = room // 2
    return (
        np.minimum(first, np.maximum(room - second, room - half)),
        np.minimum(second, np.maximum(room - first, half)),
    )


def _tokenize(
    texts: Sequence[str], tokenizer: tokenizer_lib.Tokenizer
) -> rows_lib.Ragged:
    if not any(texts):
        # Single sentences have no second text at all.
        return rows_lib.Ragged(
            np.zeros(0, np.int32), np.zeros(len(texts) + 1, np.int64)
        )
    # Bytes: TensorFlow takes no lone surrogates, which JSON may hold.
    data = [text.encode(errors="replace") for text in texts]
    ragged = tokenizer.tokenize(tf.constant(data, tf.string))
    return rows_lib.Ragged(ragged.values.numpy(), ragged.row_splits.numpy())


def _join(
    first: rows_lib.Ragged,
    second: rows_lib.Ragged,
    kept: tuple[np.ndarray, np.ndarray],
    vocabulary: vocabulary_lib.Vocabulary,
) -> rows_lib.Ragged:
    """Rows with their special tokens."""
    num_first, num_second = kept
    has_second = num_second > 0
    lengths = 2 + num_first + np.where(has_second, num_second + 1, 0)
    splits = np.concatenate([[0], np.cumsum(lengths)])
    starts = splits[:-1]
    # What is not written below is a [SEP].
    values = np.full(splits[-1], vocabulary.sep_id, np.int32)
    values[starts] = vocabulary.cls_id
    _copy(first, num_first, values, starts + 1)
    _copy(second, num_second, values, starts + 2 + num_first)
    return rows_lib.Ragged(values, splits)


def _copy(
    source: rows_lib.Ragged,
    counts: np.ndarray,
    target: np.ndarray,
    places: np.ndarray,
) -> None:
    """Copies the first `counts` values of every list to its place."""
    ends = np.cumsum(counts)
    within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    sources = np.repeat(source.splits[:-1], counts) + within
    target[np.repeat(places, counts) + within] = source.values[sources]
