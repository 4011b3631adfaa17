"""Data of fine-tuning: examples, their rows, and batches of rows.

The order of the rows depends only on the seed. With `group_by_length` the rows
of a batch have similar lengths, so that a batch has little padding.
"""

import dataclasses
import functools
import hashlib
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.inputs import pipeline
from electra_tf.modeling import keras_models
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import catalog
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib

# Multiples keep the number of lengths small: XLA compiles each length anew.
_LENGTH_MULTIPLE = 8
_WINDOW = 64  # batches whose rows are sorted by length together

Tensors = dict[str, tf.Tensor]


class PreparedTasks:
    """Tasks with their examples and rows, which all trials of a process share.

    The encoder has `num_positions` positions. `labels` and `conventions` (see
    `Task`) map a task to the values of a trained model, which replace those of
    the files.
    """

    def __init__(
        self,
        settings: finetuning_config.FinetuningConfig,
        vocabulary: vocabulary_lib.Vocabulary,
        num_positions: int,
        labels: Mapping[str, tuple[str, ...]] | None = None,
        conventions: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.settings = settings
        self._tokenizer = tokenizer_lib.Tokenizer(vocabulary)
        self._num_positions = num_positions
        length = settings.task.max_seq_length
        schema.require(
            length <= num_positions,
            "`task.max_seq_length` must not exceed the encoder's "
            f"{num_positions} positions. Received: {length}. Lower it, or set "
            "it to 0 for the task's default.",
        )
        tasks = catalog.build_tasks(settings, labels or {})
        self.tasks = {task.name: task for task in tasks}
        for name, values in (conventions or {}).items():
            if name in self.tasks:
                self.tasks[name].use_conventions(values)
        self.lengths = {
            task.name: length or min(task.max_seq_length, num_positions)
            for task in tasks
        }
        # Cached by task and split.
        self.examples = functools.cache(
            lambda n, s: self.tasks[n].read_split(s)
        )
        self.rows = functools.cache(self._build_rows)

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Maps the name of each task to its labels, () without labels."""
        return {name: tuple(task.labels) for name, task in self.tasks.items()}

    @property
    def conventions(self) -> dict[str, dict[str, Any]]:
        """Maps the names of tasks with conventions to their fields."""
        by_task = {n: task.conventions for n, task in self.tasks.items()}
        return {n: dataclasses.asdict(c) for n, c in by_task.items() if c}

    def _build_rows(self, name: str, split: str) -> rows_lib.EncodedRows:
        examples, length = self.examples(name, split), self.lengths[name]
        rows = self.tasks[name].build_rows(
            examples, self._tokenizer, length, is_training=split == "train"
        )
        for ragged in rows.ragged.values():
            for row in np.flatnonzero(ragged.lengths > rows.lengths)[:1]:
                number = rows.examples[row]
                place = getattr(examples[number], "place", "")
                raise errors.DataError(
                    f"{place or f'{name}, {split}, example {number + 1}'}: "
                    "expected at least one token for each word, or label. "
                    f"Received: {ragged.lengths[row]} in a row of "
                    f"{rows.lengths[row]} tokens. Remove words of invisible "
                    "characters, or correct the kind's `build_rows`."
                )
        return rows

    def describe(self) -> list[str]:
        """Builds all rows of a training; returns lines that describe them.

        Errors in any line of any file are raised here, before the first step.
        """
        lines = []
        for name, task in self.tasks.items():
            splits = "train", *task.dev_splits, *task.test_splits
            examples = {split: self.examples(name, split) for split in splits}
            rows = {split: self.rows(name, split) for split in splits}
            lines += task.describe(
                examples, rows, self._tokenizer.vocabulary, self._num_positions
            )
        return lines

    def digests(self, *first: str) -> dict[str, dict[str, str]]:
        """Computes digests of the `first` and dev splits of all tasks."""
        return {
            name: {
                split: base.digest(self.examples(name, split))
                for split in (*first, *task.dev_splits)
            }
            for name, task in self.tasks.items()
        }

    def labelled_test_splits(self) -> dict[str, list[str]]:
        """Maps names of tasks to their test splits that have labels."""
        splits: dict[str, list[str]] = {}
        for name, task in self.tasks.items():
            for split in task.test_splits:
                if task.has_labels(self.examples(name, split)):
                    splits.setdefault(name, []).append(split)
        return splits

    @functools.cached_property
    def training_rows(self) -> Mapping[str, rows_lib.EncodedRows]:
        """Maps each task to its training rows; without any, `DataError`."""
        prepared = {name: self.rows(name, "train") for name in self.tasks}
        for name, rows in prepared.items():
            if not rows.num_rows:
                raise errors.DataError(
                    f"The task {name} must have training rows. Received: none. "
                    "Give a training file with examples."
                )
        return prepared

    @property
    def share_cut(self) -> float:
        """The share of training rows that are cut off."""
        parts = self.training_rows.values()
        cuts = [rows.num_truncated for rows in parts]
        num_cut = sum(np.count_nonzero(c) for c in cuts if c is not None)
        return num_cut / sum(rows.num_rows for rows in parts)

    @property
    def num_steps(self) -> int:
        """Number of updates of a trial."""
        training = self.settings.training
        num_rows = sum(rows.num_groups for rows in self.training_rows.values())
        default = max(task.num_train_epochs for task in self.tasks.values())
        num_epochs = training.num_train_epochs or default
        return num_steps(num_rows, training.train_batch_size, num_epochs)

    @functools.cached_property
    def training_checksum(self) -> str:
        """SHA-256 of the training rows, which a resumed trial compares."""
        digest = hashlib.sha256()
        for rows in self.training_rows.values():
            arrays = [rows.segment_starts]
            for ragged in (rows.ids, *rows.ragged.values()):
                arrays += [ragged.values, ragged.splits]
            for array in (*arrays, *rows.columns.values()):
                digest.update(array.tobytes())
        return digest.hexdigest()


def num_steps(num_rows: int, batch_size: int, num_epochs: float) -> int:
    """Counts updates as the original does: epochs have only whole batches."""
    if num_rows < batch_size:
        return max(1, math.ceil(num_rows * num_epochs / batch_size))
    return max(1, int(num_rows // batch_size * num_epochs))


class BatchOrder(NamedTuple):
    """The rows of T batches of B rows."""

    rows: np.ndarray  # `[T, B]` int32, indices of rows
    lengths: np.ndarray  # `[T]` int32, number of tokens after padding


def order_for_training(
    row_lengths: np.ndarray,
    batch_size: int,
    num_batches: int,
    seed: int,
    group_by_length: bool = True,
) -> BatchOrder:
    """Shuffles rows into batches; each row occurs once in an epoch."""
    generator = np.random.default_rng(seed)
    count, num_rows = num_batches * batch_size, len(row_lengths)
    num_epochs = -(-count // num_rows)
    epochs = [generator.permutation(num_rows) for _ in range(num_epochs)]
    rows = np.concatenate(epochs)[:count].astype(np.int32)
    rows = rows.reshape(num_batches, batch_size)
    for start in range(0, num_batches if group_by_length else 0, _WINDOW):
        window = rows[start : start + _WINDOW]
        flat = window.ravel()
        order = np.argsort(row_lengths[flat], kind="stable")
        batches = flat[order].reshape(window.shape)
        window[:] = batches[generator.permutation(len(batches))]
    return _with_lengths(rows, row_lengths)


def order_for_prediction(
    row_lengths: np.ndarray, batch_size: int
) -> BatchOrder:
    """Sorts rows by length; repeats the last row to fill the last batch."""
    rows = np.argsort(row_lengths, kind="stable").astype(np.int32)
    missing = -len(rows) % batch_size
    rows = np.concatenate([rows, np.repeat(rows[-1:], missing)])
    return _with_lengths(rows.reshape(-1, batch_size), row_lengths)


def _with_lengths(rows: np.ndarray, row_lengths: np.ndarray) -> BatchOrder:
    padded = -(-row_lengths[rows].max(1) // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
    # The encoder may have no more positions than the longest row.
    padded = np.minimum(padded, row_lengths.max())
    return BatchOrder(rows, padded.astype(np.int32))


class RowTable:
    """The rows of one or several tasks as tensors.

    The rows of the tasks are concatenated, and `task_id` is the index of a
    row's task. The columns of a task's head are named `<task>/<column>`; rows
    of other tasks have zeros or empty lists there.

    If `EncodedRows.group_size` is above 1, which needs a single task, then
    indices, columns and `task_id` refer to groups. So batches, micro-batches
    and replicas get whole groups. Only tokens are by row.
    """

    def __init__(
        self,
        rows: Mapping[str, rows_lib.EncodedRows],
        columns: Mapping[str, Mapping[str, task_heads.Column]],
    ) -> None:
        parts = list(rows.values())
        ends = np.cumsum([0, *(part.num_groups for part in parts)])
        self.group_size = max(part.group_size for part in parts)
        lengths = np.concatenate([part.lengths for part in parts])
        # The length of the longest row of each group
        self.row_lengths = lengths.reshape(-1, self.group_size).max(1)
        ids = np.concatenate([part.ids.values for part in parts])
        starts = np.concatenate([part.segment_starts for part in parts])
        task_ids = np.repeat(np.arange(len(parts)), np.diff(ends))
        self._columns: dict[str, tf.Tensor | tf.RaggedTensor] = {}
        with tf.device("/CPU:0"):
            self._ids = tf.RaggedTensor.from_row_lengths(ids, lengths)
            self._segment_starts = tf.constant(starts, tf.int32)
            self._task_ids = tf.constant(task_ids, tf.int32)
            for number, (task, task_rows) in enumerate(rows.items()):
                padding = ends[number], ends[-1] - ends[number + 1]
                for name, column in columns[task].items():
                    self._columns[f"{task}/{name}"] = _pad_column(
                        f"{task}/{name}", column, task_rows, padding
                    )

    def batch(self, rows: tf.Tensor, length: tf.Tensor | int) -> Tensors:
        """Returns the batch of the rows with indices `[B]`.

        Tokens are `[B * group_size, S]`, padded to S = `length`.
        """
        members = rows[:, tf.newaxis] * self.group_size
        members = tf.reshape(members + tf.range(self.group_size), [-1])
        ids = tf.gather(self._ids, members)
        starts = tf.gather(self._segment_starts, members)
        tokens = rows_lib.pad(ids, starts, length)
        batch = dict(zip(keras_models.FEATURES, tokens, strict=True))
        batch["task_id"] = tf.gather(self._task_ids, rows)
        # Lists are padded to S, too: one compilation for each S.
        shape = tf.cast(tf.stack([-1, length]), tf.int64)
        for name, column in self._columns.items():
            value = tf.gather(column, rows)
            is_ragged = isinstance(value, tf.RaggedTensor)
            batch[name] = value.to_tensor(shape=shape) if is_ragged else value
        return batch


def _pad_column(
    full_name: str,
    column: task_heads.Column,
    rows: rows_lib.EncodedRows,
    padding: tuple[int, int],
) -> tf.Tensor | tf.RaggedTensor:
    name = full_name.split("/")[1]
    if not column.is_ragged:
        values = rows.columns[name].astype(column.dtype)
        paddings = [padding] + [(0, 0)] * (values.ndim - 1)
        return tf.constant(np.pad(values, paddings))
    ragged = rows.ragged[name]
    if (ragged.lengths > rows.lengths).any():
        raise ValueError(
            f"The lists of column {full_name} must not be longer than their "
            "rows, to whose length they are padded. Received: "
            f"{ragged.lengths.max()} numbers. Split them into several columns."
        )
    return tf.RaggedTensor.from_row_lengths(
        ragged.values.astype(column.dtype), np.pad(ragged.lengths, padding)
    )


@tf.autograph.experimental.do_not_convert
def build_training_dataset(
    table: RowTable,
    order: BatchOrder,
    first_step: int,
    context: tf.distribute.InputContext | None = None,
    static_length: int = 0,
) -> tf.data.Dataset:
    """Builds a dataset of batches that begins at `first_step`.

    An element is the share of a local replica in a global batch. Batches are
    padded to `static_length`, or if it is 0 to `BatchOrder.lengths`.
    """
    context = context or tf.distribute.InputContext()
    num_replicas = context.num_replicas_in_sync
    num_batches, batch_size = order.rows.shape
    share, remainder = divmod(batch_size, num_replicas)
    if remainder:
        raise ValueError(
            "`training.train_batch_size` must be a multiple of the replicas. "
            f"Received: {batch_size} and {num_replicas}. Change one."
        )
    local = num_replicas // context.num_input_pipelines
    offset = context.input_pipeline_id * local
    with tf.device("/CPU:0"):
        rows, lengths = tf.constant(order.rows), tf.constant(order.lengths)

    def build(index: tf.Tensor) -> Tensors:
        step, start = index // local, (offset + index % local) * share
        chosen = tf.gather(rows, step)[start : start + share]
        batch = table.batch(chosen, static_length or tf.gather(lengths, step))
        sizes = dict.fromkeys(keras_models.FEATURES, share * table.group_size)
        return {
            name: tf.ensure_shape(
                tensor, [sizes.get(name, share), *tensor.shape[1:]]
            )
            for name, tensor in batch.items()
        }

    indices = tf.data.Dataset.range(first_step * local, num_batches * local)
    elements = indices.map(
        build, num_parallel_calls=pipeline.PARALLEL_CALLS, deterministic=True
    )
    return pipeline.with_options(
        elements.prefetch(pipeline.PREFETCHED_ELEMENTS)
    )
