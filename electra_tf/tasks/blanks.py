"""Texts to the words between their blanks, and where the words stand."""

from typing import NamedTuple

import tensorflow as tf

QUESTION_BLANKS = " \t\r\n\u202f"
"""What the original parts the words of contexts at. Others, for example
U+00A0, are inside words."""
ALL_BLANKS = "".join(c for c in map(chr, range(0x3001)) if c.isspace())
"""What Python's `str.split` parts words at."""

# Of UTF-8; no blank takes more.
_SIZES = (1, 2, 3)


class Words(NamedTuple):
    """The words of N texts, `[N, (words)]`.

    Attributes:
        words: string.
        starts: int64, the byte of the text at which each begins.
        ends: int64, the byte after it.
    """

    words: tf.RaggedTensor
    starts: tf.RaggedTensor
    ends: tf.RaggedTensor


def split(texts: tf.Tensor, blanks: str) -> Words:
    """Splits texts into words, in Python or in a graph.

    Args:
        texts: `[N]` string, UTF-8.
        blanks: characters that part words.
    """
    plain = texts
    for size in _SIZES:
        own = "".join(b for b in blanks if len(b.encode()) == size)
        if own:
            # As many bytes as before, so that places stay what they are.
            plain = tf.strings.regex_replace(plain, f"[{own}]", " " * size)
    parts = tf.strings.split(plain, " ")
    sizes = tf.cast(tf.strings.length(parts.values), tf.int64)
    begins = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(sizes + 1)], 0)
    starts = begins[:-1] - tf.gather(
        tf.gather(begins, parts.row_starts()), parts.value_rowids()
    )
    # Between two blanks in a row stands an empty part.
    kept = tf.where(sizes > 0)[:, 0]
    splits = tf.searchsorted(kept, parts.row_splits, out_type=tf.int64)
    return Words(
        *(
            tf.RaggedTensor.from_row_splits(
                tf.gather(values, kept), splits, validate=False
            )
            for values in (parts.values, starts, starts + sizes)
        )
    )
