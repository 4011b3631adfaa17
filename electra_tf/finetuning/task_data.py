"""Data of fine-tuning: examples, their rows, and batches of rows.

The order of the rows is a pure function of the seed. With `group_by_length` the
rows of a batch have nearly one length: little of a step goes into padding.
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

# Few distinct lengths, so that XLA compiles few steps, and aligned products.
_LENGTH_MULTIPLE = 8
# Successive batches whose rows are sorted by length, cut, and shuffled.
_WINDOW = 64

Tensors = dict[str, tf.Tensor]


class PreparedTasks:
    """Tasks with their examples and rows, which all trials of a process share.

    The encoder takes at most `num_positions` tokens of a row. `labels` are
    those of a trained model by task, instead of the files' own; so are
    `conventions`, see `Task.conventions`.
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
        wanted = settings.task.max_seq_length
        schema.require(
            wanted <= num_positions,
            "`task.max_seq_length` must not exceed the encoder's "
            f"{num_positions} positions. Received: {wanted}. Lower it, or set "
            "it to 0 to take as many as the task wants and the encoder has.",
        )
        tasks = catalog.build_tasks(settings, labels or {})
        self.tasks = {task.name: task for task in tasks}
        for name, known in (conventions or {}).items():
            if name in self.tasks:
                self.tasks[name].use_conventions(known)
        self.lengths = {
            task.name: wanted or min(task.max_seq_length, num_positions)
            for task in tasks
        }
        # Reading and tokenizing are done once for each task and split.
        self.examples = functools.cache(
            lambda n, s: self.tasks[n].read_split(s)
        )
        self.rows = functools.cache(self._build_rows)

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Task name to labels; empty for tasks that have none."""
        return {name: tuple(task.labels) for name, task in self.tasks.items()}

    @property
    def conventions(self) -> dict[str, dict[str, Any]]:
        """Task name to `Task.conventions`, of the tasks that have some."""
        known = {n: task.conventions for n, task in self.tasks.items()}
        return {n: dataclasses.asdict(own) for n, own in known.items() if own}

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
                    "characters, or mend what the kind's `build_rows` makes."
                )
        return rows

    def describe(self) -> list[str]:
        """Makes all rows of a training, and says what was understood.

        Errors are of any line of any split: they come before the first step.
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
        """Digests of the `first` and of the dev splits, by task and split."""
        return {
            name: {
                split: base.digest(self.examples(name, split))
                for split in (*first, *task.dev_splits)
            }
            for name, task in self.tasks.items()
        }

    def labelled_test_splits(self) -> dict[str, list[str]]:
        """Task name to its test splits that can be scored, if it has any."""
        splits: dict[str, list[str]] = {}
        for name, task in self.tasks.items():
            for split in task.test_splits:
                if task.has_labels(self.examples(name, split)):
                    splits.setdefault(name, []).append(split)
        return splits

    @functools.cached_property
    def training_rows(self) -> Mapping[str, rows_lib.EncodedRows]:
        """Task name to training rows; raises `DataError` if a task has none."""
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
        """The share of the training rows that lost their end."""
        rows = self.training_rows.values()
        cuts = [own.num_truncated for own in rows]
        num_cut = sum(np.count_nonzero(c) for c in cuts if c is not None)
        return num_cut / sum(own.num_rows for own in rows)

    @property
    def num_steps(self) -> int:
        """Updates of a trial."""
        training = self.settings.training
        num_rows = sum(rows.num_groups for rows in self.training_rows.values())
        own = max(task.num_train_epochs for task in self.tasks.values())
        num_epochs = training.num_train_epochs or own
        return num_steps(num_rows, training.train_batch_size, num_epochs)

    @functools.cached_property
    def training_checksum(self) -> str:
        """A checksum of the training rows, by which a resume notices others."""
        digest = hashlib.sha256()
        for rows in self.training_rows.values():
            arrays = [rows.segment_starts]
            for ragged in (rows.ids, *rows.ragged.values()):
                arrays += [ragged.values, ragged.splits]
            for array in (*arrays, *rows.columns.values()):
                digest.update(array.tobytes())
        return digest.hexdigest()


def num_steps(num_rows: int, batch_size: int, num_epochs: float) -> int:
    """Counts updates as the original does: an epoch has whole batches alone."""
    if num_rows < batch_size:
        return max(1, math.ceil(num_rows * num_epochs / batch_size))
    return max(1, int(num_rows // batch_size * num_epochs))


class BatchOrder(NamedTuple):
    """The rows of every batch."""

    rows: np.ndarray  # [T, B] int32, indices of rows
    lengths: np.ndarray  # [T] int32, tokens that a batch is padded to


def order_for_training(
    row_lengths: np.ndarray,
    batch_size: int,
    num_batches: int,
    seed: int,
    group_by_length: bool = True,
) -> BatchOrder:
    """Orders rows for T batches of B, `[T, B]`: each comes once an epoch."""
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
    """Orders the rows by length; repeats the last to fill the last batch."""
    rows = np.argsort(row_lengths, kind="stable").astype(np.int32)
    missing = -len(rows) % batch_size
    rows = np.concatenate([rows, np.repeat(rows[-1:], missing)])
    return _with_lengths(rows.reshape(-1, batch_size), row_lengths)


def _with_lengths(rows: np.ndarray, row_lengths: np.ndarray) -> BatchOrder:
    padded = -(-row_lengths[rows].max(1) // _LENGTH_MULTIPLE) * _LENGTH_MULTIPLE
    # The encoder may have no position beyond the longest row of all.
    padded = np.minimum(padded, row_lengths.max())
    return BatchOrder(rows, padded.astype(np.int32))


class RowTable:
    """The rows of one or several tasks, in TensorFlow's memory.

    Rows of several tasks follow each other; `task_id` says which one a row is
    of. The columns that a task's head declares are called `<task>/<column>`,
    and are zeros, or empty, in rows of other tasks.

    Where rows belong together (`Rows.group_size`, of one task alone), orders,
    batches, columns and `task_id` are of groups. Only tokens have a line for
    each row of a group, so no batch, micro-batch or replica splits one.
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
        # Of the longest row of each group.
        self.row_lengths = lengths.reshape(-1, self.group_size).max(1)
        ids = np.concatenate([part.ids.values for part in parts])
        starts = np.concatenate([part.segment_starts for part in parts])
        task_ids = np.repeat(np.arange(len(parts)), np.diff(ends))
        self._columns: dict[str, tf.Tensor | tf.RaggedTensor] = {}
        with tf.device("/CPU:0"):
            self._ids = tf.RaggedTensor.from_row_lengths(ids, lengths)
            self._segment_starts = tf.constant(starts, tf.int32)
            self._task_ids = tf.constant(task_ids, tf.int32)
            for number, (task, own) in enumerate(rows.items()):
                others = ends[number], ends[-1] - ends[number + 1]
                for name, column in columns[task].items():
                    self._columns[f"{task}/{name}"] = _spread(
                        f"{task}/{name}", column, own, others
                    )

    def batch(self, rows: tf.Tensor, length: tf.Tensor | int) -> Tensors:
        """Pads the rows of indices `[B]` to `length`, S; none may be longer.

        Tokens are `[B, S]`, or `[B * group_size, S]`.
        """
        members = rows[:, tf.newaxis] * self.group_size
        members = tf.reshape(members + tf.range(self.group_size), [-1])
        ids = tf.gather(self._ids, members)
        starts = tf.gather(self._segment_starts, members)
        tokens = rows_lib.pad(ids, starts, length)
        batch = dict(zip(keras_models.FEATURES, tokens, strict=True))
        batch["task_id"] = tf.gather(self._task_ids, rows)
        # Lists have the length of the row too: one shape to compile for each.
        shape = tf.cast(tf.stack([-1, length]), tf.int64)
        for name, column in self._columns.items():
            own = tf.gather(column, rows)
            is_ragged = isinstance(own, tf.RaggedTensor)
            batch[name] = own.to_tensor(shape=shape) if is_ragged else own
        return batch


def _spread(
    full_name: str,
    column: task_heads.Column,
    own: rows_lib.EncodedRows,
    others: tuple[int, int],
) -> tf.Tensor | tf.RaggedTensor:
    """Adds zeros, or empty lists, for the rows of tasks before and after."""
    name = full_name.split("/")[1]
    if not column.is_ragged:
        values = own.columns[name].astype(column.dtype)
        padding = [others] + [(0, 0)] * (values.ndim - 1)
        return tf.constant(np.pad(values, padding))
    ragged = own.ragged[name]
    if (ragged.lengths > own.lengths).any():
        raise ValueError(
            f"The lists of column {full_name} must not be longer than their "
            "rows, to whose length they are padded. Received: "
            f"{ragged.lengths.max()} numbers. Make several columns of them."
        )
    return tf.RaggedTensor.from_row_lengths(
        ragged.values.astype(column.dtype), np.pad(ragged.lengths, others)
    )


def build_training_dataset(
    table: RowTable,
    order: BatchOrder,
    first_step: int,
    context: tf.distribute.InputContext | None = None,
    static_length: int = 0,
) -> tf.data.Dataset:
    """Yields batches from a step on, one element per local replica and step.

    Elements are a replica's share of the rows of a global batch.
    `static_length` pads all batches to it; 0 pads each to its own.
    """
    context = context or tf.distribute.InputContext()
    num_replicas = context.num_replicas_in_sync
    num_batches, batch_size = order.rows.shape
    share, rest = divmod(batch_size, num_replicas)
    if rest:
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
        own = tf.gather(rows, step)[start : start + share]
        batch = table.batch(own, static_length or tf.gather(lengths, step))
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
