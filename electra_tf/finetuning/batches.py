"""Rows to batches: which rows a step takes, and how they are padded.

The order is a pure function of the seed. All epochs lie one after another, a
new permutation each, and are cut into batches. With `group_by_length` the rows
of `_WINDOW` successive batches are sorted by length first, and those batches
shuffled afterwards: rows of a batch then have nearly one length, and little of
a step goes into padding. A batch is padded to its longest row, rounded up to a
multiple of `_LENGTH_MULTIPLE`.

To go on at step k, the order is made again and read from k: nothing about it
enters a checkpoint.
"""

import dataclasses
import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.inputs import options
from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib

# Few distinct lengths, so that XLA compiles few steps, and aligned products.
_LENGTH_MULTIPLE = 8
# Batches whose rows are sorted together.
_WINDOW = 64

Tensors = dict[str, tf.Tensor]


def num_steps(num_rows: int, batch_size: int, num_epochs: float) -> int:
    """Updates of a training: whole batches of an epoch, times epochs.

    As the original counts (`finetune/preprocessing.py`); at least one.

    >>> num_steps(100, 32, 3.0), num_steps(20, 32, 3.0)
    (9, 2)
    """
    if num_rows < batch_size:
        return max(1, math.ceil(num_rows * num_epochs / batch_size))
    return max(1, int(num_rows // batch_size * num_epochs))


@dataclasses.dataclass(frozen=True)
class BatchOrder:
    """The rows of every batch.

    Attributes:
        rows: `[T, B]` int32, indices of rows.
        lengths: `[T]` int32, tokens that the rows of a batch are padded to.
    """

    rows: np.ndarray
    lengths: np.ndarray

    @property
    def num_batches(self) -> int:
        """Batches, T."""
        return len(self.rows)


def order_for_training(
    row_lengths: np.ndarray,
    batch_size: int,
    num_batches: int,
    seed: int,
    group_by_length: bool = True,
) -> BatchOrder:
    """Every row once an epoch, in an order drawn from `seed`.

    Args:
        row_lengths: `[N]` integer, tokens of the rows.
        batch_size: rows of a batch, B.
        num_batches: updates, T.
        seed: of the order.
        group_by_length: put rows of like length into a batch.
    """
    generator = np.random.default_rng(seed)
    count = num_batches * batch_size
    num_epochs = -(-count // len(row_lengths))
    epochs = [
        generator.permutation(len(row_lengths)) for _ in range(num_epochs)
    ]
    rows = np.concatenate(epochs)[:count].astype(np.int32)
    if group_by_length:
        window = _WINDOW * batch_size
        rows = np.concatenate(
            [
                _group(rows[start : start + window], row_lengths, batch_size,
                       generator)
                for start in range(0, count, window)
            ]
        )  # fmt: skip
    return _with_lengths(rows.reshape(num_batches, batch_size), row_lengths)


def order_for_prediction(
    row_lengths: np.ndarray, batch_size: int
) -> BatchOrder:
    """Every row once, the shortest first; the last batch is filled up.

    It is filled with repetitions of its last row.

    Args:
        row_lengths: `[N]` integer, tokens of the rows.
        batch_size: rows of a batch, B.
    """
    rows = np.argsort(row_lengths, kind="stable").astype(np.int32)
    missing = -len(rows) % batch_size
    rows = np.concatenate([rows, np.repeat(rows[-1:], missing)])
    return _with_lengths(rows.reshape(-1, batch_size), row_lengths)


def _group(
    rows: np.ndarray,
    row_lengths: np.ndarray,
    batch_size: int,
    generator: np.random.Generator,
) -> np.ndarray:
    """The same rows, batches of like length in random order."""
    order = np.argsort(row_lengths[rows], kind="stable")
    batches = rows[order].reshape(-1, batch_size)
    return batches[generator.permutation(len(batches))].ravel()


def _with_lengths(rows: np.ndarray, row_lengths: np.ndarray) -> BatchOrder:
    longest = row_lengths[rows].max(1)
    padded = -(-longest // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
    # The encoder may have no position beyond the longest row of all.
    padded = np.minimum(padded, row_lengths.max())
    return BatchOrder(rows, padded.astype(np.int32))


class RowTable:
    """The rows of one or several tasks, in TensorFlow's memory.

    Rows of several tasks follow each other; `task_id` says which one a row is
    of. The columns of a task are called `<task>/<column>`, and are zeros, or
    empty, in rows of other tasks.

    Args:
        rows: task name to rows.
        columns: task name to the columns that its head declares.

    Raises:
        ValueError: if a row has a list that is longer than the row.
    """

    def __init__(
        self,
        rows: Mapping[str, rows_lib.Rows],
        columns: Mapping[str, Mapping[str, task_heads.Column]],
    ) -> None:
        parts = list(rows.values())
        self.row_lengths = np.concatenate([part.lengths for part in parts])
        with tf.device("/CPU:0"):
            self._ids = _as_ragged([part.ids for part in parts])
            self._segment_starts = tf.constant(
                np.concatenate([part.segment_starts for part in parts]),
                tf.int32,
            )
            sizes = [part.num_rows for part in parts]
            self._task_ids = tf.constant(
                np.repeat(np.arange(len(parts)), sizes), tf.int32
            )
            self._columns: dict[str, tf.Tensor] = {}
            self._ragged: dict[str, tf.RaggedTensor] = {}
            for task, declared in columns.items():
                for name, column in declared.items():
                    self._add(task, name, column, rows)

    def _add(
        self,
        task: str,
        name: str,
        column: task_heads.Column,
        rows: Mapping[str, rows_lib.Rows],
    ) -> None:
        full_name, others = f"{task}/{name}", list(rows.items())
        if column.is_ragged:
            own = rows[task]
            if (own.ragged[name].lengths > own.lengths).any():
                raise ValueError(
                    f"The lists of column {full_name} must not be longer than "
                    "their rows, to whose length they are padded. Received: "
                    f"{own.ragged[name].lengths.max()} numbers. Make several "
                    "columns of them."
                )
            self._ragged[full_name] = _as_ragged(
                [
                    _ragged_column(part, name, column.dtype, other == task)
                    for other, part in others
                ]
            )
            return
        parts = [
            part.columns[name] if other == task else np.zeros(part.num_rows)
            for other, part in others
        ]
        column_values = np.concatenate(parts).astype(column.dtype)
        self._columns[full_name] = tf.constant(column_values)

    @property
    def num_rows(self) -> int:
        """Rows of all tasks."""
        return len(self.row_lengths)

    def batch(self, rows: tf.Tensor, length: tf.Tensor | int) -> Tensors:
        """Some rows as a padded batch.

        Args:
            rows: `[B]` int32 indices.
            length: tokens, S; no row may have more.

        Returns:
            `input_ids`, `input_mask`, `segment_ids` `[B, S]`, `task_id` `[B]`,
            and all columns, `[B]` or `[B, S]`; int32 or float32.
        """
        tokens = rows_lib.pad(
            tf.gather(self._ids, rows),
            tf.gather(self._segment_starts, rows),
            length,
        )
        names = ("input_ids", "input_mask", "segment_ids")
        batch = dict(zip(names, tokens, strict=True))
        batch["task_id"] = tf.gather(self._task_ids, rows)
        # Lists have the length of the row too: one shape to compile for each.
        shape = tf.cast(tf.stack([-1, length]), tf.int64)
        for name, column in self._columns.items():
            batch[name] = tf.gather(column, rows)
        for name, ragged in self._ragged.items():
            batch[name] = tf.gather(ragged, rows).to_tensor(shape=shape)
        return batch


def build_training_dataset(
    table: RowTable,
    order: BatchOrder,
    first_step: int,
    context: tf.distribute.InputContext | None = None,
    static_length: int = 0,
) -> tf.data.Dataset:
    """The batches from a step on, one element per local replica and step.

    Args:
        table: the rows.
        order: which of them, made for the global batch.
        first_step: batches before it are left out.
        context: which worker this is; None is one worker with one replica.
        static_length: pad all batches to it, for devices that take one shape;
            0 pads each to its own.

    Returns:
        Elements as `RowTable.batch` gives them, with a replica's share of the
        rows of a global batch.

    Raises:
        ValueError: if the replicas do not divide the batch.
    """
    context = context or tf.distribute.InputContext()
    share = order.rows.shape[1] // context.num_replicas_in_sync
    if share * context.num_replicas_in_sync != order.rows.shape[1]:
        raise ValueError(
            "`training.train_batch_size` must be a multiple of the replicas. "
            f"Received: {order.rows.shape[1]} and "
            f"{context.num_replicas_in_sync}. Change one."
        )
    local = context.num_replicas_in_sync // context.num_input_pipelines
    offset = context.input_pipeline_id * local
    with tf.device("/CPU:0"):
        rows, lengths = tf.constant(order.rows), tf.constant(order.lengths)

    def build(index: tf.Tensor) -> Tensors:
        step, replica = index // local, index % local
        start = (offset + replica) * share
        own = tf.gather(rows, step)[start : start + share]
        length = static_length or tf.gather(lengths, step)
        batch = table.batch(own, length)
        return {
            name: tf.ensure_shape(tensor, [share, *tensor.shape[1:]])
            for name, tensor in batch.items()
        }

    indices = tf.data.Dataset.range(
        first_step * local, order.num_batches * local
    )
    elements = indices.map(
        build, num_parallel_calls=options.PARALLEL_CALLS, deterministic=True
    )
    return options.with_options(elements.prefetch(options.PREFETCHED_ELEMENTS))


def _as_ragged(parts: Sequence[rows_lib.Ragged]) -> tf.RaggedTensor:
    values = np.concatenate([part.values for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    splits = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False)


def _ragged_column(
    rows: rows_lib.Rows, name: str, dtype: Any, is_own: bool
) -> rows_lib.Ragged:
    """A column in the rows of its own task; empty lists in another's."""
    if is_own:
        own = rows.ragged[name]
        return rows_lib.Ragged(own.values.astype(dtype), own.splits)
    splits = np.zeros(rows.num_rows + 1, np.int64)
    return rows_lib.Ragged(np.zeros(0, dtype), splits)
