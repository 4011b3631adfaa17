"""What a model is fed, unpadded: rows of tokens and their columns.

An example of a task becomes one row, or several (the windows of a long
document). Rows lie one after another in flat arrays, so that a million short
ones take no more memory than their tokens; a batch is padded to its own
longest row (`batches`).
"""

import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Ragged:
    """N lists of numbers, flat.

    Attributes:
        values: `[total]`, int32 or float32.
        splits: `[N + 1]` int64; list i is `values[splits[i]:splits[i + 1]]`.
    """

    values: np.ndarray
    splits: np.ndarray

    @classmethod
    def of(cls, lists: Sequence[Any], dtype: Any = np.int32) -> "Ragged":
        """Lists or arrays of numbers, one for each row."""
        counts = [len(row) for row in lists]
        splits = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        values = np.zeros(splits[-1], dtype)
        for row, start, end in zip(lists, splits, splits[1:], strict=False):
            values[start:end] = row
        return cls(values, splits)

    @property
    def lengths(self) -> np.ndarray:
        """`[N]` int64."""
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
