"""Tests of positions and of the order of examples."""

import numpy as np
import tensorflow as tf

from electra_tf.inputs import streams

SIZES = (5, 0, 9, 3, 10)


def _order(**changes):
    settings = {
        "shard_sizes": SIZES, "num_streams": 2, "global_batch_size": 4,
        "seed": 1, "shuffle_block": 4,
    }  # fmt: skip
    return streams.StreamOrder(**(settings | changes))


def _int64(value):
    return tf.constant(value, tf.int64)


def _pieces(order, epoch, stream, first_block=0):
    """The (shard, record) pairs of a stream's range in reading order."""
    pieces = order.stream_pieces(
        _int64(epoch), _int64(stream), _int64(first_block)
    )
    return [
        (shard, record)
        for shard, start, count in zip(*map(np.array, pieces), strict=True)
        for record in range(start, start + count)
    ]


def test_every_epoch_lays_the_shards_out_anew():
    order = _order(num_streams=1, global_batch_size=1)
    layouts = {tuple(_pieces(order, epoch, 0)) for epoch in range(10)}
    assert len(layouts) == 10
    # Also where there is nothing to permute.
    single = _order(shard_sizes=(1000,), num_streams=1, global_batch_size=1)
    openings = {_pieces(single, epoch, 0)[0] for epoch in range(10)}
    assert len(openings) == 10


def _shuffled(order, epoch, stream, block, first_example=0, size=4):
    return order.shuffle(
        tf.range(size),
        _int64(epoch), _int64(stream), _int64(block), _int64(first_example),
    ).numpy().tolist()  # fmt: skip


def test_blocks_are_permuted_each_in_its_own_way():
    order = _order(shard_sizes=(4000,), shuffle_block=50)
    places = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    permutations = [_shuffled(order, *place, size=50) for place in places]
    for permutation in permutations:
        assert sorted(permutation) == list(range(50))
    assert len(set(map(tuple, permutations))) == 4
    again = _order(shard_sizes=(4000,), shuffle_block=50, seed=2)
    assert _shuffled(again, 0, 0, 0, size=50) != permutations[0]


def test_the_order_of_a_seed_is_pinned():
    # A change here changes every run that resumes from an older checkpoint.
    order = _order()
    # Stream 0 reads records 3 to 9 of shard 4, then shards 3 and 0.
    expected = [*((4, record) for record in range(3, 10)),
                *((3, record) for record in range(3)),
                *((0, record) for record in range(3))]  # fmt: skip
    assert _pieces(order, 0, 0) == expected
    blocks = [_shuffled(order, 0, 0, block) for block in range(3)]
    assert blocks == [[0, 2, 1, 3], [3, 2, 0, 1], [3, 0, 1, 2]]
