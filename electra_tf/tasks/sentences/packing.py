"""Texts and pairs of texts to rows of tokens.

`[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`. What is too long loses tokens
from the ends, a pair from whichever text is longer at the time (the
original's rule, and BERT's before).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib

MIN_LENGTH = 5
"""[CLS], two [SEP], and a piece of each text."""

# Examples that are made into rows at once: bounds the memory of the rest.
_CHUNK = 16_384


class PackedTexts(NamedTuple):
    """Rows of N texts or pairs."""

    ids: tf.RaggedTensor  # `[N, (tokens)]` int32
    segment_starts: tf.Tensor  # `[N]` int64, where segment 1 begins
    # `[N]` int64, pieces of the texts that did not fit
    num_truncated: tf.Tensor


def pack_texts(
    tokenizer: tokenizer_lib.Tokenizer,
    texts: tf.Tensor,
    pairs: tf.Tensor | None,
    max_length: int,
) -> PackedTexts:
    """Makes a row of each `[N]` text or pair; no pieces are no second text.

    `max_length` counts special tokens too.
    """
    vocabulary = tokenizer.vocabulary
    first = tokenizer.tokenize(texts)
    # Without second texts: no pieces, in as many rows.
    second = first[:, :0] if pairs is None else tokenizer.tokenize(pairs)
    sizes = first.row_lengths(), second.row_lengths()
    num_first, num_second = cut_pairs(*sizes, max_length)
    ones = tf.ones_like(num_first)
    ids = rows_lib.join(
        [
            rows_lib.token(vocabulary.cls_id, ones),
            rows_lib.Part(first.values, first.row_starts(), num_first),
            rows_lib.token(vocabulary.sep_id, ones),
            rows_lib.Part(second.values, second.row_starts(), num_second),
            rows_lib.token(vocabulary.sep_id, tf.minimum(num_second, 1)),
        ]
    )
    num_left = sum(sizes) - num_first - num_second
    return PackedTexts(ids, num_first + 2, num_left)


def cut_pairs(
    first: tf.Tensor, second: tf.Tensor, max_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes how many pieces are kept of each text, two `[N]` int64 tensors.

    It is the closed form of this rule: while a row is too long, the longer text
    loses its last piece, the second one where both are equally long. A second
    text of 0 pieces is none.
    """
    room = tf.where(second > 0, max_length - 3, max_length - 2)
    room = tf.cast(room, tf.int64)
    half = room // 2
    return (
        tf.minimum(first, tf.maximum(room - second, room - half)),
        tf.minimum(second, tf.maximum(room - first, half)),
    )


def pack(
    texts: Sequence[str],
    pairs: Sequence[str | None],
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int,
) -> tuple[rows_lib.Ragged, np.ndarray]:
    """Makes the rows of a whole split; arguments as of `pack_texts`.

    Returns ids `[N, (tokens)]` and where segment 1 begins, `[N]` int32.
    """
    if max_length < MIN_LENGTH:
        raise ValueError(
            f"`max_seq_length` must be at least {MIN_LENGTH}, for [CLS], "
            "[SEP], [SEP] and one piece of each text. Received: "
            f"{max_length}."
        )
    packed = []
    for begin in range(0, len(texts), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        second = _encode(pairs[part]) if any(pairs[part]) else None
        packed.append(
            pack_texts(tokenizer, _encode(texts[part]), second, max_length)
        )
    starts = [part.segment_starts.numpy() for part in packed]
    return (
        rows_lib.Ragged.join([part.ids for part in packed]),
        np.concatenate([np.zeros(0), *starts]).astype(np.int32),
    )


def _encode(texts: Sequence[str | None]) -> tf.Tensor:
    # Bytes: TensorFlow takes no lone surrogates, which JSON may hold.
    data = [(text or "").encode(errors="replace") for text in texts]
    return tf.constant(data, tf.string)
