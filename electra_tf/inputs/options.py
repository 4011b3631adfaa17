"""How `tf.data` runs here: deterministic, and with fixed parallelism."""

import tensorflow as tf

# Enough for over a hundred million tokens a second on a large host, and no
# burden on a small one, where full buffers keep the threads asleep.
PARALLEL_CALLS = 4
PREFETCHED_ELEMENTS = 4


def with_options(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same dataset, run as this package wants it.

    Autotuning is off: TensorFlow 2.20 sometimes fails to wake its thread when
    an iterator is deleted, which then blocks the program.
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

    The iterators that a strategy adds tune themselves whatever a dataset says.
    `MirroredStrategy` can do without: every replica then gets a dataset and an
    input context of its own.
    """
    if not isinstance(strategy, tf.distribute.MirroredStrategy):
        return None
    per_replica = tf.distribute.InputReplicationMode.PER_REPLICA
    return tf.distribute.InputOptions(
        experimental_fetch_to_device=False,
        experimental_replication_mode=per_replica,
    )
