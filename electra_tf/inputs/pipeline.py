"""Reads shards as batches: orders, parses and assigns rows to replicas.

Training streams (`streams.py`) read their shards in the background, one
shuffled block ahead. Evaluation reads the held-out examples in the order of
the shards. With C streams, R replicas and B rows in a global batch, an element
is a dict of `input_ids`, `input_mask` and `segment_ids`, `[C/R, B/C, S]` int32,
and `stream_ids`, `[C/R]` int64.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import storage
from electra_tf.inputs import streams
from electra_tf.inputs.dataset import Split
from electra_tf.records import examples
from electra_tf.records import manifest

# More than TensorFlow's 256 KiB, for shards on network storage.
_READ_BUFFER_BYTES = 1 << 20
_WINDOW_RECORDS = 1024  # records whose headers are checked together
# Enough for a hundred million tokens a second on a large host.
PARALLEL_CALLS = 4
PREFETCHED_ELEMENTS = 4

Element = dict[str, tf.Tensor]


# AutoGraph delays a start by 0.3 s, and finds nothing to convert.
@tf.autograph.experimental.do_not_convert
def build_training_dataset(
    split: Split,
    order: streams.StreamOrder,
    position: streams.Position | None = None,
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Returns endless batches in the order of `streams.py`.

    A worker with L local replicas gets L consecutive elements for every
    global batch. Without a context there is one worker with one replica.
    """
    share = _find_share(context, order.num_streams)
    position = position or streams.Position()

    def read_stream(stream: tf.Tensor) -> tf.data.Dataset:
        read_fn = _epoch_reader(split, order, position, stream)
        epochs = tf.data.Dataset.range(position.epoch, tf.int64.max)
        # Reads the next block, also of the next epoch, ahead of time.
        blocks = epochs.flat_map(read_fn).prefetch(1)
        return blocks.rebatch(order.rows_per_stream, drop_remainder=True)

    first = share.first_stream
    stream_ids = tf.data.Dataset.range(first, first + share.num_streams)
    records = stream_ids.interleave(
        read_stream,
        cycle_length=share.num_streams,
        block_length=1,
        # TensorFlow refuses more calls than there are streams.
        num_parallel_calls=min(PARALLEL_CALLS, share.num_streams),
        deterministic=True,
    ).batch(share.num_streams, drop_remainder=True)
    return _deal(
        records,
        lambda serialized: examples.parse_examples(
            tf.reshape(serialized, [-1]),
            split.max_seq_length,
            split.vocabulary,
        ),
        share,
        [order.rows_per_stream, split.max_seq_length],
    )


@tf.autograph.experimental.do_not_convert
def build_evaluation_dataset(
    split: Split,
    num_streams: int,
    global_batch_size: int,
    context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Returns every example of a split once, in the order of the shards.

    Row i of a global batch belongs to stream `i // (B / C)`, so that masks do
    not depend on the number of replicas. Rows of zeros, which have no weight,
    fill up the last batch. `num_streams` must divide the global batch.
    """
    share = _find_share(context, num_streams)
    rows_per_stream = global_batch_size // num_streams
    first_row = share.first_stream * rows_per_stream
    num_rows = share.num_streams * rows_per_stream

    def parse_local_rows(serialized: tf.Tensor) -> Element:
        local = serialized[first_row : first_row + num_rows]
        parsed = examples.parse_examples(
            local, split.max_seq_length, split.vocabulary
        )
        padding = [[0, num_rows - tf.size(local)], [0, 0]]
        return {name: tf.pad(rows, padding) for name, rows in parsed.items()}

    paths = tf.data.Dataset.from_tensor_slices(list(split.paths))
    records = paths.flat_map(_read_shard).batch(global_batch_size)
    shape = [rows_per_stream, split.max_seq_length]
    return _deal(records, parse_local_rows, share, shape)


class _Share(NamedTuple):
    """The streams that one worker reads for its replicas."""

    first_stream: int
    num_streams: int
    num_replicas: int  # of this worker


def _find_share(
    context: tf.distribute.InputContext | None, num_streams: int
) -> _Share:
    context = context or tf.distribute.InputContext()
    replicas = context.num_replicas_in_sync
    workers = context.num_input_pipelines
    if num_streams % replicas or replicas % workers:
        raise ValueError(
            "The number of streams must be a multiple of the number of "
            "replicas, which must be a multiple of the number of workers. "
            f"Received: {num_streams} streams, {replicas} replicas, {workers} "
            "workers. Change data.num_streams."
        )
    count = num_streams // workers
    return _Share(context.input_pipeline_id * count, count, replicas // workers)


def _epoch_reader(
    split: Split,
    order: streams.StreamOrder,
    position: streams.Position,
    stream: tf.Tensor,
) -> Callable[[tf.Tensor], tf.data.Dataset]:
    def read_piece(
        shard: tf.Tensor, start: tf.Tensor, count: tf.Tensor
    ) -> tf.data.Dataset:
        records = _read_shard(tf.gather(tf.constant(split.paths), shard))
        return records.skip(start).take(count)

    def read_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        # A resumed run begins in the middle of its first epoch.
        consumed = position.batch * order.rows_per_stream
        is_first = tf.equal(epoch, position.epoch)
        first_example = tf.where(is_first, tf.constant(consumed, tf.int64), 0)
        first_block = first_example // order.shuffle_block
        pieces = order.stream_pieces(epoch, stream, first_block)
        records = tf.data.Dataset.from_tensor_slices(pieces)
        blocks = records.flat_map(read_piece).batch(order.shuffle_block)
        return blocks.enumerate(first_block).map(
            lambda block, block_records: order.shuffle(
                block_records, epoch, stream, block, first_example
            )
        )

    return read_epoch


def _read_shard(path: tf.Tensor) -> tf.data.Dataset:
    """Reads a shard's records, and checks the headers of the next window."""

    def check(window: tf.Tensor | int) -> tf.Tensor:
        # TensorFlow would remove the call if its result were not used.
        return tf.numpy_function(
            _check_window, [path, window], tf.int64, stateful=False
        )

    records = tf.data.TFRecordDataset(path, buffer_size=_READ_BUFFER_BYTES)
    windows = records.batch(check(0)).enumerate(1)
    return windows.flat_map(
        lambda following, records: tf.data.Dataset.from_tensor_slices(
            records[: check(following)]
        )
    )


def _check_window(path: bytes, window: np.int64) -> np.int64:
    """Checks a window's record headers; returns the window's size in records.

    Shards in a store are not checked: it would transfer each of them twice.
    """
    if storage.is_local(path.decode()):
        _find_window_end(path.decode(), int(window))
    return np.int64(_WINDOW_RECORDS)


@functools.cache
def _find_window_end(path: str, window: int) -> int:
    begin = _find_window_end(path, window - 1) if window else 0
    return manifest.skip_records(path, begin, _WINDOW_RECORDS)


def _deal(
    records: tf.data.Dataset,
    parse_fn: Callable[[tf.Tensor], Element],
    share: _Share,
    rows_shape: list[int],
) -> tf.data.Dataset:
    """Parses a worker's rows and cuts them into one element per replica."""
    shape = [share.num_replicas, share.num_streams // share.num_replicas]
    stream_ids = tf.range(share.num_streams, dtype=tf.int64)
    stream_ids = tf.reshape(stream_ids + share.first_stream, shape)

    def split_replicas(rows: Element) -> Element:
        return {
            name: tf.reshape(values, [*shape, *rows_shape])
            for name, values in rows.items()
        } | {"stream_ids": stream_ids}

    parsed = records.map(
        parse_fn, num_parallel_calls=PARALLEL_CALLS, deterministic=True
    )
    elements = parsed.map(split_replicas).unbatch()
    elements = elements.prefetch(PREFETCHED_ELEMENTS)
    return with_options(elements)


def with_options(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Returns the dataset in deterministic order and without autotuning.

    When an iterator is deleted, TensorFlow 2.20 sometimes does not wake its
    autotuning thread and blocks the program.
    """
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    # A strategy must not shard the data, since `_find_share` has done so.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return dataset.with_options(options)


def input_options(
    strategy: tf.distribute.Strategy,
) -> tf.distribute.InputOptions | None:
    """Returns options for `strategy.distribute_datasets_from_function`.

    A strategy adds iterators that autotune in spite of `with_options`. If every
    replica has a dataset of its own, `MirroredStrategy` adds none.
    """
    if not isinstance(strategy, tf.distribute.MirroredStrategy):
        return None
    per_replica = tf.distribute.InputReplicationMode.PER_REPLICA
    return tf.distribute.InputOptions(
        experimental_fetch_to_device=False,
        experimental_replication_mode=per_replica,
    )
