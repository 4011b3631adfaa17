"""Raw texts to rows of tokens, as operations of the graph.

The rows are those that fine-tuning makes of the same texts
(`finetuning.tasks.packing`), where they are laid out by NumPy.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.text import tokenizer as tokenizer_lib

MIN_PAIR_LENGTH = 5
"""[CLS], two [SEP], and a piece of each text."""


class PackedRows(NamedTuple):
    """A batch as the encoder takes it, `[B, S]` int32; and `[B]` int32."""

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor
    num_tokens: tf.Tensor
    num_truncated: tf.Tensor  # pieces of the texts that are not in the row


def pack_texts(
    tokenizer: tokenizer_lib.Tokenizer,
    texts: tf.Tensor,
    text_pairs: tf.Tensor | None,
    max_length: int,
) -> PackedRows:
    """`[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` where b has pieces.

    Args:
        tokenizer: holds the vocabulary.
        texts: `[B]` string.
        text_pairs: `[B]` string, or None for no second texts.
        max_length: most tokens of a row. What is too long loses pieces from
            the end of whichever text is longer at the time, the second where
            both are equally long.
    """
    vocabulary = tokenizer.vocabulary
    first = tokenizer.tokenize(texts)
    if text_pairs is None:
        second = first[:, :0]
    else:
        second = tokenizer.tokenize(text_pairs)
    sizes = first.row_lengths(), second.row_lengths()
    num_first, num_second = _cut_pairs(*sizes, max_length)
    ones = tf.ones_like(num_first)
    ids = tf.concat(
        [
            repeat(vocabulary.cls_id, ones),
            take(first.values, first.row_starts(), num_first),
            repeat(vocabulary.sep_id, ones),
            take(second.values, second.row_starts(), num_second),
            repeat(vocabulary.sep_id, tf.minimum(num_second, 1)),
        ],
        axis=1,
    )
    num_left = sum(sizes) - num_first - num_second
    return to_rows(ids, num_first + 2, vocabulary.pad_id, num_left)


def to_rows(
    ids: tf.RaggedTensor,
    segment_starts: tf.Tensor,
    pad_id: int,
    num_truncated: tf.Tensor,
) -> PackedRows:
    """Padded rows; one column at least, even of no rows.

    Args:
        ids: `[B, (tokens)]` int32.
        segment_starts: `[B]` int64, the first token of segment 1.
        pad_id: id of padding.
        num_truncated: `[B]` int64.
    """
    num_tokens = ids.row_lengths()
    padded = ids.to_tensor(pad_id)
    # The heads look at [CLS], and there must be one to look at.
    missing = tf.maximum(1 - tf.shape(padded)[1], 0)
    padded = tf.pad(padded, [[0, 0], [0, missing]], constant_values=pad_id)
    length = tf.shape(padded, tf.int64)[1]
    is_token = tf.sequence_mask(num_tokens, length)
    is_second = tf.range(length) >= segment_starts[:, tf.newaxis]
    return PackedRows(
        padded,
        tf.cast(is_token, tf.int32),
        tf.cast(is_token & is_second, tf.int32),
        tf.cast(num_tokens, tf.int32),
        tf.cast(num_truncated, tf.int32),
    )


def take(
    values: tf.Tensor, starts: tf.Tensor, counts: tf.Tensor
) -> tf.RaggedTensor:
    """Parts of a flat tensor as rows, `[B, (count)]`.

    Args:
        values: `[total]`.
        starts: `[B]` int64, where each part begins.
        counts: `[B]` int64.
    """
    return tf.gather(values, tf.ragged.range(starts, starts + counts))


def repeat(value: int, counts: tf.Tensor) -> tf.RaggedTensor:
    """A number as often as said in each row, `[B, (count)]` int32."""
    values = tf.fill(tf.reduce_sum(counts)[tf.newaxis], value)
    return tf.RaggedTensor.from_row_lengths(values, counts, validate=False)


def _cut_pairs(
    first: tf.Tensor, second: tf.Tensor, max_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """How many pieces are kept of each text, `[B]` int64."""
    room = max_length - tf.where(second > 0, 3, 2)
    room = tf.cast(room, tf.int64)
    half = room // 2
    return (
        tf.minimum(first, tf.maximum(room - second, room - half)),
        tf.minimum(second, tf.maximum(room - first, half)),
    )
