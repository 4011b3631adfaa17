"""Rows of tokens: how texts are split, windowed, laid out, padded and kept.

All is TensorFlow, for a whole split or inside an exported model. `EncodedRows`
are what a training keeps of a split, unpadded, in NumPy.
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

# Bytes that a blank may take in UTF-8.
_BLANK_SIZES = (1, 2, 3)
# Examples that are made into rows at once: bounds the memory of the rest.
_CHUNK = 16_384
# Beyond this share of rows that are cut off, a longer row is advised.
_LARGE_SHARE = 0.02
# Beyond this share of tokens that are [UNK] it is told.
_MANY_UNKNOWN = 0.05


def encode(texts: Sequence[str]) -> tf.Tensor:
    """Encodes texts, `[N]`; lone surrogates in JSON vanish when tokenized."""
    data = [text.encode(errors="surrogatepass") for text in texts]
    return tf.constant(data, tf.string)


class Words(NamedTuple):
    """The words of N texts, `[N, (words)]`."""

    words: tf.RaggedTensor  # string
    starts: tf.RaggedTensor  # int64, the byte of the text at which each begins
    ends: tf.RaggedTensor  # int64, the byte after it


def split_words(texts: tf.Tensor, blanks: str) -> Words:
    """Splits `[N]` UTF-8 strings into words between some characters."""
    plain = texts
    for size in _BLANK_SIZES:
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
    is_word = parts.with_values(sizes > 0)
    columns = map(parts.with_values, (parts.values, starts, starts + sizes))
    return Words(*(tf.ragged.boolean_mask(c, is_word) for c in columns))


class Windows(NamedTuple):
    """R windows of N texts; all int64."""

    texts: tf.Tensor  # `[R]`, the text that each window is of
    numbers: tf.Tensor  # `[R]`, its number among the windows of that text
    starts: tf.Tensor  # `[R]`, the text's piece that it begins with
    lengths: tf.Tensor  # `[R]`, pieces in it
    splits: tf.Tensor  # `[N + 1]`, where the windows of each text begin
    rooms: tf.Tensor  # `[N]`, most pieces of a window
    strides: tf.Tensor  # `[N]`, pieces from one window to the next
    totals: tf.Tensor  # `[N]`, pieces of the text

    @property
    def counts(self) -> tf.Tensor:
        """How many windows each text has, `[N]`."""
        return self.splits[1:] - self.splits[:-1]


def split_windows(
    totals: tf.Tensor, rooms: tf.Tensor, strides: tf.Tensor, least: int = 1
) -> Windows:
    """Splits texts into windows (the original's `finetune/qa/qa_tasks.py`).

    Arguments are `[N]` int64, as in `Windows`: strides are 1 to the room. A
    text without pieces has `least` windows, 0 or 1.
    """
    # One, and as many more as it takes to get to the end.
    counts = tf.where(totals > rooms, 1 - (rooms - totals) // strides, 1)
    counts = tf.where(totals > 0, counts, least)
    splits = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(counts)], 0)
    texts = tf.repeat(tf.range(tf.size(counts, tf.int64)), counts)
    numbers = tf.range(tf.size(texts, tf.int64)) - tf.gather(splits, texts)
    starts = numbers * tf.gather(strides, texts)
    rest = tf.gather(totals, texts) - starts
    lengths = tf.minimum(tf.gather(rooms, texts), rest)
    sizes = rooms, strides, totals
    return Windows(texts, numbers, starts, lengths, splits, *sizes)


def find_best_window(
    windows: Windows, texts: tf.Tensor, pieces: tf.Tensor
) -> tf.Tensor:
    """Finds the window in which a piece has most context, `[...]` int64.

    That is the smaller of what is left and right of the piece, plus a hundredth
    of the window's length; the first of equals wins. Windows are numbered for
    each text. `pieces`, `[...]` int64, are of `texts`, which broadcast to them.
    """
    sizes = windows.rooms, windows.strides, windows.totals, windows.counts
    rooms, strides, totals, counts = (
        tf.gather(values, texts)[..., tf.newaxis] for values in sizes
    )
    pieces = pieces[..., tf.newaxis]
    first = tf.maximum(-((rooms - 1 - pieces) // strides), 0)
    # No piece is in more windows than these.
    most = tf.reduce_max(-(-windows.rooms // windows.strides)) + 1
    numbers = first + tf.range(tf.maximum(most, 1))
    begins = numbers * strides
    lengths = tf.minimum(rooms, totals - begins)
    context = tf.minimum(pieces - begins, begins + lengths - 1 - pieces)
    # In this order and precision: equals must stay equal.
    scores = tf.cast(context, tf.float64) + 0.01 * tf.cast(lengths, tf.float64)
    is_window = (numbers < counts) & (begins <= pieces)
    scores = tf.where(is_window, scores, tf.float64.min)
    best = tf.reduce_max(scores, axis=-1, keepdims=True)
    winners = tf.where(scores == best, numbers, tf.int64.max)
    return tf.reduce_min(winners, axis=-1)


class Part(NamedTuple):
    """A slice of a flat tensor for each of R rows."""

    values: tf.Tensor  # `[total]` int32
    starts: tf.Tensor  # `[R]` int64, where each row's slice begins in `values`
    counts: tf.Tensor  # `[R]` int64, how long it is


def token(token_id: int, counts: tf.Tensor) -> Part:
    """Returns one token for each of R rows whose `counts` is 1, not 0."""
    return Part(tf.constant([token_id]), tf.zeros_like(counts), counts)


def join(parts: Sequence[Part]) -> tf.RaggedTensor:
    """Lays out R rows, `[R, (tokens)]` int32: slices of all parts in turn."""
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
    """Pads rows to a length S, without one to that of the longest, at least 1.

    `segment_starts`, `[R]`, is the first token of segment 1. Returns
    `input_ids`, `input_mask` and `segment_ids`, `[R, S]` int32.
    """
    counts = ids.row_lengths()
    if length is None:
        # Heads look at [CLS], so there must be a column even without rows.
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
    segment_starts: tf.Tensor  # `[N]` int64, where segment 1 begins
    num_truncated: tf.Tensor  # `[N]` int64, pieces that did not fit


def pack_texts(
    tokenizer: tokenizer_lib.Tokenizer,
    texts: tf.Tensor,
    pairs: tf.Tensor | None,
    max_length: int,
) -> PackedTexts:
    """Makes rows `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`, of `[N]` texts.

    A second text without pieces is none. What is longer than `max_length`
    tokens loses its end, see `cut_pairs`.
    """
    vocabulary = tokenizer.vocabulary
    first = tokenizer.tokenize(texts)
    # Without second texts: no pieces, in as many rows.
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
    """Computes how many pieces are kept of each text, two `[N]` int64 tensors.

    It is the closed form of the original's rule, and BERT's: while a row is too
    long, the longer text loses its last piece, the second one where both are
    equally long. A second text of 0 pieces is none.
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
    """N lists of numbers in NumPy, one after another."""

    values: np.ndarray  # `[total]`, int32 or float32
    splits: np.ndarray  # `[N + 1]` int64, where each list begins

    @classmethod
    def of(cls, lists: Sequence[Any], dtype: Any = np.int32) -> "Ragged":
        """Copies lists or arrays of numbers, one for each row."""
        values = np.concatenate([np.zeros(0, dtype), *lists]).astype(dtype)
        return cls(values, np.cumsum([0, *map(len, lists)]))

    @classmethod
    def join(cls, tensors: Sequence[tf.RaggedTensor]) -> "Ragged":
        """Copies ragged int32 tensors into one, row after row."""
        lengths = [tensor.row_lengths() for tensor in tensors]
        counts = np.concatenate([np.zeros(1, np.int64), *lengths])
        parts = [np.zeros(0, np.int32), *(tensor.values for tensor in tensors)]
        return cls(np.concatenate(parts), np.cumsum(counts))

    @property
    def lengths(self) -> np.ndarray:
        """How long each list is, `[N]` int64."""
        return np.diff(self.splits)

    def __len__(self) -> int:
        return len(self.splits) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.splits[row] : self.splits[row + 1]]


@dataclasses.dataclass(frozen=True)
class EncodedRows:
    """N rows of one task."""

    ids: Ragged  # `[N, (tokens)]` int32, [CLS] and [SEP] included
    # `[N]` int32, where segment 1 begins; the row's length where there is none
    segment_starts: np.ndarray
    # `[N]` int32, the index of the example that a row is of; never descending
    examples: np.ndarray
    # Name to `[N]` or `[N, k]` int32 or float32: labels and the like, as the
    # task's head declares them (`TaskHead.columns`)
    columns: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    # Name to `[N, (k)]` int32 or float32; padded with 0 in a batch
    ragged: Mapping[str, Ragged] = dataclasses.field(default_factory=dict)
    details: Any = None  # what the task needs to read answers off the outputs
    num_truncated: np.ndarray | None = None  # `[N]`, pieces that did not fit
    # Rows that are learned from together, one after another; `columns` have an
    # entry for each such group, and `ragged` is empty, if there are several
    group_size: int = 1

    @property
    def num_rows(self) -> int:
        """Rows, N."""
        return len(self.ids)

    @property
    def num_groups(self) -> int:
        """Groups of rows, N without any."""
        return self.num_rows // self.group_size

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every row, `[N]` int64."""
        return self.ids.lengths


def pack_split(
    texts: Sequence[str],
    pairs: Sequence[str | None],
    tokenizer: tokenizer_lib.Tokenizer,
    max_length: int,
    examples: np.ndarray,
    columns: Mapping[str, np.ndarray],
) -> EncodedRows:
    """Makes the rows of a whole split, as `pack_texts`.

    `examples` and `columns` are those of the rows, see `EncodedRows`.
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
    """Says how long rows are, how many are cut off, and if many are unknown.

    The advice goes no further than the encoder's `num_positions`.
    """
    ids = [np.zeros(0, np.int32), *(rows.ids.values for rows in splits)]
    lengths = np.concatenate([np.zeros(0), *(rows.lengths for rows in splits)])
    # Rows of [CLS] and [SEP] alone fill groups.
    lengths = lengths[lengths > 2]
    if not lengths.size:
        return []
    wanted = [
        (rows.lengths + rows.num_truncated)[rows.num_truncated > 0]
        for rows in splits
        if rows.num_truncated is not None
    ]
    cut = np.concatenate([np.zeros(0), *wanted])
    share, longest = cut.size / lengths.size, int(lengths.max())
    what = f"the end of {cut.size:,} rows ({share:.1%})"
    told = (
        f"Tokens of a row: {np.median(lengths):,.0f} in the median, "
        f"{longest:,} at most; {what if cut.size else 'nothing'} is cut off."
    )
    if cut.size and longest >= num_positions:
        told += (
            f" The encoder has no more than {num_positions} positions: split "
            "the texts, or put first what tells the label."
        )
    elif share > _LARGE_SHARE:
        # Rounded up to a multiple of 64, as rows of nearly one length are.
        most = 64 * math.ceil(np.quantile(cut, 0.9) / 64)
        most = min(most, num_positions)
        told += f" To see more, set --config.task.max_seq_length={most}."
    unknown = np.mean(np.concatenate(ids) == unk_id)
    if unknown > _MANY_UNKNOWN:
        told += f" {unknown:.1%} are [UNK]: the vocabulary is of other texts."
    return [told]
