"""Windows: overlapping parts of texts that are longer than a row.

Every window is a row, and begins `stride` pieces after the one before. What is
said of a piece is read in the window in which it has most context (the
original's `finetune/qa/qa_tasks.py`). TensorFlow, for a whole split or inside
an exported model.
"""

from typing import NamedTuple

import tensorflow as tf


class Windows(NamedTuple):
    """R windows of N texts; all int64.

    Attributes:
        texts: `[R]`, the text that each window is of.
        numbers: `[R]`, its number among the windows of that text.
        starts: `[R]`, the text's piece that it begins with.
        lengths: `[R]`, pieces in it.
        splits: `[N + 1]`; text i has the windows from `splits[i]` up to
            `splits[i + 1]`.
        rooms: `[N]`, most pieces of a window.
        strides: `[N]`, pieces from one window to the next.
        totals: `[N]`, pieces of the text.
    """

    texts: tf.Tensor
    numbers: tf.Tensor
    starts: tf.Tensor
    lengths: tf.Tensor
    splits: tf.Tensor
    rooms: tf.Tensor
    strides: tf.Tensor
    totals: tf.Tensor

    @property
    def counts(self) -> tf.Tensor:
        """How many windows each text has, `[N]`."""
        return self.splits[1:] - self.splits[:-1]


def split(
    totals: tf.Tensor, rooms: tf.Tensor, strides: tf.Tensor, least: int = 1
) -> Windows:
    """Splits texts into windows.

    Args:
        totals: `[N]` int64, pieces of the texts.
        rooms: `[N]` int64, most pieces of a window, at least 1.
        strides: `[N]` int64, from one window to the next, 1 to the room.
        least: windows of a text without pieces, 0 or 1.
    """
    # One, and as many more as it takes to get to the end.
    counts = tf.where(totals > rooms, 1 - (rooms - totals) // strides, 1)
    counts = tf.where(totals > 0, counts, least)
    splits = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(counts)], 0)
    texts = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    numbers = tf.range(tf.size(texts, tf.int64)) - tf.gather(splits, texts)
    starts = numbers * tf.gather(strides, texts)
    lengths = tf.minimum(
        tf.gather(rooms, texts), tf.gather(totals, texts) - starts
    )
    return Windows(
        texts, numbers, starts, lengths, splits, rooms, strides, totals
    )


def find_best(
    windows: Windows, texts: tf.Tensor, pieces: tf.Tensor
) -> tf.Tensor:
    """Finds the window in which a piece has most context.

    That is the smaller of what is left and right of the piece, plus a
    hundredth of the window's length; the first of equals wins.

    Args:
        windows: of N texts.
        texts: integer, numbers of texts; its shape broadcasts to the pieces'.
        pieces: `[...]` int64, pieces of these texts.

    Returns:
        `[...]` int64, the number of the window among those of its text.
    """
    rooms, strides, totals, counts = (
        tf.gather(values, texts)[..., tf.newaxis]
        for values in (
            windows.rooms, windows.strides, windows.totals, windows.counts
        )
    )  # fmt: skip
    pieces = pieces[..., tf.newaxis]
    first = tf.maximum(-((rooms - 1 - pieces) // strides), 0)
    # No piece is in more windows than these.
    most = tf.reduce_max(-(-windows.rooms // windows.strides)) + 1
    numbers = first + tf.range(tf.maximum(most, 1))
    begins = numbers * strides
    lengths = tf.minimum(rooms, totals - begins)
    context = tf.minimum(pieces - begins, begins + lengths - 1 - pieces)
    # In this order and precision: equals must stay equal.
    scores = tf.cast(context, tf.float64) + 0.01 * tf.cast(lengths, tf.float64)
    is_window = (numbers < counts) & (begins <= pieces)
    scores = tf.where(is_window, scores, tf.float64.min)
    best = tf.reduce_max(scores, axis=-1, keepdims=True)
    winners = tf.where(scores == best, numbers, tf.int64.max)
    return tf.reduce_min(winners, axis=-1)
