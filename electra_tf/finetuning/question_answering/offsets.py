"""Where in a context a span of its pieces stands, as graph operations.

For exported models, which see raw text and answer with characters: no lists of
words, no Python. Answers read off for evaluation follow the original's
projection instead (`decoding`), which can cut inside a word.
"""

import tensorflow as tf

from electra_tf.text import tokenizer as tokenizer_lib


def find_characters(
    tokenizer: tokenizer_lib.Tokenizer,
    contexts: tf.Tensor,
    first_pieces: tf.Tensor,
    last_pieces: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """The characters of spans of pieces; whole words of the tokenizer.

    Words end at blanks, punctuation and ideographs: `1895` in
    `(1895-1943).`, but `Japanese` for the piece `japan`.

    Args:
        tokenizer: that made the pieces.
        contexts: `[N]` string, UTF-8.
        first_pieces: `[N]` int32, the first piece of each span, counted from
            0 in the whole context.
        last_pieces: `[N]` int32, the last one, included.

    Returns:
        Two `[N]` int32 tensors: the first character of each span and the one
        after its last; `context[start:end]` in Python. Both 0 where pieces
        are not in the context, or the last is before the first.
    """
    pieces, word_starts, word_ends = tokenizer.tokenize_with_offsets(contexts)
    counts = tf.cast(pieces.row_lengths(), tf.int32)
    is_inside = (
        (first_pieces >= 0)
        & (last_pieces >= first_pieces)
        & (last_pieces < counts)
    )
    splits = tf.cast(pieces.row_starts(), tf.int32)
    starts = _gather(word_starts.values, splits + first_pieces, is_inside)
    ends = _gather(word_ends.values, splits + last_pieces, is_inside)
    return _to_characters(contexts, starts), _to_characters(contexts, ends)


def cut(contexts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """The texts between characters, `[N]` string.

    Args:
        contexts: `[N]` string, UTF-8.
        starts: `[N]` int32, first characters.
        ends: `[N]` int32, those after the last.
    """
    return tf.strings.substr(contexts, starts, ends - starts, unit="UTF8_CHAR")


def _gather(
    values: tf.Tensor, indices: tf.Tensor, is_inside: tf.Tensor
) -> tf.Tensor:
    """Values at indices, 0 where there is nothing."""
    # One more, so that there is something to gather from an empty tensor.
    padded = tf.concat([values, [0]], 0)
    return tf.where(
        is_inside, tf.gather(padded, tf.where(is_inside, indices, 0)), 0
    )


def _to_characters(texts: tf.Tensor, num_bytes: tf.Tensor) -> tf.Tensor:
    """Characters in the first bytes of texts, `[N]` int32."""
    heads = tf.strings.substr(texts, tf.zeros_like(num_bytes), num_bytes)
    return tf.strings.length(heads, unit="UTF8_CHAR")
