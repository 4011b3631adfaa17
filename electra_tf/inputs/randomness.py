"""Every random number of a run, as a pure function of where it is used.

A resumed run draws what the uninterrupted one would have drawn, and numbers
follow their rows to any number of devices and micro-batches. Floats are made
from Philox's bits here: TensorFlow's own conversion differs between XLA and the
rest. Masks and samples are named by (run seed, purpose, step, stream), dropout
by (run seed, purpose, step, site, row of the global batch, or token of it).
"""

import tensorflow as tf

from electra_tf.acceleration import random_bits

# What a draw is for. New uses take new numbers; a changed number changes runs.
MASK_POSITIONS = 0  # which positions the generator must fill
MASK_REPLACEMENT = 1  # which of them show [MASK]
GENERATOR_SAMPLE = 2  # Gumbel noise of the sampled tokens
DROPOUT = 3
DATA_ORDER = 4  # order of shards and examples
MASK_RANDOM_TOKEN = 5  # random tokens shown instead of [MASK]
SEGMENT_ORDER = 6  # which rows have their segments swapped
# Added to the purposes of masks and samples for held-out batches, so that
# evaluation at batch k repeats nothing of training step k.
EVALUATION = 8

_NUM_PURPOSES = 16
# Streams that a step has room for; part of every seed, so it never changes.
_STREAM_BITS = 16
MAX_STREAMS = 2**_STREAM_BITS
# A dropout counter leaves this much room for the sites within one step.
MAX_SITES = 1024


def purpose_key(run_seed: int, purpose: int) -> int:
    """The first word of every seed that serves one purpose in one run."""
    return run_seed * _NUM_PURPOSES + purpose


def stream_seeds(
    run_seed: int, purpose: int, step: tf.Tensor | int, stream_ids: tf.Tensor
) -> tf.Tensor:
    """One stateless seed per stream: key and counter, `[n, 2]` int64."""
    streams = tf.cast(stream_ids, tf.int64)
    counters = tf.cast(step, tf.int64) * MAX_STREAMS + streams
    key = tf.constant(purpose_key(run_seed, purpose), tf.int64)
    return tf.stack([tf.fill(tf.shape(counters), key), counters], axis=1)


def uniform_by_stream(seeds: tf.Tensor, shape: tuple[int, ...]) -> tf.Tensor:
    """Uniform numbers of several consecutive streams, the same bits anywhere.

    From `seeds` `[n, 2]` and the static shape of one stream's numbers, the same
    in all draws of a purpose, to `[n * shape[0], *shape[1:]]` float32 in
    `[0, 1)`, multiples of 2**-23.
    """
    num_streams = seeds.shape[0]
    # By bits: a TPU has no division of 64 bits, and its compiler writes each
    # as 800 operations.
    step = tf.bitwise.right_shift(seeds[0, 1], _STREAM_BITS)
    first_stream = tf.bitwise.bitwise_and(seeds[0, 1], MAX_STREAMS - 1)
    place = tf.stack([seeds[0, 0], first_stream, step])
    numbers = random_bits.draw_uniform(num_streams, shape, place)
    return tf.reshape(numbers, [num_streams * shape[0], *shape[1:]])


def dropout_seed(
    run_seed: int, step: tf.Tensor | int, part: tf.Tensor | int
) -> tf.Tensor:
    """The `[3]` int64 seed of the dropout in one part of a global batch.

    Parts are of equal size, numbered in the order of their rows, as replicas
    and their micro-batches cut the batch. A layer adds `[0, 0, site]`, with a
    site below 1024.
    """
    key = tf.constant(purpose_key(run_seed, DROPOUT), tf.int64)
    first_site = tf.cast(step, tf.int64) * MAX_SITES
    return tf.stack([key, tf.cast(part, tf.int64), first_site])
