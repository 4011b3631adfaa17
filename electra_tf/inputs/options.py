"""How `tf.data` runs here: deterministic, and with fixed parallelism."""

import tensorflow as tf

# Enough for over a hundred million tokens a second on a large host, and no
# burden on a small one, where full buffers keep the threads asleep.
PARALLEL_CALLS = 4
PREFETCHED_ELEMENTS = 4


def with_options(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same dataset, run as this package wants it.

    Autotuning is off, so steps must name their own parallelism: its thread
    sleeps for up to a minute, and TensorFlow 2.20 sometimes fails to wake it
    when an iterator is deleted, which then blocks the program.
    """
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False
    # Streams are dealt in `pipeline.py`; a strategy must not deal them again.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return dataset.with_options(options)


def input_options(
    strategy: tf.distribute.Strategy,
) -> tf.distribute.InputOptions | None:
    """The second argument of `strategy.distribute_datasets_from_function`.

    The iterators that a strategy adds to bring elements to its devices tune
    themselves whatever the dataset says, and so can block when they are
    deleted. `MirroredStrategy` can do without them: every replica then gets a
    dataset of its own, with an input context of its own.
    """
    if not isinstance(strategy, tf.distribute.MirroredStrategy):
        return None
    per_replica = tf.distribute.InputReplicationMode.PER_REPLICA
    return tf.distribute.InputOptions(
        experimental_fetch_to_device=False,
        experimental_replication_mode=per_replica,
    )
