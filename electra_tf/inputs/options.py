"""Options of `tf.data`: deterministic order and fixed parallelism."""

import tensorflow as tf

# Enough for a hundred million tokens a second on a large host. On a small one
# the threads sleep while the buffers are full.
PARALLEL_CALLS = 4
PREFETCHED_ELEMENTS = 4


def with_options(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The dataset with the options of this package.

    Autotuning is off: TensorFlow 2.20 sometimes fails to wake its thread when
    an iterator is deleted, which then blocks the program.
    """
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    # `pipeline.py` assigns streams to workers; a strategy must not do it again.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return dataset.with_options(options)


def input_options(
    strategy: tf.distribute.Strategy,
) -> tf.distribute.InputOptions | None:
    """The second argument of `strategy.distribute_datasets_from_function`.

    A strategy adds iterators that autotune in spite of the options. With these
    `MirroredStrategy` adds none: every replica has a dataset and an input
    context of its own.
    """
    if not isinstance(strategy, tf.distribute.MirroredStrategy):
        return None
    per_replica = tf.distribute.InputReplicationMode.PER_REPLICA
    return tf.distribute.InputOptions(
        experimental_fetch_to_device=False,
        experimental_replication_mode=per_replica,
    )
