"""Lookups of rows whose gradients are deterministic on GPUs.

On a GPU the order of the sums in the gradient of `tf.gather` varies from run to
run. With deterministic operations XLA sorts every number first: 25 million for
32,768 tokens and 768 columns, 8 % of the bytes that a step of Base moves.
"""

from typing import Any

import tensorflow as tf

from electra_tf import fusion

_GROUP = 128  # rows that one product sums


def look_up(table: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Rows of a table `[V, E]`, for int32 ids of any shape."""
    is_static = ids.shape.is_fully_defined()
    if not (is_static and fusion.compiles(fusion.Scope.STEP)):
        return tf.gather(table, ids)

    @tf.custom_gradient
    def compute(table: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            rows = tf.reshape(upstream, [-1, table.shape[1]])
            sums = sum_rows(rows, tf.reshape(ids, [-1]), table.shape[0])
            return tf.cast(sums, table.dtype)

        return tf.gather(table, ids), gradient

    return compute(table)


def look_up_in_rows(sequence: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """The entries at `[B, P]` positions of `[B, S, ...]`: `[B, P, ...]`."""
    if sequence.shape.rank < 3 or not fusion.compiles(fusion.Scope.STEP):
        return tf.gather(sequence, positions, batch_dims=1)
    batch, length, width = sequence.shape
    starts = length * tf.range(batch)[:, tf.newaxis]
    table = tf.reshape(sequence, [batch * length, width])
    return look_up(table, starts + positions)


def sum_rows(rows: tf.Tensor, ids: tf.Tensor, num_ids: int) -> tf.Tensor:
    """Sums the `[N, E]` rows of each id: `[num_ids, E]` float32.

    Rows are put in the order of their `[N]` ids and cut into groups; a product
    sums those of each id in a group.
    """
    spare = -rows.shape[0] % _GROUP
    ids = tf.pad(ids, [[0, spare]], constant_values=num_ids)
    order = tf.argsort(ids, stable=True)
    ids = tf.gather(ids, order)
    rows = tf.gather(tf.pad(rows, [[0, spare], [0, 0]]), order)
    groups = tf.reshape(ids, [-1, _GROUP])
    is_new = tf.cast(groups[:, 1:] != groups[:, :-1], tf.int32)
    # Of ids in their group, from 0.
    places = tf.pad(tf.cumsum(is_new, axis=1), [[0, 0], [1, 0]])
    rows = tf.reshape(rows, [*groups.shape, rows.shape[1]])
    sums = tf.matmul(
        tf.one_hot(places, _GROUP), tf.cast(rows, tf.float32), transpose_a=True
    )
    # Where each id begins; a minimum of integers depends on no order.
    numbers = tf.range(ids.shape[0])
    first = tf.math.unsorted_segment_min(numbers, ids, num_ids + 1)
    # The last id of a group may go on as the first one of those behind it.
    group = tf.range(groups.shape[0])
    begun = tf.gather(first, groups[:, 0]) // _GROUP
    shares = tf.one_hot(tf.where(begun < group, begun, -1), group.shape[0])
    rest = tf.matmul(shares, sums[:, 0], transpose_a=True)
    sums += tf.one_hot(places[:, -1:], _GROUP, axis=1) * rest[:, tf.newaxis]
    # The sum of an id stands in the group in which it begins.
    is_used = first[:num_ids] < ids.shape[0]
    first = tf.where(is_used, first[:num_ids], 0)
    place = tf.gather(tf.reshape(places, [-1]), first)
    sums = tf.reshape(sums, [-1, rows.shape[2]])
    sums = tf.gather(sums, first // _GROUP * _GROUP + place)
    return tf.where(is_used[:, tf.newaxis], sums, 0.0)
