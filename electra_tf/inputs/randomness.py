"""Every random number of a run, as a pure function of where it is used.

There is no random state: a resumed run draws what the uninterrupted one would
have drawn, and all numbers follow their rows (`streams.py`) to any number of
devices and micro-batches. Floats are made from Philox's bits here, because
TensorFlow's own conversion differs between XLA and the rest. A number is named
by

    (run seed, purpose, step, stream)              masks and samples
    (run seed, purpose, step, site, row)           dropout

where a row is one of the global batch, or a token of it.
"""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf import fusion

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
MAX_STREAMS = 2**16
# A dropout counter leaves this much room for the sites within one step.
MAX_SITES = 1024
_PHILOX = 1  # TensorFlow's number for the algorithm
_DECISIONS_PER_COUNT = 8  # of dropout, by 16 bits each
_WORDS_PER_COUNT = 4  # 32-bit words that Philox makes from one counter value
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
# Values of the counter from which on less time for a draw is worth compiling.
_LARGE_DRAW = 2**15
# The bits of 1.0: below them are the 23 bits of a float's fraction.
_ONE = 0x3F800000


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
    num_streams, size = seeds.shape[0], math.prod(shape)
    step, first_stream = seeds[0, 1] // MAX_STREAMS, seeds[0, 1] % MAX_STREAMS
    place = tf.stack([seeds[0, 0], first_stream, step])
    numbers = _draw(num_streams, size, place, as_floats=True)
    return tf.reshape(numbers[:, :size], [num_streams * shape[0], *shape[1:]])


def _to_floats(bits: tf.Tensor) -> tf.Tensor:
    # The top 23 bits become the fraction of a number between 1 and 2.
    fraction = tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32))
    one_to_two = tf.bitwise.bitwise_or(fraction, tf.constant(_ONE, tf.uint32))
    return tf.bitcast(one_to_two, tf.float32) - 1.0


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


def draw_kept(
    shape: Sequence[int | tf.Tensor], seed: tf.Tensor, threshold: int
) -> tf.Tensor:
    """Which entries of a tensor one dropout site keeps, of its shape.

    True, or 1 as uint8, where random 16 bits are `threshold` or more. Within
    steps that XLA compiles whole it is eight entries to a byte (`unpack_kept`).
    The first axis has rows of the whole batch from `part * shape[0]` on, so
    that they get the same bits in whatever parts it is cut.
    """
    num_rows, size = shape[0], math.prod(shape[1:])
    # A model has many sites, and each operation costs time to trace.
    is_exact = isinstance(size, int) and size % _DECISIONS_PER_COUNT == 0
    groups = -(-size // _DECISIONS_PER_COUNT)
    if is_exact and _is_compiled(num_rows, groups):
        place = _locate(num_rows, groups, seed)
        kept = _decide_in_loop(*place, num_rows * groups, threshold)
        return tf.reshape(tf.bitcast(kept, tf.uint8), shape)
    words = _draw(num_rows, -(-size // 2), seed, num_rows)
    is_packed = is_exact and shape[-1] % _DECISIONS_PER_COUNT == 0
    if is_packed and fusion.compiles(fusion.Scope.STEP):
        words = tf.unstack(tf.reshape(words, [-1, _WORDS_PER_COUNT]), axis=1)
        kept = _decide(words, threshold, 2, tf.uint8)
        return tf.reshape(kept, [*shape[:-1], -1])
    kept = tf.reshape(tf.bitcast(words, tf.uint16), [num_rows, -1]) >= threshold
    return tf.reshape(kept if is_exact else kept[:, :size], shape)


def unpack_kept(kept: tf.Tensor, size: int | None) -> tf.Tensor:
    """`[..., size]`, an entry to a byte, whether there are eight or one."""
    if kept.shape[-1] == size:
        return kept
    powers = tf.constant([2**i for i in range(_DECISIONS_PER_COUNT)], tf.uint8)
    kept = tf.cast((kept[..., tf.newaxis] & powers) > 0, tf.uint8)
    return tf.reshape(kept, [*kept.shape[:-2], size])


def _draw(
    num_rows: int | tf.Tensor,
    size: int | tf.Tensor,
    place: tf.Tensor,
    rows_per_part: int | tf.Tensor = 1,
    as_floats: bool = False,
) -> tf.Tensor:
    """`[num_rows, n]` uint32, n >= `size`, from `[key, part, high half]`.

    Philox makes four words from every value of a 128-bit counter. In its low
    half a row gets the values from `row * groups` on, so consecutive rows are
    one contiguous draw. The first one is `part * rows_per_part`. With
    `as_floats` each word becomes a number in [0, 1).
    """
    groups = -(-size // _WORDS_PER_COUNT)
    key, counter = _locate(rows_per_part, groups, place)
    shape = [num_rows, groups * _WORDS_PER_COUNT]
    if _is_compiled(num_rows, groups):
        numbers = _compute_philox(key, counter, num_rows * groups, as_floats)
        return tf.reshape(numbers, shape)
    words = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=tf.uint32
    )
    return _to_floats(words) if as_floats else words


def _is_compiled(num_rows: Any, groups: Any) -> bool:
    """Whether XLA makes a loop of a draw of so many values of the counter."""
    count = num_rows * groups
    return (
        fusion.compiles(fusion.Scope.LOOPS)
        and isinstance(count, int)
        and count >= _LARGE_DRAW
    )


def _locate(rows_per_part: Any, groups: Any, place: tf.Tensor) -> Any:
    """Philox's key `[1]` and first counter `[2]`, low half first, uint64."""
    scale = tf.cast(tf.stack([1, rows_per_part * groups, 1]), tf.int64)
    return tf.split(tf.bitcast(place * scale, tf.uint64), [1, 2])


@fusion.fused
def _compute_philox(
    key: tf.Tensor, counter: tf.Tensor, count: int, as_floats: bool
) -> tf.Tensor:
    """`[count, 4]` words, or numbers in [0, 1)."""
    drawn = tf.stack(_make_words(key, counter, count), 1)
    return _to_floats(drawn) if as_floats else drawn


@fusion.fused
def _decide_in_loop(
    key: tf.Tensor, counter: tf.Tensor, count: int, threshold: int
) -> tf.Tensor:
    """`[count]` uint64, a byte for each decision."""
    # XLA's loops write one number of eight bytes faster than eight of one.
    return _decide(_make_words(key, counter, count), threshold, 256, tf.uint64)


def _decide(
    words: Sequence[tf.Tensor], threshold: int, base: int, dtype: tf.DType
) -> tf.Tensor:
    """Numbers of eight digits, 1 for what is kept, in the order of the bits."""
    decided = tf.zeros(words[0].shape, dtype)
    for word in reversed(words):
        high = tf.bitwise.right_shift(word, tf.constant(16, tf.uint32))
        for half in (high, word & 0xFFFF):
            decided = base * decided + tf.cast(half >= threshold, dtype)
    return decided


def _make_words(
    key: tf.Tensor, counter: tf.Tensor, count: int
) -> list[tf.Tensor]:
    """Four `[count]` words, as arithmetic that XLA makes a loop of.

    Philox4x32-10 (Salmon et al., 2011, section 5.2). TensorFlow's operation
    makes one value at a time, and takes twice as long on a CPU.
    """
    xor = tf.bitwise.bitwise_xor
    low = counter[0] + tf.bitcast(tf.range(count, dtype=tf.int64), tf.uint64)
    words = [*_halves(low), *_halves(tf.fill([count], counter[1]))]
    keys = [*_halves(key)]
    for _ in range(10):
        low_0, high_0 = _halves(tf.cast(words[0], tf.uint64) * _MULTIPLIERS[0])
        low_1, high_1 = _halves(tf.cast(words[2], tf.uint64) * _MULTIPLIERS[1])
        words = [
            *(xor(xor(high_1, words[1]), keys[0]), low_1),
            *(xor(xor(high_0, words[3]), keys[1]), low_0),
        ]
        keys = [k + w for k, w in zip(keys, _KEY_STEPS, strict=True)]
    return words


def _halves(wide: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The low and the high 32 bits of uint64 numbers."""
    high = tf.bitwise.right_shift(wide, tf.constant(32, tf.uint64))
    return tf.cast(wide, tf.uint32), tf.cast(high, tf.uint32)
