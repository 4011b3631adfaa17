"""Tests of the datasets that feed training and evaluation."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inputs import pipeline
from electra_tf.inputs import streams

# 103 examples of uneven shards, one of them empty.
SIZES = (20, 31, 0, 5, 47)


def _order(split, num_streams=4, batch=8, seed=3, shuffle_block=6):
    return streams.StreamOrder(
        split.shard_sizes, num_streams, batch, seed, shuffle_block
    )


def _global_batches(build_fn, num_batches, num_replicas=1, num_workers=1):
    """Global batches `[C, B/C]` of numbers, put together from all workers."""
    local = num_replicas // num_workers
    parts = []
    for worker in range(num_workers):
        context = tf.distribute.InputContext(num_workers, worker, num_replicas)
        elements = itertools.islice(build_fn(context), num_batches * local)
        numbers, stream_ids = [], []
        for element in elements:
            numbers.append(element["input_ids"].numpy()[..., 1] - 1000)
            stream_ids.append(element["stream_ids"].numpy())
        shape = (num_batches, -1)
        rows = numbers[0].shape[1]
        parts.append(
            (np.reshape(stream_ids, shape), np.reshape(numbers, (*shape, rows)))
        )
    stream_ids, numbers = (
        np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)
    )
    assert (stream_ids == np.arange(stream_ids.shape[1])).all()
    return numbers


def _training_batches(split, order, num_batches, position=None, *replicas):
    build = functools.partial(
        pipeline.build_training_dataset, split, order, position
    )
    return _global_batches(build, num_batches, *replicas)


@pytest.mark.parametrize(
    ("num_streams", "shuffle_block"), [(1, 6), (4, 1), (4, 13), (4, 1000)]
)
def test_an_epoch_holds_every_example_once_except_the_rest(
    make_split, num_streams, shuffle_block
):
    split = make_split(SIZES)
    order = _order(split, num_streams, shuffle_block=shuffle_block)
    assert order.batches_per_epoch == 12
    batches = _training_batches(split, order, 36)
    for epoch in np.split(batches, 3):
        assert len(set(epoch.ravel().tolist())) == 12 * 8


@pytest.mark.parametrize(
    ("shuffle_block", "places"),
    [(4, {0: (2, 1), 12: (1, 1), 25: (4, 4)}), (1000, {3: (4, 2)})],
)
def test_a_run_goes_on_from_any_position_with_any_replicas_and_workers(
    make_split, shuffle_block, places
):
    split = make_split(SIZES)
    order = _order(split, shuffle_block=shuffle_block)
    uncut = _training_batches(split, order, 28)
    for consumed, replicas in places.items():
        position = streams.Position().advance(consumed, order.batches_per_epoch)
        resumed = _training_batches(
            split, order, 28 - consumed, position, *replicas
        )
        np.testing.assert_array_equal(resumed, uncut[consumed:])


@pytest.mark.parametrize("replicas", [(1, 1), (4, 1), (2, 2)])
def test_evaluation_reads_every_example_once_in_order(make_split, replicas):
    build = functools.partial(
        pipeline.build_evaluation_dataset, make_split(SIZES), 4, 8
    )
    numbers = _global_batches(build, 13, *replicas).ravel()
    np.testing.assert_array_equal(numbers[:103], np.arange(103))
    np.testing.assert_array_equal(numbers[103:], [-1000])


def test_evaluation_fills_up_with_rows_that_weigh_nothing(make_split):
    split = make_split((3,))
    context = tf.distribute.InputContext(1, 0, 2)
    dataset = pipeline.build_evaluation_dataset(split, 4, 8, context)
    assert dataset.element_spec["input_ids"].shape == (2, 2, 8)
    elements = list(dataset)
    assert len(elements) == 2
    mask = np.concatenate([e["input_mask"].numpy() for e in elements])
    np.testing.assert_array_equal(
        mask.sum(-1), [[5, 5], [5, 0], [0, 0], [0, 0]]
    )
    for name in ("input_ids", "segment_ids"):
        assert not elements[1][name].numpy().any()
