"""Contexts as words and pieces, and where in them a span of pieces stands.

Answers are annotated by characters, models read pieces; words between blanks
are what both share (the original's `finetune/qa/qa_tasks.py`, and BERT's code
before). Contexts repeat their words, so each distinct word is tokenized once.
A word's pieces do not depend on the words beside it, because the tokenizer
splits at all of these blanks. TensorFlow, for a whole split or inside an
exported model.
"""

from typing import NamedTuple

import tensorflow as tf

from electra_tf.tasks import blanks
from electra_tf.text import tokenizer as tokenizer_lib

_PREFIX = "##"
# Strings live there; a GPU would only add copies.
_DEVICE = "/CPU:0"


class Contexts(NamedTuple):
    """C contexts with W words, of which D are distinct.

    Attributes:
        distinct: `[D]` string, the words, each once.
        index: `[W]` int64, which of them each word of the contexts is.
        starts: `[C, (words)]` int64, the byte at which each word begins.
        pieces: `[W, (pieces)]` int32, ids of each word; it may have none.
    """

    distinct: tf.Tensor
    index: tf.Tensor
    starts: tf.RaggedTensor
    pieces: tf.RaggedTensor

    @property
    def ids(self) -> tf.RaggedTensor:
        """The pieces of the contexts, `[C, (pieces)]` int32."""
        return tf.RaggedTensor.from_row_splits(
            self.pieces.values,
            tf.gather(self.pieces.row_splits, self.starts.row_splits),
            validate=False,
        )


class Places(NamedTuple):
    """Parts of B contexts, `[B]`; offsets are int32."""

    texts: tf.Tensor  # string
    starts: tf.Tensor  # characters, that is code points
    ends: tf.Tensor
    byte_starts: tf.Tensor
    byte_ends: tf.Tensor


def build(tokenizer: tokenizer_lib.Tokenizer, contexts: tf.Tensor) -> Contexts:
    """Splits contexts into words and pieces.

    Args:
        tokenizer: holds the vocabulary.
        contexts: `[C]` string, UTF-8.
    """
    with tf.device(_DEVICE):
        words = blanks.split(contexts, blanks.QUESTION_BLANKS)
        distinct, index = tf.unique(words.words.values, tf.int64)
        pieces = tf.gather(tokenizer.tokenize(distinct), index)
        return Contexts(distinct, index, words.starts, pieces)


class SpanFinder(tf.Module):
    """Finds where in raw contexts spans of pieces stand.

    Pieces are normalised: `smith` in `Smith's`. A span begins and ends inside
    words where its pieces do, as far as normalising left the number of their
    characters; otherwise words stay whole. The texts are those of
    `final_text`, but for three things: blanks stay what they are in the
    context; where texts do not line up, words here end at punctuation too; and
    the place is that of these pieces, there it is the first one with their
    text.

    Args:
        tokenizer: makes the pieces.
    """

    def __init__(self, tokenizer: tokenizer_lib.Tokenizer) -> None:
        super().__init__(name="spans")
        self.tokenizer = tokenizer
        tokens = tokenizer.vocabulary.tokens
        self._num_characters = tf.constant(
            [len(token.removeprefix(_PREFIX)) for token in tokens]
        )

    def find(
        self,
        texts: tf.Tensor,
        contexts: Contexts,
        firsts: tf.Tensor,
        lasts: tf.Tensor,
        is_found: tf.Tensor,
    ) -> Places:
        """Where the spans are; nothing at 0 where there is none.

        Args:
            texts: `[B]` string, the contexts as they are.
            contexts: of them.
            firsts: `[B]` int64, pieces of the contexts.
            lasts: `[B]` int64, the last ones, included.
            is_found: `[B]` bool, whether there is a span.
        """
        with tf.device(_DEVICE):
            begins = contexts.ids.row_starts()
            starts, _ = self._locate(contexts, begins + firsts)
            _, ends = self._locate(contexts, begins + lasts)
            starts = tf.where(is_found, starts, 0)
            ends = tf.where(is_found, ends, 0)
            return Places(
                tf.strings.substr(texts, starts, ends - starts),
                _count_characters(texts, tf.zeros_like(starts), starts),
                _count_characters(texts, tf.zeros_like(ends), ends),
                starts,
                ends,
            )

    def _locate(
        self, contexts: Contexts, places: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Bytes of the contexts at which pieces start and end, `[B]` int32.

        Args:
            contexts: with all pieces.
            places: `[B]` int64, the piece's place among those of all contexts.
        """
        # One word more: there may be none at all to look at.
        owners = tf.pad(contexts.pieces.value_rowids(), [[0, 1]])
        last = tf.size(owners, tf.int64) - 1
        owners = tf.gather(owners, tf.minimum(places, last))
        numbers = places - tf.gather(contexts.pieces.row_splits, owners)
        index = tf.gather(tf.pad(contexts.index, [[0, 1]]), owners)
        words = tf.gather(tf.pad(contexts.distinct, [[0, 1]]), index)
        word_starts = tf.pad(contexts.starts.values, [[0, 1]])
        word_starts = tf.cast(tf.gather(word_starts, owners), tf.int32)
        starts, ends = self._locate_in_words(words, numbers)
        return word_starts + starts, word_starts + ends

    def _locate_in_words(
        self, texts: tf.Tensor, places: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Bytes at which one piece of each text starts and ends, `[B]` int32.

        Args:
            texts: `[B]` string.
            places: `[B]` int64, a piece of each.
        """
        ids, starts, ends = (
            # One column more: there may be none to look at.
            tf.pad(ragged.to_tensor(-1), [[0, 0], [0, 1]], constant_values=-1)
            for ragged in self.tokenizer.tokenize_with_offsets(texts)
        )
        places = tf.minimum(places, tf.shape(ids, tf.int64)[1] - 1)
        own_start, own_end = (
            tf.maximum(tf.gather(values, places, batch_dims=1), 0)
            for values in (starts, ends)
        )
        is_own_word = (starts == own_start[:, tf.newaxis]) & (ids >= 0)
        lengths = tf.gather(self._num_characters, tf.maximum(ids, 0))
        lengths = tf.where(is_own_word, lengths, 0)
        order = tf.range(tf.shape(ids, tf.int64)[1])
        is_before = order < places[:, tf.newaxis]
        num_before = tf.reduce_sum(tf.where(is_before, lengths, 0), 1)
        num_through = num_before + tf.gather(lengths, places, batch_dims=1)
        total = tf.reduce_sum(lengths, 1)
        lines_up = total == _count_characters(texts, own_start, own_end)
        unk_id = self.tokenizer.vocabulary.unk_id
        lines_up &= ~tf.reduce_any(is_own_word & (ids == unk_id), 1)
        words = tf.strings.substr(texts, own_start, own_end - own_start)
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
