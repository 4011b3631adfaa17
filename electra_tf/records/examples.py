"""Builds ELECTRA's one- and two-segment examples, rows and records.

The rules, and the order in which random numbers are drawn, are those of the
original's class `ExampleBuilder`, so an equally seeded generator gives equal
examples and ends in an equal state.
"""

import itertools
import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

    from electra_tf.text.vocabulary import Vocabulary

# With this probability an example has one segment, as in classification.
SINGLE_SEGMENT_PROBABILITY = 0.1
SINGLE_SEGMENT_TARGET = 100_000
JOIN_FIRST_SEGMENT_PROBABILITY = 0.5
SHORT_EXAMPLE_PROBABILITY = 0.05
MIN_TARGET_LENGTH = 5

# The arrays of `build_features`, sorted by name for serialization.
FEATURE_NAMES = ("input_ids", "input_mask", "segment_ids")
# The layout of every row, as error messages describe it.
FORM = "texts, each [CLS] ids [SEP] of segment 0, then 1; then padding"

_Span = tuple[int, int]


class Examples(NamedTuple):
    """Concatenated segment pairs without special tokens; all arrays int32."""

    token_ids: np.ndarray  # [num_tokens], both segments of each example
    first_lengths: np.ndarray  # [num_examples], lengths of first segments
    second_lengths: np.ndarray  # [num_examples]; 0: no second segment


class ExampleBuilder:
    """Collects lines until they reach a target length, then makes an example.

    `max_seq_length` includes [CLS] and [SEP]s. With `keep_overflow`, tokens
    that the original drops begin the next example of the document.
    """

    def __init__(
        self,
        max_seq_length: int,
        rng: random.Random,
        keep_overflow: bool = False,
    ):
        self._max_seq_length = self._target_length = max_seq_length
        self._rng, self._keep_overflow = rng, keep_overflow
        self.num_documents = self.num_tokens = 0
        # The unfinished example: token ids, and the span of each line.
        self._token_ids = np.zeros([0], np.int32)
        self._lines: list[_Span] = []
        self._num_pending = 0
        # Finished examples that `take` has not handed out yet.
        self._pieces: list[np.ndarray] = []
        self._lengths: list[tuple[int, int]] = []

    def add_lines(
        self, token_ids: np.ndarray, line_lengths: Iterable[int]
    ) -> None:
        """Adds lines to the document under construction.

        `token_ids`, `[num_tokens]` int32, are the lines' ids end to end; they
        are not copied until `take` is called.
        """
        self.num_tokens += len(token_ids)
        if self._lines:
            pending = [self._token_ids[begin:end] for begin, end in self._lines]
            ends = np.cumsum([len(line) for line in pending]).tolist()
            self._lines = list(itertools.pairwise([0, *ends]))
            token_ids = np.concatenate([*pending, token_ids])
        self._token_ids = token_ids
        end = self._num_pending
        for length in filter(None, line_lengths):
            begin, end = end, end + length
            self._lines.append((begin, end))
            self._num_pending += length
            while self._num_pending >= self._target_length:
                self._make_example()

    def end_document(self) -> None:
        """Makes the last example of the document, if any token is left."""
        self.num_documents += 1
        while self._num_pending:
            self._make_example()

    def take(self) -> Examples:
        """Returns the examples finished since the last call, in order."""
        lengths = np.array(self._lengths, np.int32).reshape([-1, 2])
        ids = np.concatenate([np.zeros([0], np.int32), *self._pieces])
        self._pieces, self._lengths = [], []
        return Examples(ids, lengths[:, 0], lengths[:, 1])

    def _make_example(self) -> None:
        first, second = self._split_lines()
        first, rest, num_first = _cut(first, self._max_seq_length - 2)
        limit = max(0, self._max_seq_length - 3 - num_first)
        second, second_rest, num_second = _cut(second, limit)
        for begin, end in first + second:
            self._pieces.append(self._token_ids[begin:end])
        self._lengths.append((num_first, num_second))
        self._lines = sorted(rest + second_rest) if self._keep_overflow else []
        self._num_pending = sum(end - begin for begin, end in self._lines)
        self._target_length = self._max_seq_length
        if self._rng.random() < SHORT_EXAMPLE_PROBABILITY:
            self._target_length = self._rng.randint(
                MIN_TARGET_LENGTH, self._max_seq_length
            )

    def _split_lines(self) -> tuple[list[_Span], list[_Span]]:
        """Divides the lines into two segments, as spans of token ids."""
        # The order of the conditions decides how many random numbers are drawn.
        random_number = self._rng.random
        # Without [CLS] and two [SEP], which are added later.
        target = (self._target_length - 3) // 2
        if random_number() < SINGLE_SEGMENT_PROBABILITY:
            target = SINGLE_SEGMENT_TARGET
        first: list[_Span] = [self._lines[0]]
        second: list[_Span] = []
        num_first = first[0][1] - first[0][0]
        for begin, end in self._lines[1:]:
            length = end - begin
            if num_first + length < target or (
                not second
                and num_first < target
                and random_number() < JOIN_FIRST_SEGMENT_PROBABILITY
            ):
                num_first += length
                spans = first
            else:
                spans = second
            if spans and spans[-1][1] == begin:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((begin, end))
        return first, second


def _cut(
    spans: list[_Span], limit: int
) -> tuple[list[_Span], list[_Span], int]:
    """Splits spans after `limit` tokens; counts the tokens before the cut."""
    kept, rest, left = [], [], limit
    for begin, end in spans:
        middle = min(begin + left, end)
        left -= middle - begin
        if begin < middle:
            kept.append((begin, middle))
        if middle < end:
            rest.append((middle, end))
    return kept, rest, limit - left


def pack_rows(
    input_ids: np.ndarray, segments: np.ndarray, pad_id: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Packs rows of one example each, `[n, S]`, into fewer rows, `[m, S]`.

    `segments` is 0 at padding. Best fit: each example in turn goes into the
    fullest row that has room for it, else into a new row.
    """
    capacity = input_ids.shape[1]
    lengths = np.count_nonzero(segments, axis=1)
    begins, num_rows = _fit_best(lengths.tolist(), capacity)
    shifts = np.array(begins, np.int64) - np.cumsum(lengths) + lengths
    places = np.repeat(shifts, lengths) + np.arange(lengths.sum())
    ids = np.full([num_rows, capacity], pad_id, input_ids.dtype)
    packed_segments = np.zeros([num_rows, capacity], segments.dtype)
    ids.flat[places] = input_ids[segments > 0]
    packed_segments.flat[places] = segments[segments > 0]
    return ids, packed_segments


def _fit_best(lengths: list[int], capacity: int) -> tuple[list[int], int]:
    """Returns examples' offsets in the concatenated rows, and the row count."""
    begins, num_rows = list[int](), 0
    rows_with: list[list[int]] = [[] for _ in range(capacity + 1)]
    rooms = 0  # bit r is set if a row has room for just r tokens
    for length in lengths:
        fitting = rooms >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            row = rows_with[room].pop()
            rooms ^= 0 if rows_with[room] else 1 << room
        else:
            row, room, num_rows = num_rows, capacity, num_rows + 1
        begins.append((row + 1) * capacity - room)
        rows_with[room - length].append(row)
        rooms |= 1 << room - length
    return begins, num_rows


def build_features(
    examples: Examples,
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
    pad_id: int = 0,
) -> dict[str, np.ndarray]:
    """Lays out n examples as padded rows of `max_seq_length` (S) tokens.

    A row is `[CLS] first [SEP]`, then `second [SEP]` if there is a second
    segment, then padding. Returns `input_ids`, `input_mask` (1 at tokens) and
    `segment_ids` (1 in the second segment), each `[n, S]` int32.
    """
    first_lengths = examples.first_lengths[:, np.newaxis]
    second_lengths = examples.second_lengths[:, np.newaxis]
    lengths = first_lengths + second_lengths + 2 + (second_lengths > 0)
    columns = np.arange(max_seq_length, dtype=np.int32)
    is_real = columns < lengths
    is_second = is_real & (columns >= first_lengths + 2)
    is_separator = (columns == first_lengths + 1) | (
        is_second & (columns == lengths - 1)
    )
    is_token = is_real & ~is_separator
    is_token[:, 0] = False
    input_ids = np.full(is_real.shape, pad_id, np.int32)
    # In row-major order the tokens have the order in which they are stored.
    input_ids[is_token] = examples.token_ids
    input_ids[is_separator] = sep_id
    input_ids[:, 0] = cls_id
    return {
        "input_ids": input_ids,
        "input_mask": is_real.astype(np.int32),
        "segment_ids": is_second.astype(np.int32),
    }


def serialize_examples(features: Mapping[str, np.ndarray]) -> list[bytes]:
    """Serializes features, each `[n, S]`, as n `tf.train.Example`s.

    Operations on all rows take a third of the time of Python's messages.
    """
    import tensorflow as tf

    entries = []
    for name in FEATURE_NAMES:
        rows = tf.constant(features[name], tf.int64)
        feature = _encode(
            "Feature", int64_list=_encode("Int64List", value=rows)
        )
        key = tf.fill([len(rows), 1], name)
        entries.append(_encode("Features.FeatureEntry", key=key, value=feature))
    whole = _encode("Features", feature=tf.concat(entries, axis=1))
    records: list[bytes] = _encode("Example", features=whole)[:, 0].numpy()
    return list(records)


def _encode(kind: str, **fields: "tf.Tensor") -> "tf.Tensor":
    """Serializes n protobuf messages, `[n, 1]`, from fields `[n, k]`."""
    import tensorflow as tf

    values = [*fields.values()]
    sizes = tf.constant([[value.shape[1] for value in values]], tf.int32)
    sizes = tf.repeat(sizes, len(values[0]), axis=0)
    names = list(fields)
    encoded = tf.io.encode_proto(sizes, values, names, f"tensorflow.{kind}")
    return encoded[:, tf.newaxis]


def parse_examples(
    serialized: "tf.Tensor",
    max_seq_length: int,
    vocabulary: "Vocabulary | None" = None,
) -> dict[str, "tf.Tensor"]:
    """Parses `[n]` records into `FEATURE_NAMES`, `[n, max_seq_length]` int32.

    With a vocabulary, raises `InvalidArgumentError` for rows that lack the
    layout `FORM` or have ids outside of the vocabulary.
    """
    import tensorflow as tf

    specification = {
        name: tf.io.FixedLenFeature([max_seq_length], tf.int64)
        for name in FEATURE_NAMES
    }
    features = tf.io.parse_example(serialized, specification)
    if vocabulary is not None:
        # Before the cast, which would make small ids of large ones.
        _require_form(features, vocabulary)
    return {name: tf.cast(features[name], tf.int32) for name in FEATURE_NAMES}


def _require_form(
    features: Mapping[str, "tf.Tensor"], vocabulary: "Vocabulary"
) -> None:
    import tensorflow as tf

    ids, mask, segments = (features[name] for name in FEATURE_NAMES)
    # 2 in the first segment, 1 in the second, 0 in the padding.
    parts = mask + mask - segments
    begins = ids == vocabulary.cls_id
    falls = parts - tf.pad(parts[:, 1:], [[0, 0], [0, 1]])
    is_last = tf.pad(begins[:, 1:], [[0, 0], [0, 1]])
    ends = is_last | (mask != tf.pad(mask[:, 1:], [[0, 0], [0, 1]]))
    is_example = (
        tf.reduce_all((ids >= 0) & (ids < vocabulary.size))
        & tf.reduce_all((mask | segments) & -2 == 0)
        & tf.reduce_all(is_last | (falls >= 0))
        & tf.reduce_all((mask > 0) | (ids == vocabulary.pad_id))
        & tf.reduce_all(begins[:, 0])
        & tf.reduce_all((parts == 2) | ~begins)
        & tf.reduce_all((ids == vocabulary.sep_id) | ~ends)
    )
    tf.debugging.Assert(is_example, [f"Rows must be {FORM}."])
