"""Rows of tokens: how they are laid out, padded and kept.

`join` and `pad` are TensorFlow: a training calls them with a whole split, an
exported model holds them in its graph. `Rows` is what a training keeps of a
split, unpadded, in NumPy. An example becomes one row, or several where it is
longer than a row (`windows`).
"""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf


class Part(NamedTuple):
    """A slice of a flat tensor for each of R rows.

    Attributes:
        values: `[total]` int32.
        starts: `[R]` int64, where each row's slice begins in `values`.
        counts: `[R]` int64, how long it is.
    """

    values: tf.Tensor
    starts: tf.Tensor
    counts: tf.Tensor


def token(token_id: int, counts: tf.Tensor) -> Part:
    """The same token in each of R rows.

    Args:
        token_id: the token.
        counts: `[R]` int64, 1 for rows that have it and 0 for others.
    """
    return Part(tf.constant([token_id]), tf.zeros_like(counts), counts)


def join(parts: Sequence[Part]) -> tf.RaggedTensor:
    """Lays out rows: each row is its slices of all parts, one after another.

    Args:
        parts: for the same R rows.

    Returns:
        `[R, (tokens)]` int32.
    """
    sizes = tf.stack([tf.size(part.values, tf.int64) for part in parts])
    starts = tf.stack([part.starts for part in parts], 1)
    starts = tf.reshape(starts + tf.cumsum(sizes, exclusive=True), [-1])
    counts = tf.stack([part.counts for part in parts], 1)
    places = tf.ragged.range(starts, starts + tf.reshape(counts, [-1]))
    values = tf.concat([part.values for part in parts], 0)
    return tf.RaggedTensor.from_row_lengths(
        tf.gather(values, places.values),
        tf.reduce_sum(counts, 1),
        validate=False,
    )


def pad(
    ids: tf.RaggedTensor,
    segment_starts: tf.Tensor,
    length: tf.Tensor | int | None = None,
    pad_id: int = 0,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Pads rows to one length.

    Args:
        ids: `[R, (tokens)]` int32.
        segment_starts: `[R]`, the first token of segment 1.
        length: tokens, S; None takes the longest row's, at least 1.
        pad_id: id of padding.

    Returns:
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


@dataclasses.dataclass(frozen=True)
class Ragged:
    """N lists of numbers in NumPy, flat.

    Attributes:
        values: `[total]`, int32 or float32.
        splits: `[N + 1]` int64; list i is `values[splits[i]:splits[i + 1]]`.
    """

    values: np.ndarray
    splits: np.ndarray

    @classmethod
    def of(cls, lists: Sequence[Any], dtype: Any = np.int32) -> "Ragged":
        """Builds one from lists or arrays of numbers, one for each row."""
        counts = [len(row) for row in lists]
        splits = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        values = np.zeros(splits[-1], dtype)
        for row, start, end in zip(lists, splits, splits[1:], strict=False):
            values[start:end] = row
        return cls(values, splits)

    @classmethod
    def join(cls, tensors: Sequence[tf.RaggedTensor]) -> "Ragged":
        """Copies ragged int32 tensors into one, row after row."""
        lengths = [tensor.row_lengths().numpy() for tensor in tensors]
        counts = np.concatenate([np.zeros(1, np.int64), *lengths])
        values = [tensor.values.numpy() for tensor in tensors]
        return cls(
            np.concatenate([np.zeros(0, np.int32), *values]), np.cumsum(counts)
        )

    @property
    def lengths(self) -> np.ndarray:
        """How long each list is, `[N]` int64."""
        return np.diff(self.splits)

    def __len__(self) -> int:
        return len(self.splits) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.splits[row] : self.splits[row + 1]]


@dataclasses.dataclass(frozen=True)
class Rows:
    """N rows of one task.

    Attributes:
        ids: `[N, (tokens)]` int32, [CLS] and [SEP] included.
        segment_starts: `[N]` int32, where segment 1 begins: tokens before it
            have segment id 0. The row's length where there is none.
        examples: `[N]` int32, the index of the example that a row is of; never
            descending.
        columns: name to `[N]` int32 or float32: labels and the like, as the
            task's head declares them (`TaskHead.columns`).
        ragged: name to `[N, (k)]` int32 or float32; padded with 0 in a batch.
        details: what the task needs to read answers off the outputs; the model
            does not see it.
    """

    ids: Ragged
    segment_starts: np.ndarray
    examples: np.ndarray
    columns: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    ragged: Mapping[str, Ragged] = dataclasses.field(default_factory=dict)
    details: Any = None

    @property
    def num_rows(self) -> int:
        """Rows, N."""
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of every row, `[N]` int64."""
        return self.ids.lengths
