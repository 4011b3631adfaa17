"""Questions with long contexts as overlapping windows, in the graph.

The rows are those of `finetuning.question_answering.windows`, where they are
laid out by NumPy: `[CLS] question [SEP] part of the context [SEP]`.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.export import finetuned_rows
from electra_tf.text import tokenizer as tokenizer_lib

# [CLS] and two [SEP].
NUM_SPECIAL = 3


class Extents(NamedTuple):
    """Where R windows lie in their contexts, `[R]` int64."""

    numbers: tf.Tensor  # among the windows of the question
    counts: tf.Tensor  # of those windows
    starts: tf.Tensor  # the context's piece that it begins with
    lengths: tf.Tensor  # pieces of the context in it
    shifts: tf.Tensor  # tokens before them
    rooms: tf.Tensor  # most pieces of a context in a window
    strides: tf.Tensor  # pieces from one window to the next
    totals: tf.Tensor  # pieces of the whole context

    def pick(self, chosen: tf.Tensor) -> "Extents":
        """Those of some windows, `[K]` integer."""
        return Extents(*(tf.gather(values, chosen) for values in self))


class Windows(NamedTuple):
    """R windows of B questions.

    A context without pieces has one window too, in which no answer can be.
    """

    rows: finetuned_rows.PackedRows
    extents: Extents
    splits: tf.Tensor  # [B + 1] int64, where those of each question begin
    num_truncated: tf.Tensor  # [B] int64, pieces of the question left out


def build_windows(
    tokenizer: tokenizer_lib.Tokenizer,
    questions: tf.Tensor,
    contexts: tf.RaggedTensor,
    max_length: int,
    max_query_length: int,
    doc_stride: int,
) -> Windows:
    """The windows of questions.

    Args:
        tokenizer: holds the vocabulary.
        questions: `[B]` string.
        contexts: `[B, (pieces)]` int32.
        max_length: most tokens of a row.
        max_query_length: most pieces of a question; the rest is cut off. Fewer
            than `max_length - NUM_SPECIAL`.
        doc_stride: pieces from one window to the next, or a window's length if
            that is less.
    """
    vocabulary = tokenizer.vocabulary
    asked = tokenizer.tokenize(questions)
    kept = tf.minimum(asked.row_lengths(), max_query_length)
    rooms = max_length - NUM_SPECIAL - kept
    strides = tf.minimum(rooms, doc_stride)
    totals = contexts.row_lengths()
    counts = tf.where(totals > rooms, 1 - (rooms - totals) // strides, 1)
    splits = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(counts)], 0)
    owners = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    numbers = tf.range(tf.size(owners, tf.int64)) - tf.gather(splits, owners)
    rooms, strides, kept, totals, counts = (
        tf.gather(values, owners)
        for values in (rooms, strides, kept, totals, counts)
    )
    starts = numbers * strides
    lengths = tf.minimum(rooms, totals - starts)
    ones = tf.ones_like(owners)
    ids = tf.concat(
        [
            finetuned_rows.repeat(vocabulary.cls_id, ones),
            finetuned_rows.take(
                asked.values, tf.gather(asked.row_starts(), owners), kept
            ),
            finetuned_rows.repeat(vocabulary.sep_id, ones),
            finetuned_rows.take(
                contexts.values,
                tf.gather(contexts.row_starts(), owners) + starts,
                lengths,
            ),
            finetuned_rows.repeat(vocabulary.sep_id, ones),
        ],
        axis=1,
    )
    rows = finetuned_rows.to_rows(
        ids, kept + 2, vocabulary.pad_id, tf.zeros_like(owners)
    )
    num_truncated = tf.maximum(asked.row_lengths() - max_query_length, 0)
    extents = Extents(
        numbers, counts, starts, lengths, kept + 2, rooms, strides, totals
    )
    return Windows(rows, extents, splits, num_truncated)


def have_max_context(extents: Extents, places: tf.Tensor) -> tf.Tensor:
    """Whether windows are those in which pieces have most context.

    That is the smaller of what is left and right of the piece, plus a
    hundredth of the window's length; the first of equals wins.

    Args:
        extents: of R windows.
        places: `[R, K]` int64, pieces of each window, counted from its first.

    Returns:
        `[R, K]` bool.
    """
    wide = Extents(*(v[:, tf.newaxis, tf.newaxis] for v in extents))
    pieces = wide.starts + places[:, :, tf.newaxis]
    first = tf.maximum(-((wide.rooms - 1 - pieces) // wide.strides), 0)
    # No piece is in more windows than these.
    most = tf.reduce_max(-(-extents.rooms // extents.strides)) + 1
    candidates = first + tf.range(tf.maximum(most, 1))
    begin = candidates * wide.strides
    length = tf.minimum(wide.rooms, wide.totals - begin)
    context = tf.minimum(pieces - begin, begin + length - 1 - pieces)
    # In this order and precision: equals must stay equal.
    scores = tf.cast(context, tf.float64) + 0.01 * tf.cast(length, tf.float64)
    is_window = (candidates < wide.counts) & (begin <= pieces)
    scores = tf.where(is_window, scores, tf.float64.min)
    best = tf.reduce_max(scores, axis=2, keepdims=True)
    winners = tf.where(scores == best, candidates, tf.int64.max)
    return tf.reduce_min(winners, axis=2) == extents.numbers[:, tf.newaxis]
