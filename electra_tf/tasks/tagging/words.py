"""Words to rows of pieces, and where in the rows each word is looked at.

A row is `[CLS] pieces [SEP]`; a word is tagged at its first piece. As in the
original, ideographs are letters, `[CLS]` and `[SEP]` are no words, and a word
without pieces is looked at where the next one (or [SEP]) begins.
"""

import collections
import re
import string
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.config import schema
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import normalization
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

_NUM_SPECIAL = 2
# Sentences that are made into rows at once: bounds the memory of the rest.
_CHUNK = 16_384
# What BERT's tokenizer takes for punctuation.
_SIGN = r"[!-/:-@\[-`{-~\p{P}]"
# One sign; or several that are alike, as in "..." and "``".
_SIGNS = "|".join([*(re.escape(s) + "+" for s in string.punctuation), _SIGN])


class WordRows(NamedTuple):
    """R rows of N sentences.

    The words of all rows, one after another, are those of all sentences.
    """

    ids: tf.RaggedTensor  # `[R, (tokens)]` int32, [CLS] and [SEP] included
    # `[R, (words)]` int32, where in its row each word is looked at; 0 for words
    # that are not
    positions: tf.RaggedTensor
    row_splits: tf.Tensor  # `[N + 1]` int64, where rows of each sentence begin
    num_tokens: tf.Tensor  # `[N]` int64, pieces in the rows, [CLS] and [SEP]
    num_truncated: tf.Tensor  # `[N]` int64, pieces that are in no row


class WordRowBuilder(tf.Module):
    """Makes rows of words, in Python or in a graph.

    A sentence that is longer than `max_length` tokens becomes several rows that
    overlap; a word is looked at where it has most context. With `cuts_early` it
    is cut as in the original, before the first word for which (words of the
    sentence) + 2 + (tokens before the word) + 1 exceeds the length: its row may
    be half empty, or a lone [SEP]. (Where the last word has too many pieces the
    original stops; here it is cut. Case and accents follow the tokenizer.)
    """

    def __init__(
        self,
        tokenizer: tokenizer_lib.Tokenizer,
        max_length: int,
        cuts_early: bool,
    ) -> None:
        super().__init__(name="words")
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.cuts_early = cuts_early
        self._normalizer = normalization.Normalizer(
            tokenizer.vocabulary.settings, splits_ideographs=False
        )
        # What is left of a word without the characters that vanish.
        cased = vocabulary_lib.TokenizerSettings(do_lower_case=False)
        self._visible = normalization.Normalizer(cased, splits_ideographs=False)

    def build(self, words: tf.RaggedTensor) -> WordRows:
        """Makes the rows of sentences, `[N, (words)]` string."""
        # Strings live there; a GPU would only add copies.
        with tf.device("/CPU:0"):
            return self._build(words)

    def _build(self, words: tf.RaggedTensor) -> WordRows:
        # Each distinct word is split once.
        distinct, index = tf.unique(words.values, tf.int64)
        pieces, is_special = (tf.gather(v, index) for v in self.split(distinct))
        sentences = words.value_rowids()
        splits = tf.gather(pieces.row_splits, words.row_splits)
        totals = splits[1:] - splits[:-1]
        # How many pieces of its sentence stand before each word.
        before = pieces.row_starts() - tf.gather(splits, sentences)
        is_tagged, kept, has_start = ~is_special, totals, tf.ones_like(totals)
        if self.cuts_early:
            sizes = pieces.row_lengths(), before
            is_kept, kept, has_start = self._cut(words, *sizes)
            is_tagged &= is_kept
        room = tf.constant(self.max_length - _NUM_SPECIAL, tf.int64)
        rooms = tf.fill(tf.shape(kept), room)
        # Half a row and more: later words are never in earlier rows.
        windows = rows_lib.split_windows(kept, rooms, (rooms + 1) // 2)
        # A word after the last piece stands with it.
        places = tf.minimum(before, tf.gather(kept, sentences) - 1)
        rows = tf.gather(windows.splits, sentences) + rows_lib.find_best_window(
            windows, sentences, tf.maximum(places, 0)
        )
        positions = 1 + before - tf.gather(windows.starts, rows)
        positions = tf.cast(tf.where(is_tagged, positions, 0), tf.int32)
        num_rows = tf.size(windows.texts, tf.int64)
        positions = tf.RaggedTensor.from_value_rowids(
            positions, rows, num_rows, validate=False
        )
        vocabulary = self.tokenizer.vocabulary
        starts = tf.gather(splits, windows.texts) + windows.starts
        first = tf.gather(has_start, windows.texts)
        ids = rows_lib.join(
            [
                rows_lib.token(vocabulary.cls_id, first),
                rows_lib.Part(pieces.values, starts, windows.lengths),
                rows_lib.token(vocabulary.sep_id, tf.ones_like(starts)),
            ]
        )
        sizes = kept + has_start + 1, totals - kept
        return WordRows(ids, positions, windows.splits, *sizes)

    def _cut(
        self, words: tf.RaggedTensor, num_pieces: tf.Tensor, before: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Which words the original keeps, how many pieces, whether [CLS]."""
        sentences, num_words = words.value_rowids(), words.row_lengths()
        num_needed = before + tf.gather(num_words, sentences) + 4
        is_kept = num_needed <= self.max_length
        sums = tf.math.segment_sum(tf.where(is_kept, num_pieces, 0), sentences)
        # Sentences without words at the end have no segment.
        sums = tf.pad(sums, [[0, words.nrows() - tf.size(sums, tf.int64)]])
        room = self.max_length - _NUM_SPECIAL
        fits = tf.gather(sums, sentences) <= room
        has_start = tf.cast(num_words + 3 <= self.max_length, tf.int64)
        is_kept &= fits | (before < room)
        return is_kept, tf.minimum(sums, room), has_start

    def split(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Splits words, `[W]` string, into pieces, `[W, (pieces)]` int32.

        Words of control characters alone have none. The second result, `[W]`
        bool, says whether a word is `[CLS]` or `[SEP]`.
        """
        pieces = self.tokenizer.tokenize_words(self._normalizer.split(words))
        may_be_special = tf.strings.regex_full_match(words, r"(?s).*\[.*\].*")
        visible = self._visible.split(tf.where(may_be_special, words, ""))
        left = tf.RaggedTensor.from_row_splits(
            visible.words, visible.text_splits, validate=False
        )
        left = tf.strings.reduce_join(left.to_tensor(""), axis=1)
        is_first, is_last = left == "[CLS]", left == "[SEP]"
        # Two rows more, and every special word takes its own from there.
        vocabulary = self.tokenizer.vocabulary
        special = tf.ragged.constant(
            [[vocabulary.cls_id], [vocabulary.sep_id]], tf.int32
        )
        count = tf.size(words)
        order = tf.where(is_first, count, tf.range(count))
        order = tf.where(is_last, count + 1, order)
        pieces = tf.gather(tf.concat([pieces, special], 0), order)
        return pieces, is_first | is_last


@schema.frozen
class Conventions:
    """How a training file writes words and tags, and so raw text is treated."""

    scheme: str = ""  # one of `spans.SCHEMES`; empty: tags mark no spans
    # Whether punctuation at the ends of a word is a word of its own.
    splits_punctuation: bool = False


def are_apart(words: Iterable[str]) -> bool:
    """Whether more words are punctuation alone than have some at an end."""
    counts = collections.Counter(words)
    distinct, numbers = rows_lib.encode(list(counts)), [*counts.values()]
    match = tf.strings.regex_full_match
    is_sign = match(distinct, f"{_SIGN}+").numpy()
    has_sign = match(distinct, f"(?s){_SIGN}.*|.*{_SIGN}").numpy()
    return bool(numbers @ is_sign > numbers @ (has_sign & ~is_sign))


def split_text(texts: tf.Tensor, splits_punctuation: bool) -> rows_lib.Words:
    """Splits `[N]` UTF-8 texts at blanks, and punctuation off the words' ends.

    A sign repeated, as in "...", is one word. What is not UTF-8 stays whole.
    """
    words = rows_lib.split_words(texts, rows_lib.ALL_BLANKS)
    if not splits_punctuation:
        return words
    pattern = f"(?s)^({_SIGN}*)(.*?)({_SIGN}*)$"
    marked = tf.strings.regex_replace(words.words.values, pattern, r"\2 \1 \3")
    parts = tf.strings.split(marked, " ").to_tensor("", shape=[None, 3])
    core, before, after = tf.unstack(parts, axis=1)
    before = tf.strings.regex_replace(before, _SIGNS, r"\0 ")
    after = tf.strings.regex_replace(after, _SIGNS, r" \0")
    parts = tf.strings.split(before + " " + core + after)
    sizes = tf.cast(tf.strings.length(parts.values), tf.int64)
    begins = tf.cumsum(sizes, exclusive=True)
    # The parts of a word begin where it does, and follow one another.
    shifts = words.starts.values - tf.gather(begins, parts.row_starts())
    begins += tf.gather(shifts, parts.value_rowids())
    splits = tf.gather(parts.row_splits, words.words.row_splits)
    columns = parts.values, begins, begins + sizes
    join = tf.RaggedTensor.from_row_splits
    return rows_lib.Words(*(join(c, splits, validate=False) for c in columns))


def character_places(text: bytes) -> np.ndarray:
    """The character that each byte of a text is in, and one for its end."""
    # A character begins with each byte but 10xxxxxx.
    begins = np.frombuffer(text, np.uint8) & 0xC0 != 0x80
    return np.concatenate([[0], np.cumsum(begins)])


def _share_words(
    ids: tf.RaggedTensor, positions: tf.RaggedTensor
) -> tuple[np.ndarray, np.ndarray]:
    """Repeats rows that have more words than tokens, so that none has.

    Words without pieces stand where others do, so there may be any number.
    Returns which row each new one is, and how many words it has, `[R]` both.
    """
    room = ids.row_lengths().numpy()
    left = positions.row_lengths().numpy()
    times = np.maximum(-(-left // room), 1)
    repeated = np.repeat(np.arange(len(times)), times)
    number = np.arange(len(repeated)) - (np.cumsum(times) - times)[repeated]
    rest = left[repeated] - number * room[repeated]
    return repeated, np.minimum(rest, room[repeated])


def build_rows(
    sentences: Sequence[Sequence[str]],
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
    cuts_early: bool = True,
) -> rows_lib.EncodedRows:
    """Makes the rows of a whole split; arguments as of `WordRowBuilder`.

    `ragged["word_positions"]` says where in a row words are looked at,
    `details`, `[R, (words)]` int32, which words of the sentence they are.
    """
    builder = WordRowBuilder(tokenizer, max_seq_length, cuts_early)
    ids: list[tf.RaggedTensor] = []
    positions: list[tf.RaggedTensor] = []
    words: list[tf.RaggedTensor] = []
    owners = [np.zeros(0, np.int32)]
    for begin in range(0, len(sentences), _CHUNK):
        chunk = sentences[begin : begin + _CHUNK]
        ragged = tf.RaggedTensor.from_row_lengths(
            rows_lib.encode([word for row in chunk for word in row]),
            tf.constant([len(row) for row in chunk], tf.int64),
        )
        rows = builder.build(ragged)
        is_tagged = rows.positions > 0
        # The number of each word in its sentence.
        order = tf.ragged.range(ragged.row_lengths()).values
        numbers = rows.positions.with_values(tf.cast(order, tf.int32))
        own = tf.ragged.boolean_mask(rows.positions, is_tagged)
        repeated, lengths = _share_words(rows.ids, own)
        ids.append(tf.gather(rows.ids, repeated))
        which = tf.ragged.boolean_mask(numbers, is_tagged)
        for parts, values in ((positions, own), (words, which)):
            shared = tf.RaggedTensor.from_row_lengths(values.values, lengths)
            parts.append(shared)
        sentence = np.arange(begin, begin + len(chunk), dtype=np.int32)
        owner = np.repeat(sentence, np.diff(rows.row_splits.numpy()))
        owners.append(owner[repeated])
    examples = np.concatenate(owners)
    return rows_lib.EncodedRows(
        ids=rows_lib.Ragged.join(ids),
        # As in the original, all of a sentence is segment 1.
        segment_starts=np.zeros_like(examples),
        examples=examples,
        ragged={"word_positions": rows_lib.Ragged.join(positions)},
        details=rows_lib.Ragged.join(words),
    )
