"""Builds rows of pieces from words, with the position of each word.

A row is `[CLS] pieces [SEP]`. The position of a word is its first piece. As in
the original, ideographs are letters, the words `[CLS]` and `[SEP]` get no tag,
and the position of a word without pieces is that of the next word or of [SEP].
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
_CHUNK = 16_384  # sentences tokenized at once; limits memory
# A character that BERT's tokenizer takes for punctuation.
_SIGN = r"[!-/:-@\[-`{-~\p{P}]"
# A sign, or the same sign several times, as in "..." and "``".
_SIGNS = "|".join([*(re.escape(s) + "+" for s in string.punctuation), _SIGN])
# A letter, with its marks, or a sign of scripts without blanks between words.
_CHARACTER = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\x{3001}-\x{301f}\x{30fc}\x{ff01}-\x{ff0f}"
    r"\x{ff1a}-\x{ff20}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"
)


class WordRows(NamedTuple):
    """R rows of N sentences; together they hold all words in order."""

    ids: tf.RaggedTensor  # `[R, (tokens)]` int32, with [CLS] and [SEP]
    # `[R, (words)]` int32, position of each word in its row; 0 for words that
    # get no tag
    positions: tf.RaggedTensor
    row_splits: tf.Tensor  # `[N + 1]` int64: rows of each sentence
    num_tokens: tf.Tensor  # `[N]` int64, kept pieces, [CLS] and [SEP]
    num_truncated: tf.Tensor  # `[N]` int64, pieces that were cut off


class WordRowBuilder(tf.Module):
    """Builds rows of words, in Python or in a graph.

    A sentence of more than `max_length` tokens becomes several overlapping
    rows; each word is tagged in the row where it has most context. With
    `cuts_early` a sentence has one row, which is cut as in the original: before
    the first word for which (words of the sentence) + 2 + (tokens before the
    word) + 1 exceeds the length. Such a row may be half empty, or a lone [SEP].
    (If the last word has too many pieces, the original fails; here it is cut.)
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
        # Removes only invisible characters, to find `[CLS]` and `[SEP]`.
        cased = vocabulary_lib.TokenizerSettings(do_lower_case=False)
        self._visible = normalization.Normalizer(cased, splits_ideographs=False)

    def build(self, words: tf.RaggedTensor) -> WordRows:
        """Builds the rows of sentences, `[N, (words)]` string."""
        # Operations on strings have no GPU kernels.
        with tf.device("/CPU:0"):
            return self._build(words)

    def _build(self, words: tf.RaggedTensor) -> WordRows:
        # Each distinct word is tokenized once.
        distinct, index = tf.unique(words.values, tf.int64)
        pieces, is_special = (tf.gather(v, index) for v in self.split(distinct))
        sentences = words.value_rowids()
        splits = tf.gather(pieces.row_splits, words.row_splits)
        totals = splits[1:] - splits[:-1]
        # Number of pieces before each word in its sentence.
        before = pieces.row_starts() - tf.gather(splits, sentences)
        is_tagged, kept, has_start = ~is_special, totals, tf.ones_like(totals)
        if self.cuts_early:
            sizes = pieces.row_lengths(), before
            is_kept, kept, has_start = self._cut(words, *sizes)
            is_tagged &= is_kept
        room = tf.constant(self.max_length - _NUM_SPECIAL, tf.int64)
        rooms = tf.fill(tf.shape(kept), room)
        # With this stride no word is in an earlier row than the word before.
        windows = rows_lib.split_windows(kept, rooms, (rooms + 1) // 2)
        # Words without pieces at the end of a sentence use the last piece.
        pieces_of = tf.minimum(before, tf.gather(kept, sentences) - 1)
        rows = tf.gather(windows.splits, sentences) + rows_lib.find_best_window(
            windows, sentences, tf.maximum(pieces_of, 0)
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
        """Cuts sentences as the original does.

        Returns which words are kept, `[W]` bool, and for each sentence the
        number of kept pieces and whether it keeps [CLS], `[N]` int64.
        """
        sentences, num_words = words.value_rowids(), words.row_lengths()
        num_needed = before + tf.gather(num_words, sentences) + 4
        is_kept = num_needed <= self.max_length
        sums = tf.math.segment_sum(tf.where(is_kept, num_pieces, 0), sentences)
        # `segment_sum` omits trailing sentences without words.
        sums = tf.pad(sums, [[0, words.nrows() - tf.size(sums, tf.int64)]])
        room = self.max_length - _NUM_SPECIAL
        fits = tf.gather(sums, sentences) <= room
        has_start = tf.cast(num_words + 3 <= self.max_length, tf.int64)
        is_kept &= fits | (before < room)
        return is_kept, tf.minimum(sums, room), has_start

    def split(self, words: tf.Tensor) -> tuple[tf.RaggedTensor, tf.Tensor]:
        """Splits words, `[W]` string, into pieces, `[W, (pieces)]` int32.

        Also returns whether a word is `[CLS]` or `[SEP]`, `[W]` bool. A word
        of control characters has no pieces.
        """
        pieces = self.tokenizer.tokenize_words(self._normalizer.split(words))
        may_be_special = tf.strings.regex_full_match(words, r"(?s).*\[.*\].*")
        visible = self._visible.split(tf.where(may_be_special, words, ""))
        parts = tf.RaggedTensor.from_row_splits(
            visible.words, visible.text_splits, validate=False
        )
        plain = tf.strings.reduce_join(parts.to_tensor(""), axis=1)
        is_first, is_last = plain == "[CLS]", plain == "[SEP]"
        # Special words take their piece from two rows appended to `pieces`.
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
    """How a training file writes words and tags; raw text is split likewise."""

    scheme: str = ""  # one of `spans.SCHEMES`; empty: tags mark no spans
    # Whether punctuation at the ends of a word is a separate word
    splits_punctuation: bool = False
    # Whether each character of a script without blanks is a word
    splits_characters: bool = False


def find_splits(words: Iterable[str]) -> tuple[bool, bool]:
    """Returns whether most punctuation marks are separate words.

    Also returns whether all characters of scripts without blanks are.
    """
    counts = collections.Counter(words)
    distinct, numbers = rows_lib.encode(list(counts)), [*counts.values()]
    num_signs, num_with_signs, num_characters, num_with_characters = (
        numbers @ tf.strings.regex_full_match(distinct, pattern).numpy()
        for pattern in (
            f"{_SIGN}+",
            f"(?s){_SIGN}.*|.*{_SIGN}",
            _CHARACTER,
            f"(?s).*{_CHARACTER}.*",
        )
    )
    are_apart = bool(2 * num_signs > num_with_signs)
    # Many words of Chinese are single characters, but not 99 of 100.
    return are_apart, bool(100 * num_characters > 99 * num_with_characters)


def split_text(
    texts: tf.Tensor, splits_punctuation: bool, splits_characters: bool = False
) -> rows_lib.Words:
    """Splits `[N]` UTF-8 texts at blanks.

    With `splits_punctuation`, punctuation at the ends of a word becomes
    separate words; a repeated sign, as in "...", is one word. With
    `splits_characters`, so does each character of a script without blanks.
    """
    words = rows_lib.split_words(texts, rows_lib.ALL_BLANKS)
    replace = tf.strings.regex_replace
    if splits_characters:
        marked = replace(words.words.values, _CHARACTER, r" \0 ")
        words = _split_again(words, marked)
    if not splits_punctuation:
        return words
    pattern = f"(?s)^({_SIGN}*)(.*?)({_SIGN}*)$"
    marked = replace(words.words.values, pattern, r"\2 \1 \3")
    parts = tf.strings.split(marked, " ").to_tensor("", shape=[None, 3])
    core, before, after = tf.unstack(parts, axis=1)
    before = replace(before, _SIGNS, r"\0 ")
    after = replace(after, _SIGNS, r" \0")
    return _split_again(words, before + " " + core + after)


def _split_again(words: rows_lib.Words, marked: tf.Tensor) -> rows_lib.Words:
    """Splits words at the blanks that they have in `marked`, `[W]`."""
    parts = tf.strings.split(marked)
    sizes = tf.cast(tf.strings.length(parts.values), tf.int64)
    begins = tf.cumsum(sizes, exclusive=True)
    # The first part begins where the word begins; no bytes separate parts.
    shifts = words.starts.values - tf.gather(begins, parts.row_starts())
    begins += tf.gather(shifts, parts.value_rowids())
    splits = tf.gather(parts.row_splits, words.words.row_splits)
    columns = parts.values, begins, begins + sizes
    join = tf.RaggedTensor.from_row_splits
    return rows_lib.Words(*(join(c, splits, validate=False) for c in columns))


def character_places(text: bytes) -> np.ndarray:
    """Maps byte offsets of a UTF-8 text to characters, `[bytes + 1]` int64."""
    # Every byte except 10xxxxxx begins a character.
    begins = np.frombuffer(text, np.uint8) & 0xC0 != 0x80
    return np.concatenate([[0], np.cumsum(begins)])


def _share_words(
    ids: tf.RaggedTensor, positions: tf.RaggedTensor
) -> tuple[np.ndarray, np.ndarray]:
    """Repeats rows that have more words than tokens, and shares the words.

    A row can have any number of words without pieces, but a batch pads words to
    the number of tokens. Returns the index of the repeated row and the number
    of words of each new row, both `[R]`.
    """
    room = ids.row_lengths().numpy()
    num_words = positions.row_lengths().numpy()
    times = np.maximum(-(-num_words // room), 1)
    repeated = np.repeat(np.arange(len(times)), times)
    number = np.arange(len(repeated)) - (np.cumsum(times) - times)[repeated]
    num_left = num_words[repeated] - number * room[repeated]
    return repeated, np.minimum(num_left, room[repeated])


def build_rows(
    sentences: Sequence[Sequence[str]],
    tokenizer: tokenizer_lib.Tokenizer,
    max_seq_length: int,
    cuts_early: bool = True,
) -> rows_lib.EncodedRows:
    """Builds the rows of a whole split by `WordRowBuilder`.

    `ragged["word_positions"]` and `details`, both `[R, (words)]` int32, hold
    the position of each word in its row and its index in the sentence.
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
        index = tf.ragged.range(ragged.row_lengths()).values
        indices = rows.positions.with_values(tf.cast(index, tf.int32))
        tagged = tf.ragged.boolean_mask(rows.positions, is_tagged)
        repeated, lengths = _share_words(rows.ids, tagged)
        ids.append(tf.gather(rows.ids, repeated))
        indices = tf.ragged.boolean_mask(indices, is_tagged)
        for parts, values in ((positions, tagged), (words, indices)):
            shared = tf.RaggedTensor.from_row_lengths(values.values, lengths)
            parts.append(shared)
        sentence = np.arange(begin, begin + len(chunk), dtype=np.int32)
        owner = np.repeat(sentence, np.diff(rows.row_splits.numpy()))
        owners.append(owner[repeated])
    examples = np.concatenate(owners)
    return rows_lib.EncodedRows(
        ids=rows_lib.Ragged.join(ids),
        # As in the original, all tokens are in segment 1.
        segment_starts=np.zeros_like(examples),
        examples=examples,
        ragged={"word_positions": rows_lib.Ragged.join(positions)},
        details=rows_lib.Ragged.join(words),
    )
