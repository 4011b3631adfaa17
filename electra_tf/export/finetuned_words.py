"""Raw texts to words and their pieces, for tagging, in the graph.

The rows are those that `finetuning.tagging.alignment` makes of the same words,
and the pieces those of `finetuning.tagging.word_pieces`: ideographs are
letters like any other, and the words `[CLS]` and `[SEP]` stand for the special
tokens.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_text

from electra_tf.export import finetuned_rows
from electra_tf.text import character_table
from electra_tf.text import normalization
from electra_tf.text import vocabulary as vocabulary_lib

_UNKNOWN_TOKEN = "[UNK]"
_PREFIX = "##"
_MAX_UTF8_BYTES = 4
_NUM_SPECIAL = 2
# All blanks of Python's `str.split` are below it.
_FIRST_TEXT = 0x3001
# Strings live there; a GPU would only add copies.
_DEVICE = "/CPU:0"


class SplitTexts(NamedTuple):
    """The words of B texts, what stands between blanks; `[B, (words)]`."""

    words: tf.RaggedTensor  # string
    starts: tf.RaggedTensor  # int32 bytes of the text
    ends: tf.RaggedTensor  # int32, the bytes after the words


class WordRows(NamedTuple):
    """Rows of texts, and where in them the words are looked at."""

    rows: finetuned_rows.PackedRows
    positions: tf.Tensor  # [B, W] int32; 0 for words that are not seen


def split_at_blanks(texts: tf.Tensor) -> SplitTexts:
    """The words of texts, those of Python's `str.split`.

    Args:
        texts: `[B]` string, UTF-8.
    """
    with tf.device(_DEVICE):
        codes, offsets = tf.strings.unicode_decode_with_offsets(
            texts, "UTF-8", errors="replace"
        )
        is_blank = tf.constant(
            [chr(code).isspace() for code in range(_FIRST_TEXT)] + [False]
        )
        is_text = ~tf.gather(is_blank, tf.minimum(codes.values, _FIRST_TEXT))
        is_first_of_row = normalization.mark_positions(
            codes.row_starts(), tf.size(codes.values)
        )
        # Whether a character goes on with the word of the one before it.
        goes_on = is_text & ~is_first_of_row
        goes_on &= tf.concat([[False], is_text[:-1]], 0)
        firsts = tf.where(is_text & ~goes_on)[:, 0]
        lasts = tf.where(is_text & ~tf.concat([goes_on[1:], [False]], 0))[:, 0]
        splits = tf.searchsorted(firsts, codes.row_splits, out_type=tf.int64)
        rows = tf.gather(codes.value_rowids(), firsts)
        starts = tf.gather(offsets.values, firsts)
        # Where the next character is in the same text it begins there.
        is_last_of_row = lasts + 1 == tf.gather(codes.row_limits(), rows)
        nexts = tf.minimum(lasts + 1, tf.size(offsets.values, tf.int64) - 1)
        sizes = tf.cast(tf.strings.length(texts), tf.int64)
        ends = tf.where(
            is_last_of_row,
            tf.gather(sizes, rows),
            tf.gather(offsets.values, nexts),
        )
        starts, ends = tf.cast(starts, tf.int32), tf.cast(ends, tf.int32)
        words = tf.strings.substr(tf.gather(texts, rows), starts, ends - starts)
        return SplitTexts(
            *(
                tf.RaggedTensor.from_row_splits(values, splits, validate=False)
                for values in (words, starts, ends)
            )
        )


class WordRowBuilder(tf.Module):
    """Makes rows of words.

    Args:
        vocabulary: of the model.
        max_length: most tokens of a row.
        cuts_early: see `alignment.align`.
    """

    def __init__(
        self,
        vocabulary: vocabulary_lib.Vocabulary,
        max_length: int,
        cuts_early: bool,
    ) -> None:
        super().__init__(name="words")
        self.max_length = max_length
        self.cuts_early = cuts_early
        settings = vocabulary.settings
        self._special_ids = (
            vocabulary.cls_id, vocabulary.sep_id, vocabulary.pad_id
        )  # fmt: skip
        self._max_word_length = settings.max_word_length
        self._normalizer = _UnbrokenNormalizer(settings)
        # What is left of a word without the characters that vanish.
        self._visible = _UnbrokenNormalizer(
            vocabulary_lib.TokenizerSettings(do_lower_case=False)
        )
        self._matcher = tensorflow_text.FastWordpieceTokenizer(
            vocab=_matchable_tokens(vocabulary),
            suffix_indicator=_PREFIX,
            max_bytes_per_word=settings.max_word_length * _MAX_UTF8_BYTES,
            token_out_type=tf.int32,
            unknown_token=_UNKNOWN_TOKEN,
            no_pretokenization=True,
        )

    def build(self, words: tf.RaggedTensor) -> WordRows:
        """The rows of texts.

        Args:
            words: `[B, (words)]` string.
        """
        with tf.device(_DEVICE):
            pieces, is_special = self._split(words.values)
            counts = words.with_values(
                tf.cast(pieces.row_lengths(), tf.int32)
            ).to_tensor(0)
            special = words.with_values(is_special).to_tensor(False)
            positions = 1 + tf.cumsum(counts, axis=1, exclusive=True)
            num_words = tf.cast(words.row_lengths(), tf.int32)
            is_kept, has_start = self._choose(positions, num_words)
            num_pieces = tf.reduce_sum(tf.where(is_kept, counts, 0), 1)
            limit = self.max_length - _NUM_SPECIAL
            is_cut = num_pieces > limit
            is_tagged = is_kept & ~special
            is_tagged &= ~is_cut[:, tf.newaxis] | (positions <= limit)
            return WordRows(
                self._lay_out(
                    pieces.values,
                    tf.gather(pieces.row_splits, words.row_splits),
                    tf.minimum(num_pieces, limit),
                    has_start,
                ),
                tf.where(is_tagged, positions, 0),
            )

    def _choose(
        self, positions: tf.Tensor, num_words: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Words that go into the rows, `[B, W]`; rows with [CLS], `[B]`."""
        is_word = tf.sequence_mask(num_words, tf.shape(positions)[1])
        if not self.cuts_early:
            is_kept = positions < self.max_length - 1
            return is_kept & is_word, tf.ones_like(num_words, tf.bool)
        is_kept = positions + num_words[:, tf.newaxis] + 3 <= self.max_length
        return is_kept & is_word, num_words + 3 <= self.max_length

    def _lay_out(
        self,
        pieces: tf.Tensor,
        splits: tf.Tensor,
        num_kept: tf.Tensor,
        has_start: tf.Tensor,
    ) -> finetuned_rows.PackedRows:
        cls_id, sep_id, pad_id = self._special_ids
        num_kept = tf.cast(num_kept, tf.int64)
        ids = tf.concat(
            [
                finetuned_rows.repeat(cls_id, tf.cast(has_start, tf.int64)),
                finetuned_rows.take(pieces, splits[:-1], num_kept),
                finetuned_rows.repeat(sep_id, tf.ones_like(num_kept)),
            ],
            axis=1,
        )
        # As in the original, all of a text is segment 1.
        return finetuned_rows.to_rows(
            ids,
            tf.zeros_like(num_kept),
            pad_id,
            splits[1:] - splits[:-1] - num_kept,
        )

    def _split(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Pieces of each word, and whether it is a special token."""
        parts = self._normalizer.split(words)
        is_too_long = parts.num_characters > self._max_word_length
        matched = self._matcher.tokenize(
            tf.where(is_too_long, _UNKNOWN_TOKEN, parts.words)
        )
        pieces = tf.RaggedTensor.from_row_splits(
            matched.values,
            tf.gather(matched.row_splits, parts.text_splits),
            validate=False,
        )
        may_be_special = tf.strings.regex_full_match(words, r"(?s).*\[.*\].*")
        visible = self._visible.split(tf.where(may_be_special, words, ""))
        left = tf.RaggedTensor.from_row_splits(
            visible.words, visible.text_splits, validate=False
        )
        left = tf.strings.reduce_join(left.to_tensor(""), axis=1)
        is_first, is_last = left == "[CLS]", left == "[SEP]"
        # Two rows more, and every special word takes its own from there.
        cls_id, sep_id, _ = self._special_ids
        with_special = tf.concat(
            [pieces, tf.ragged.constant([[cls_id], [sep_id]], tf.int32)], 0
        )
        count = tf.size(words)
        order = tf.where(is_first, count, tf.range(count))
        order = tf.where(is_last, count + 1, order)
        return tf.gather(with_special, order), is_first | is_last


class _UnbrokenNormalizer(normalization.Normalizer):
    """One that does not set ideographs apart."""

    def __init__(self, settings: vocabulary_lib.TokenizerSettings) -> None:
        super().__init__(settings)
        self._entries = tf.bitwise.bitwise_and(
            self._entries, ~character_table.IDEOGRAPH
        )


def _matchable_tokens(vocabulary: vocabulary_lib.Vocabulary) -> list[str]:
    """The tokens, with harmless names for those that no word can hold.

    tensorflow-text goes wrong on some of them, see `text.tokenizer`.
    """
    gone = character_table.DROPPED | character_table.BLANK
    flags = character_table.compute_flags()
    longest = vocabulary.settings.max_word_length
    tokens = []
    for number, token in enumerate(vocabulary.tokens):
        content = token.removeprefix(_PREFIX)
        breaks = gone
        if len(token) > 1:
            breaks |= character_table.PUNCTUATION
        codes = np.array([ord(character) for character in content], np.int64)
        is_matchable = token == _UNKNOWN_TOKEN or (
            0 < len(content) <= longest and not np.any(flags[codes] & breaks)
        )
        tokens.append(token if is_matchable else f"[{number}]")
    return tokens
