"""Seeds of all random numbers of a run, as functions of where they are used.

Masks and samples depend on (run seed, purpose, step, stream), dropout depends
on (run seed, step, site, row or token of the global batch). A resumed run thus
draws the same numbers as an uninterrupted one, with any number of devices and
micro-batches.
"""

import tensorflow as tf

from electra_tf.acceleration import random_bits

# Purposes of random numbers. All constants here are part of the seeds, so a
# change of one changes the results of runs.
MASK_POSITIONS = 0  # which positions are masked
MASK_REPLACEMENT = 1  # which masked positions show [MASK]
GENERATOR_SAMPLE = 2  # Gumbel noise of the sampled tokens
DROPOUT = 3
DATA_ORDER = 4  # order of shards and examples
MASK_RANDOM_TOKEN = 5  # random tokens shown instead of [MASK]
SEGMENT_ORDER = 6  # which rows have their segments swapped
# Added to the purpose for held-out batches, so that their masks and samples
# differ from those of training steps.
EVALUATION = 8

_NUM_PURPOSES = 16
_STREAM_BITS = 16
MAX_STREAMS = 2**_STREAM_BITS
MAX_SITES = 1024  # dropout sites in a step


def purpose_key(run_seed: int, purpose: int) -> int:
    """Returns the first number of all seeds for one purpose."""
    return run_seed * _NUM_PURPOSES + purpose


def stream_seeds(
    run_seed: int, purpose: int, step: tf.Tensor | int, stream_ids: tf.Tensor
) -> tf.Tensor:
    """Returns a stateless seed for each stream, `[n, 2]` int64."""
    streams = tf.cast(stream_ids, tf.int64)
    counters = tf.cast(step, tf.int64) * MAX_STREAMS + streams
    key = tf.constant(purpose_key(run_seed, purpose), tf.int64)
    return tf.stack([tf.fill(tf.shape(counters), key), counters], axis=1)


def uniform_by_stream(seeds: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    """Draws the uniform numbers of consecutive streams, equal on all devices.

    `seeds` `[n, 2]` come from `stream_seeds`. Each stream gets numbers of the
    same `shape`, in all draws for a purpose. The result is float32
    `[n * shape[0], *shape[1:]]` in `[0, 1)`, in multiples of 2**-23.
    """
    num_streams = seeds.shape[0]
    # Shifts, because a TPU's compiler turns a division of 64-bit integers into
    # 800 operations.
    step = tf.bitwise.right_shift(seeds[0, 1], _STREAM_BITS)
    first_stream = tf.bitwise.bitwise_and(seeds[0, 1], MAX_STREAMS - 1)
    place = tf.stack([seeds[0, 0], first_stream, step])
    numbers = random_bits.draw_uniform(num_streams, shape, place)
    return tf.reshape(numbers, [num_streams * shape[0], *shape[1:]])


def dropout_seed(
    run_seed: int, step: tf.Tensor | int, part: tf.Tensor | int
) -> tf.Tensor:
    """Returns the `[3]` int64 seed of dropout in a part of the global batch.

    Parts are the micro-batches of all replicas, in the order of their rows. A
    layer adds `[0, 0, site]`, with a site below `MAX_SITES`.
    """
    key = tf.constant(purpose_key(run_seed, DROPOUT), tf.int64)
    first_site = tf.cast(step, tf.int64) * MAX_SITES
    return tf.stack([key, tf.cast(part, tf.int64), first_site])
