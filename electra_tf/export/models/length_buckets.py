"""Computes the rows of a batch in buckets of similar length, on the CPU.

A batch is padded to its longest row, so most of a model's work would be for
padding. Buckets of about `TOKENS` tokens run in parallel, each on one thread,
whose cache holds matrix products of this size (docs/performance.md).
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

TOKENS = 256
"""A bucket ends with the row that reaches a multiple of this many tokens."""

Tensors = dict[str, tf.Tensor]


class ChosenRows(NamedTuple):
    """Rows of a batch that are computed together; by default all of them."""

    chosen: tf.Tensor | None = None  # `[R]` int32, row numbers; None: all
    length: tf.Tensor | None = None  # columns of the longest row; None: all

    def trim(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns these rows of `[B, S]`, cut to `length` columns."""
        if self.length is None:
            return tensor
        return self.pick(tensor[:, : self.length])

    def pick(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns these rows of `[B, ...]`."""
        return tensor if self.chosen is None else tf.gather(tensor, self.chosen)


def count_columns(input_mask: tf.Tensor) -> tf.Tensor:
    """Counts columns up to each row's last token, at least 1: `[B]` int32."""
    used = tf.where(input_mask > 0, tf.range(1, tf.shape(input_mask)[1] + 1), 1)
    return tf.reduce_max(tf.pad(used, [[0, 0], [0, 1]], constant_values=1), 1)


def split(lengths: tf.Tensor, num_tokens: int) -> tuple[tf.Tensor, ...]:
    """Splits rows that need `lengths` columns, `[B]` int32, into G buckets.

    Returns four tensors: `[B]`, the rows from the longest to the shortest; and
    `[G]`, the begin and end of each bucket in that order, and the columns of
    its longest row. Without rows there is one empty bucket.
    """
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    ranked = tf.gather(lengths, order)
    # A row's bucket is that of its first token in buckets of equal size.
    numbers = tf.cumsum(ranked, exclusive=True) // num_tokens
    begins = tf.cast(tf.where(numbers[1:] > numbers[:-1])[:, 0] + 1, tf.int32)
    borders = tf.concat([[0], begins, tf.shape(order)], 0)
    begins = borders[:-1]
    # If there are no rows, the empty bucket has one column.
    ranked = tf.pad(ranked, [[0, 1]], constant_values=1)
    return order, begins, borders[1:], tf.gather(ranked, begins)


def compute(
    compute_rows: Callable[[ChosenRows], Tensors],
    lengths: tf.Tensor,
    num_columns: tf.Tensor,
    paddings: Mapping[str, float],
    num_tokens: int = TOKENS,
) -> Tensors:
    """Computes all rows in buckets; part of a graph, not for eager calls.

    Args:
        compute_rows: takes R rows and returns tensors `[R, ...]` by name.
        lengths: `[B]` int32, columns that each row needs, at least 1.
        num_columns: S, the columns of the whole batch and of its outputs.
        paddings: for outputs with a second axis of tokens, the value at
            padding.
        num_tokens: see `TOKENS`.

    Returns:
        The outputs of all rows by name, `[B, ...]` or `[B, S, ...]`.
    """
    order, begins, ends, longest = split(lengths, num_tokens)
    most_rows = tf.reduce_max(ends - begins)
    most_cells = tf.reduce_max((ends - begins) * longest)
    names: list[str] = []

    def compute_bucket(
        begin: tf.Tensor, end: tf.Tensor, length: tf.Tensor
    ) -> list[tf.Tensor]:
        computed = compute_rows(ChosenRows(order[begin:end], length))
        names[:] = computed
        return [
            _extend(_merge(tensor), most_cells)
            if name in paddings
            else _extend(tensor, most_rows)
            for name, tensor in computed.items()
        ]

    scalar = tf.TensorSpec([], tf.int32)
    function = tf.function(
        compute_bucket, autograph=False
    ).get_concrete_function(scalar, scalar, scalar)
    # No other operation runs a function on several elements in parallel and
    # limits the threads of each.
    computed = tf.raw_ops.MapDefun(
        arguments=[begins, ends, longest],
        captured_inputs=function.captured_inputs,
        output_types=[output.dtype for output in function.outputs],
        output_shapes=[[None, *o.shape[1:]] for o in function.outputs],
        f=function,
        max_intra_op_parallelism=1,
    )
    # Positions of rows (`owners`, `places`, `[B]`) and of tokens (`cells`,
    # `[B, S]`) in the buckets' outputs.
    ranks = tf.math.invert_permutation(order)
    owners = tf.searchsorted(ends, ranks, side="right")
    places = ranks - tf.gather(begins, owners)
    widths = tf.gather(longest, owners)
    columns = tf.range(num_columns)
    is_computed = columns < widths[:, tf.newaxis]
    firsts = owners * most_cells + places * widths
    cells = tf.where(is_computed, firsts[:, tf.newaxis] + columns, 0)
    answers = {}
    for name, tensor in zip(names, computed, strict=True):
        values = _merge(tensor)
        if name not in paddings:
            answers[name] = tf.gather(values, owners * most_rows + places)
            continue
        shape = tf.concat([tf.shape(cells), [1] * (values.shape.rank - 1)], 0)
        padding = tf.constant(paddings[name], values.dtype)
        answers[name] = tf.where(
            tf.reshape(is_computed, shape), tf.gather(values, cells), padding
        )
    return answers


def _merge(tensor: tf.Tensor) -> tf.Tensor:
    shape = tf.shape(tensor)
    return tf.reshape(tensor, tf.concat([shape[:1] * shape[1:2], shape[2:]], 0))


def _extend(tensor: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Pads `[N, ...]` to `[size, ...]` with zeros (or False)."""
    missing = [[0, size - tf.shape(tensor)[0]]]
    return tf.pad(tensor, missing + [[0, 0]] * (tensor.shape.rank - 1))
