"""Rows of tables, with a gradient that does not depend on an order.

TensorFlow adds up the gradient of a lookup in whatever order a GPU's threads
come. Where its operations must be deterministic, XLA sorts every number first,
25 million for a batch of 32,768 tokens and 768 columns (docs/performance.md).
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
    # The last id of a group may go on as the first one of those behind it.
    numbers = tf.range(groups.shape[0])
    begun = tf.searchsorted(ids, groups[:, 0]) // _GROUP
    shares = tf.one_hot(tf.where(begun < numbers, begun, -1), numbers.shape[0])
    rest = tf.matmul(shares, sums[:, 0], transpose_a=True)
    sums += tf.one_hot(places[:, -1:], _GROUP, axis=1) * rest[:, tf.newaxis]
    # Each id's sum is that of the group in which it begins.
    wanted = tf.range(num_ids)
    first = tf.minimum(tf.searchsorted(ids, wanted), ids.shape[0] - 1)
    index = first // _GROUP * _GROUP + tf.gather(
        tf.reshape(places, [-1]), first
    )
    found = tf.gather(tf.reshape(sums, [-1, rows.shape[2]]), index)
    is_found = tf.gather(ids, first) == wanted
    return tf.where(is_found[:, tf.newaxis], found, 0.0)
