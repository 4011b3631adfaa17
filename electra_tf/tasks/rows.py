"""Builds rows of tokens: splits texts, makes windows, joins and pads pieces.

The functions run in TensorFlow, on a whole split or inside an exported model.
`EncodedRows` holds the rows of a split in NumPy, without padding.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.text import tokenizer as tokenizer_lib

QUESTION_BLANKS = " \t\r\n\u202f"
"""The characters at which the original splits the contexts of questions into
words. Other blanks, for example U+00A0, are inside words."""
ALL_BLANKS = "".join(c for c in map(chr, range(0x3001)) if c.isspace())
"""The characters at which Python's `str.split` splits."""

MIN_LENGTH = 5
"""The least `max_seq_length`: [CLS], two [SEP], and a piece of each text."""

_BLANK_SIZES = (1, 2, 3)  # bytes of a blank in UTF-8
_CHUNK = 16_384  # examples tokenized at once; limits memory
# If a larger share of the rows is cut off, `describe_tokens` advises a longer
# `max_seq_length`.
_LARGE_SHARE = 0.02
# If a larger share of the tokens is [UNK], `describe_tokens` says so.
_MANY_UNKNOWN = 0.05


def encode(texts: Sequence[str]) -> tf.Tensor:
    """Encodes texts, `[N]` string; the tokenizer removes lone surrogates."""
    data = [text.encode(errors="surrogatepass") for text in texts]
    return tf.constant(data, tf.string)


class Words(NamedTuple):
    """The words of N texts, `[N, (words)]`."""

    words: tf.RaggedTensor  # string
    starts: tf.RaggedTensor  # int64, the byte of the text at which each begins
    ends: tf.RaggedTensor  # int64, the byte after it


def split_words(texts: tf.Tensor, blanks: str) -> Words:
    """Splits `[N]` UTF-8 strings at the characters `blanks`."""
    plain = texts
    for size in _BLANK_SIZES:
        same_size = "".join(b for b in blanks if len(b.encode()) == size)
        if same_size:
            # As many spaces as bytes, so that the offsets of words stay.
            spaces = " " * size
            plain = tf.strings.regex_replace(plain, f"[{same_size}]", spaces)
    parts = tf.strings.split(plain, " ")
    sizes = tf.cast(tf.strings.length(parts.values), tf.int64)
    begins = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(sizes + 1)], 0)
    starts = begins[:-1] - tf.gather(
        tf.gather(begins, parts.row_starts()), parts.value_rowids()
    )
    # Two adjacent blanks have an empty part between them.
    is_word = parts.with_values(sizes > 0)
    columns = map(parts.with_values, (parts.values, starts, starts + sizes))
    return Words(*(tf.ragged.boolean_mask(c, is_word) for c in columns))


class Windows(NamedTuple):
    """R windows of N texts; all tensors are int64."""

    texts: tf.Tensor  # `[R]`, index of the window's text
    numbers: tf.Tensor  # `[R]`, number of the window within its text, from 0
    starts: tf.Tensor  # `[R]`, index of the window's first piece in its text
    lengths: tf.Tensor  # `[R]`, pieces in the window
    splits: tf.Tensor  # `[N + 1]`, row splits: windows of each text
    rooms: tf.Tensor  # `[N]`, most pieces that a window of the text can hold
    strides: tf.Tensor  # `[N]`, pieces between the starts of two windows
    totals: tf.Tensor  # `[N]`, pieces of the text

    @property
    def counts(self) -> tf.Tensor:
        """Number of windows of each text, `[N]`."""
        return self.splits[1:] - self.splits[:-1]


def split_windows(
    totals: tf.Tensor, rooms: tf.Tensor, strides: tf.Tensor, least: int = 1
) -> Windows:
    """Splits texts into windows (the original's `finetune/qa/qa_tasks.py`).

    The arguments are `[N]` int64, see `Windows`; a stride is between 1 and the
    room. A text without pieces has `least` windows, 0 or 1.
    """
    counts = tf.where(totals > rooms, 1 - (rooms - totals) // strides, 1)
    counts = tf.where(totals > 0, counts, least)
    splits = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(counts)], 0)
    texts = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    numbers = tf.range(tf.size(texts, tf.int64)) - tf.gather(splits, texts)
    starts = numbers * tf.gather(strides, texts)
    num_left = tf.gather(totals, texts) - starts
    lengths = tf.minimum(tf.gather(rooms, texts), num_left)
    sizes = rooms, strides, totals
    return Windows(texts, numbers, starts, lengths, splits, *sizes)


def find_best_window(
    windows: Windows, texts: tf.Tensor, pieces: tf.Tensor
) -> tf.Tensor:
    """Finds the window in which a piece has most context, as in BERT.

    The context is the number of pieces to the left or to the right, whichever
    is smaller, plus a hundredth of the window's length. `pieces`, `[...]`
    int64, are indices in the texts with the indices `texts`, which broadcast to
    `pieces`. Returns `Windows.numbers` of the best windows, `[...]` int64; of
    equal windows the first.
    """
    sizes = windows.rooms, windows.strides, windows.totals, windows.counts
    rooms, strides, totals, counts = (
        tf.gather(values, texts)[..., tf.newaxis] for values in sizes
    )
    pieces = pieces[..., tf.newaxis]
    first = tf.maximum(-((rooms - 1 - pieces) // strides), 0)
    # An upper bound of the number of windows that hold a piece.
    most = tf.reduce_max(-(-windows.rooms // windows.strides)) + 1
    numbers = first + tf.range(tf.maximum(most, 1))
    begins = numbers * strides
    lengths = tf.minimum(rooms, totals - begins)
    context = tf.minimum(pieces - begins, begins + lengths - 1 - pieces)
    # float64: equal contexts must have equal scores.
    scores = tf.cast(context, tf.float64) + 0.01 * tf.cast(lengths, tf.float64)
    is_window = (numbers < counts) & (begins <= pieces)
    scores = tf.where(is_window, scores, tf.float64.min)
    best = tf.reduce_max(scores, axis=-1, keepdims=True)
    winners = tf.where(scores == best, numbers, tf.int64.max)
    return tf.reduce_min(winners, axis=-1)


class Part(NamedTuple):
    """A slice of a flat tensor for each of R rows."""

    values: tf.Tensor  # `[total]` int32
    starts: tf.Tensor  # `[R]` int64, the first index of the slice
    counts: tf.Tensor  # `[R]` int64, the length of the slice


def token(token_id: int, counts: tf.Tensor) -> Part:
    """Returns a part with one token in the rows whose `counts` is 1, not 0."""
    return Part(tf.constant([token_id]), tf.zeros_like(counts), counts)


def join(parts: Sequence[Part]) -> tf.RaggedTensor:
    """Concatenates the slices of all parts by row, `[R, (tokens)]` int32."""
    sizes = tf.stack([tf.size(part.values, tf.int64) for part in parts])
    starts = tf.stack([part.starts for part in parts], 1)
    starts = tf.reshape(starts + tf.cumsum(sizes, exclusive=True), [-1])
    counts = tf.stack([part.counts for part in parts], 1)
    places = tf.ragged.range(starts, starts + tf.reshape(counts, [-1]))
    return tf.RaggedTensor.from_row_lengths(
        tf.gather(tf.concat([part.values for part in parts], 0), places.values),
        tf.reduce_sum(counts, 1),
        validate=False,
    )


def pad(
    ids: tf.RaggedTensor,
    segment_starts: tf.Tensor,
    length: tf.Tensor | int | None = None,
    pad_id: int = 0,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Pads rows to S tokens: `length`, or the length of the longest row.

    `segment_starts`, `[R]`, is the index of the first token of segment 1.
    Returns `input_ids`, `input_mask` and `segment_ids`, `[R, S]` int32.
    """
    counts = ids.row_lengths()
    if length is None:
        # Heads index the column of [CLS], also in a batch without rows.
        length = tf.reduce_max(tf.pad(counts, [[0, 1]], constant_values=1))
    shape = tf.cast(tf.stack([-1, length]), tf.int64)
    places = tf.range(tf.cast(length, tf.int64))
    is_token = places < counts[:, tf.newaxis]
    is_second = places >= tf.cast(segment_starts, tf.int64)[:, tf.newaxis]
    return (
        ids.to_tensor(pad_id, shape=shape),
        tf.cast(is_token, tf.int32),
        tf.cast(is_token & is_second, tf.int32),
    )


class PackedTexts(NamedTuple):
    """Rows of N texts or pairs."""

    ids: tf.RaggedTensor  # `[N, (tokens)]` int32
    segment_starts: tf.Tensor  # `[N]` int64, index of segment 1's first token
    num_truncated: tf.Tensor  # `[N]` int64, pieces that were cut off


def pack_texts(
    tokenizer: tokenizer_lib.Tokenizer,
    texts: tf.Tensor,
    pairs: tf.Tensor | None,
    max_length: int,
) -> PackedTexts:
    """Builds rows `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`, of `[N]` texts.

    A row has the first form if its second text has no pieces. `cut_pairs` cuts
    rows that are longer than `max_length` tokens.
    """
    vocabulary = tokenizer.vocabulary
    first = tokenizer.tokenize(texts)
    second = first[:, :0] if pairs is None else tokenizer.tokenize(pairs)
    sizes = first.row_lengths(), second.row_lengths()
    num_first, num_second = cut_pairs(*sizes, max_length)
    ones = tf.ones_like(num_first)
    ids = join(
        [
            token(vocabulary.cls_id, ones),
            Part(first.values, first.row_starts(), num_first),
            token(vocabulary.sep_id, ones),
            Part(second.values, second.row_starts(), num_second),
            token(vocabulary.sep_id, tf.minimum(num_second, 1)),
        ]
    )
    return PackedTexts(ids, num_first + 2, sum(sizes) - num_first - num_second)


def cut_pairs(
    first: tf.Tensor, second: tf.Tensor, max_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Computes how many pieces of each text to keep, two `[N]` int64 tensors.

    This is the closed form of BERT's rule: while a row is too long, the longer
    text loses its last piece; of equally long texts, the second one loses it.
    A second text of 0 pieces needs no [SEP].
    """
    room = tf.where(second > 0, max_length - 3, max_length - 2)
    room = tf.cast(room, tf.int64)
    half = room // 2
    return (
        tf.minimum(first, tf.maximum(room - second, room - half)),
        tf.minimum(second, tf.maximum(room - first, half)),
    )


@dataclasses.dataclass(frozen=True)
class Ragged:
    """A ragged array in NumPy: N lists of numbers."""

    values: np.ndarray  # `[total]`, int32 or float32
    splits: np.ndarray  # `[N + 1]` int64, row splits

    @classmethod
    def join(cls, tensors: Sequence[tf.RaggedTensor]) -> "Ragged":
        """Concatenates ragged int32 tensors along the first axis."""
        lengths = [tensor.row_lengths() for tensor in tensors]
        counts = np.concatenate([np.zeros(1, np.int64), *lengths])
        parts = [np.zeros(0, np.int32), *(tensor.values for tensor in tensors)]
        return cls(np.concatenate(parts), np.cumsum(counts))

    @property
    def lengths(self) -> np.ndarray:
        """Length of each list, `[N]` int64."""
        return np.diff(self.splits)

    def __len__(self) -> int:
        return len(self.splits) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.splits[row] : self.splits[row + 1]]


@dataclasses.dataclass(frozen=True)
class EncodedRows:
    """N rows of one task."""

    ids: Ragged  # `[N, (tokens)]` int32, with [CLS] and [SEP]
    # `[N]` int32, index of the first token of segment 1; the row's length if
    # all tokens are in segment 0
    segment_starts: np.ndarray
    examples: np.ndarray  # `[N]` int32, index of the row's example; ascending
    # Name to `[N]` or `[N, k]` int32 or float32: the labels and other columns
    # that the task's head reads (`TaskHead.columns`)
    columns: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    # Name to `[N, (k)]` int32 or float32; a batch pads the lists with 0
    ragged: Mapping[str, Ragged] = dataclasses.field(default_factory=dict)
    details: Any = None  # data that only the task's `decode` reads
    num_truncated: np.ndarray | None = None  # `[N]`, pieces that were cut off
    # Number of successive rows that share a loss, a group. If it is above 1,
    # `columns` have an entry for each group, and `ragged` is empty.
    group_size: int = 1

    @property
    def num_rows(self) -> int:
        """Number of rows, N."""
        return len(self.ids)

    @property
    def num_groups(self) -> int:
        """Number of groups of rows."""
        return self.num_rows // self.group_size

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row, `[N]` int64."""
        return self.ids.lengths


def pack_split(
    texts: Sequence[str],
    pairs: Sequence[str | None],
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int,
    examples: np.ndarray,
    columns: Mapping[str, np.ndarray],
) -> EncodedRows:
    """Builds the rows of a whole split by `pack_texts`.

    `examples` and `columns` become fields of the result.
    """
    packed = []
    for begin in range(0, len(texts), _CHUNK):
        part = slice(begin, begin + _CHUNK)
        first, second = encode(texts[part]), None
        if any(pairs[part]):
            second = encode([text or "" for text in pairs[part]])
        packed.append(pack_texts(tokenizer, first, second, max_length))
    starts, num_truncated = (
        np.concatenate([np.zeros(0, np.int32), *parts], dtype=np.int32)
        for parts in (
            [part.segment_starts for part in packed],
            [part.num_truncated for part in packed],
        )
    )
    ids = Ragged.join([part.ids for part in packed])
    return EncodedRows(
        ids, starts, examples, columns, num_truncated=num_truncated
    )


def describe_tokens(
    splits: Sequence[EncodedRows], num_positions: int, unk_id: int
) -> list[str]:
    """Returns a line about row lengths, cut-off rows and unknown tokens.

    The line recommends a `max_seq_length` of at most `num_positions`, the
    encoder's number of positions.
    """
    ids = [np.zeros(0, np.int32), *(rows.ids.values for rows in splits)]
    lengths = np.concatenate([np.zeros(0), *(rows.lengths for rows in splits)])
    # Rows of only [CLS] and [SEP] fill up groups.
    lengths = lengths[lengths > 2]
    if not lengths.size:
        return []
    full_lengths = [
        (rows.lengths + rows.num_truncated)[rows.num_truncated > 0]
        for rows in splits
        if rows.num_truncated is not None
    ]
    cut = np.concatenate([np.zeros(0), *full_lengths])
    share, longest = cut.size / lengths.size, int(lengths.max())
    ends = f"the end of {cut.size:,} rows ({share:.1%})"
    line = (
        f"Tokens of a row: {np.median(lengths):,.0f} in the median, "
        f"{longest:,} at most; {ends if cut.size else 'nothing'} is cut off."
    )
    if cut.size and longest >= num_positions:
        line += (
            f" The encoder has no more than {num_positions} positions: split "
            "the texts, or move the decisive part to the beginning."
        )
    elif share > _LARGE_SHARE:
        advised = 64 * math.ceil(np.quantile(cut, 0.9) / 64)
        advised = min(advised, num_positions)
        line += f" To see more, set task.max_seq_length={advised}."
    unknown = np.mean(np.concatenate(ids) == unk_id)
    if unknown > _MANY_UNKNOWN:
        line += f" {unknown:.1%} are [UNK]: the vocabulary is of other texts."
    return [line]
