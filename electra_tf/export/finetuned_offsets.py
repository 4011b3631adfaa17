"""Where in a context a span of its pieces stands, in the graph.

Pieces are normalised: `smith` in `Smith's`. A span begins and ends inside
words of the context where its pieces do, as far as normalising left the number
of their characters; otherwise words stay whole. The texts are those that
`finetuning.question_answering.decoding` finds by looking for the pieces' text
in that of the words between blanks, but for three things: blanks stay what
they are in the context; where texts do not line up, words here end at
punctuation too; and the place is that of these pieces, there it is the first
one with their text.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.text import tokenizer as tokenizer_lib

_PREFIX = "##"


class ContextPieces(NamedTuple):
    """The pieces of B contexts, `[B, (pieces)]` int32."""

    ids: tf.RaggedTensor
    word_starts: tf.RaggedTensor  # bytes of the context
    word_ends: tf.RaggedTensor


class Places(NamedTuple):
    """Parts of B contexts, `[B]`; offsets are int32."""

    texts: tf.Tensor  # string
    starts: tf.Tensor  # characters, that is code points
    ends: tf.Tensor
    byte_starts: tf.Tensor
    byte_ends: tf.Tensor


class SpanFinder(tf.Module):
    """Finds spans of pieces in their contexts.

    Args:
        tokenizer: makes the pieces.
    """

    def __init__(self, tokenizer: tokenizer_lib.Tokenizer) -> None:
        super().__init__(name="spans")
        self.tokenizer = tokenizer
        self._piece_lengths = tf.constant(
            [_length(token) for token in tokenizer.vocabulary.tokens]
        )
        self._unk_id = tokenizer.vocabulary.unk_id

    def tokenize(self, contexts: tf.Tensor) -> ContextPieces:
        """The pieces of contexts, `[B]` string."""
        return ContextPieces(*self.tokenizer.tokenize_with_offsets(contexts))

    def find(
        self,
        contexts: tf.Tensor,
        pieces: ContextPieces,
        firsts: tf.Tensor,
        lasts: tf.Tensor,
        is_found: tf.Tensor,
    ) -> Places:
        """Where the spans are; nothing at 0 where there is none.

        Args:
            contexts: `[B]` string.
            pieces: of them.
            firsts: `[B]` int64, pieces of the contexts.
            lasts: `[B]` int64, the last ones, included.
            is_found: `[B]` bool, whether there is a span.
        """
        with tf.device("/CPU:0"):
            starts, _ = self._locate(contexts, pieces, firsts)
            _, ends = self._locate(contexts, pieces, lasts)
            starts = tf.where(is_found, starts, 0)
            ends = tf.where(is_found, ends, 0)
            return Places(
                tf.strings.substr(contexts, starts, ends - starts),
                _count_characters(contexts, tf.zeros_like(starts), starts),
                _count_characters(contexts, tf.zeros_like(ends), ends),
                starts,
                ends,
            )

    def _locate(
        self, contexts: tf.Tensor, pieces: ContextPieces, places: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Bytes at which one piece of each context starts and ends, `[B]`."""
        ids, starts, ends = (
            # One column more: there may be none to look at.
            tf.pad(ragged.to_tensor(-1), [[0, 0], [0, 1]], constant_values=-1)
            for ragged in pieces
        )
        own_start, own_end = (
            tf.maximum(tf.gather(values, places, batch_dims=1), 0)
            for values in (starts, ends)
        )
        is_own_word = (starts == own_start[:, tf.newaxis]) & (ids >= 0)
        lengths = tf.gather(self._piece_lengths, tf.maximum(ids, 0))
        lengths = tf.where(is_own_word, lengths, 0)
        order = tf.range(tf.shape(ids, tf.int64)[1])
        is_before = order < places[:, tf.newaxis]
        num_before = tf.reduce_sum(tf.where(is_before, lengths, 0), 1)
        num_through = num_before + tf.gather(lengths, places, batch_dims=1)
        total = tf.reduce_sum(lengths, 1)
        lines_up = total == _count_characters(contexts, own_start, own_end)
        lines_up &= ~tf.reduce_any(is_own_word & (ids == self._unk_id), 1)
        words = tf.strings.substr(contexts, own_start, own_end - own_start)
        return (
            own_start + _head_bytes(words, tf.where(lines_up, num_before, 0)),
            tf.where(
                lines_up & (num_through < total),
                own_start + _head_bytes(words, num_through),
                own_end,
            ),
        )


def _count_characters(
    texts: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor
) -> tf.Tensor:
    """Characters between two bytes of each text, `[B]` int32."""
    parts = tf.strings.substr(texts, starts, ends - starts)
    return tf.strings.length(parts, unit="UTF8_CHAR")


def _head_bytes(texts: tf.Tensor, counts: tf.Tensor) -> tf.Tensor:
    """Bytes that the first characters of each text take, `[B]` int32."""
    heads = tf.strings.substr(
        texts, tf.zeros_like(counts), counts, unit="UTF8_CHAR"
    )
    return tf.strings.length(heads)


def _length(token: str) -> int:
    """Characters of a piece."""
    return len(token.removeprefix(_PREFIX))
