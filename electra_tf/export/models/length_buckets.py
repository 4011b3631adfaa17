"""Rows of a batch in buckets of similar length, in the graph, on the CPU.

A batch is padded to its longest row, and most of what a model would compute
for it is padding. Here the rows are sorted by length and computed in buckets
of about `TOKENS` tokens, each trimmed to its own longest row. Buckets run side
by side, each on one thread: products of this size stay in a processor's cache.
Answers come back in the order of the rows. docs/performance.md has timings.
"""

from collections.abc import Callable
from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

TOKENS = 256
"""Padded tokens of a bucket; a longer row is a bucket by itself."""

Tensors = dict[str, tf.Tensor]


class OutputSpec(NamedTuple):
    """What is known of an output before it is computed."""

    dtype: tf.DType  # of the tensor
    # `[None, ...]`, None for what is not known.
    shape: tuple[int | None, ...] = (None,)
    # Whether the second axis is that of the row's tokens.
    has_tokens: bool = False
    padding: float = 0.0  # for tokens that a bucket does not have


class Rows(NamedTuple):
    """Rows of a batch that are computed together; by default all of them."""

    chosen: tf.Tensor | None = None  # `[R]` int32, numbers of the rows, or None
    length: tf.Tensor | None = None  # columns that are enough for them, or None

    def trim(self, tensor: tf.Tensor) -> tf.Tensor:
        """These rows of `[B, S]`, trimmed to `length` columns."""
        if self.length is None:
            return tensor
        return self.pick(tensor[:, : self.length])

    def pick(self, tensor: tf.Tensor) -> tf.Tensor:
        """These rows of `[B, ...]`."""
        return tensor if self.chosen is None else tf.gather(tensor, self.chosen)


class Buckets(NamedTuple):
    """G buckets of B rows, int32."""

    order: tf.Tensor  # `[B]`, the rows from the longest to the shortest
    begins: tf.Tensor  # `[G]`, where in that order each bucket begins
    ends: tf.Tensor  # `[G]`, where it ends
    longest: tf.Tensor  # `[G]`, columns that its rows need


def count_columns(input_mask: tf.Tensor) -> tf.Tensor:
    """Columns up to each row's last token, at least 1, `[B]` int32."""
    places = tf.range(1, tf.shape(input_mask)[1] + 1)
    used = tf.where(input_mask > 0, places, 1)
    return tf.reduce_max(tf.pad(used, [[0, 0], [0, 1]], constant_values=1), 1)


def split(lengths: tf.Tensor, max_tokens: int = TOKENS) -> Buckets:
    """Splits rows that need `lengths` columns, `[B]` int32, into buckets.

    Without rows there is one bucket, which is empty.
    """
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    count = tf.size(order)
    # Without any row the one bucket has a column all the same.
    ranked = tf.pad(tf.gather(lengths, order), [[0, 1]], constant_values=1)
    # Where the next bucket begins if one begins at this place.
    nexts = tf.range(count + 1) + tf.maximum(max_tokens // ranked, 1)
    nexts = tf.minimum(nexts, count)
    _, borders = tf.while_loop(
        lambda begin, _: begin < count,
        lambda begin, borders: (
            nexts[begin],
            tf.concat([borders, nexts[begin : begin + 1]], 0),
        ),
        (nexts[0], tf.stack([0, nexts[0]])),
        (tf.TensorShape([]), tf.TensorShape([None])),
    )
    begins = borders[:-1]
    return Buckets(order, begins, borders[1:], tf.gather(ranked, begins))


def compute(
    compute_rows: Callable[[Rows], Tensors],
    lengths: tf.Tensor,
    num_columns: tf.Tensor,
    outputs: Mapping[str, OutputSpec],
    max_tokens: int = TOKENS,
) -> Tensors:
    """Computes all rows in buckets; part of a graph, not for eager calls.

    Args:
        compute_rows: takes some rows, returns name to `[R, ...]`.
        lengths: `[B]` int32, columns that each row needs, at least 1.
        num_columns: of the whole batch, S, to which outputs are padded.
        outputs: of `compute_rows`.
        max_tokens: see `TOKENS`.

    Returns:
        Name to `[B, ...]`.
    """
    buckets = split(lengths, max_tokens)
    sizes = buckets.ends - buckets.begins
    most_rows = tf.reduce_max(sizes)
    most_cells = tf.reduce_max(sizes * buckets.longest)

    def compute_bucket(
        begin: tf.Tensor, end: tf.Tensor, length: tf.Tensor
    ) -> list[tf.Tensor]:
        computed = compute_rows(Rows(buckets.order[begin:end], length))
        return [
            _extend(_merge(computed[name]), most_cells)
            if output.has_tokens
            else _extend(computed[name], most_rows)
            for name, output in outputs.items()
        ]

    scalar = tf.TensorSpec([], tf.int32)
    function = tf.function(
        compute_bucket, autograph=False
    ).get_concrete_function(scalar, scalar, scalar)
    # The one operation that runs a function on several elements side by side
    # and says how many threads each may take.
    computed = tf.raw_ops.MapDefun(
        arguments=[buckets.begins, buckets.ends, buckets.longest],
        captured_inputs=function.captured_inputs,
        output_types=[output.dtype for output in outputs.values()],
        output_shapes=[
            [None, *output.shape[2 if output.has_tokens else 1 :]]
            for output in outputs.values()
        ],
        f=function,
        max_intra_op_parallelism=1,
    )
    index = _index(buckets, most_rows, most_cells, num_columns)
    return {
        name: _put_back(tensor, output, index)
        for (name, output), tensor in zip(
            outputs.items(), computed, strict=True
        )
    }


class _Index(NamedTuple):
    """Where the rows' answers are among those of the buckets."""

    rows: tf.Tensor  # `[B]` int32, in outputs that have one answer for a row
    cells: tf.Tensor  # `[B, S]` int32, in outputs that have one for a token
    is_computed: tf.Tensor  # `[B, S]`, whether the bucket has that token


def _index(
    buckets: Buckets,
    most_rows: tf.Tensor,
    most_cells: tf.Tensor,
    num_columns: tf.Tensor,
) -> _Index:
    ranks = tf.math.invert_permutation(buckets.order)
    owners = tf.searchsorted(buckets.ends, ranks, side="right")
    places = ranks - tf.gather(buckets.begins, owners)
    widths = tf.gather(buckets.longest, owners)
    columns = tf.range(num_columns)
    is_computed = columns < widths[:, tf.newaxis]
    firsts = owners * most_cells + places * widths
    cells = tf.where(is_computed, firsts[:, tf.newaxis] + columns, 0)
    return _Index(owners * most_rows + places, cells, is_computed)


def _put_back(
    tensor: tf.Tensor, output: OutputSpec, index: _Index
) -> tf.Tensor:
    """`[B, ...]` of an output that all buckets have computed."""
    merged = _merge(tensor)
    if not output.has_tokens:
        return tf.gather(merged, index.rows)
    answers = tf.gather(merged, index.cells)
    is_computed = tf.reshape(
        index.is_computed,
        tf.concat([tf.shape(index.cells), [1] * (len(output.shape) - 2)], 0),
    )
    padding = tf.constant(output.padding, output.dtype)
    return tf.where(is_computed, answers, padding)


def _merge(tensor: tf.Tensor) -> tf.Tensor:
    """`[M, N, ...]` as `[M * N, ...]`."""
    shape = tf.shape(tensor)
    return tf.reshape(tensor, tf.concat([shape[:1] * shape[1:2], shape[2:]], 0))


def _extend(tensor: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """`[N, ...]` as `[size, ...]`, with zeros (or False) at the end."""
    missing = [[0, size - tf.shape(tensor)[0]]]
    return tf.pad(tensor, missing + [[0, 0]] * (tensor.shape.rank - 1))
