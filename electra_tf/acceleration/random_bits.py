"""Random bits of Philox (Salmon et al., 2011), made where XLA can fuse them.

TensorFlow's operation makes the same bits one value of the counter at a time.
Where XLA makes one loop of the arithmetic, a step of Small on two CPU cores
takes 0.96 of the time. XLA's own form of the operation writes arrays
whose last axis is 1 or 4 wide, which a TPU pads to 128: 9.5 GB for Small.
"""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from electra_tf import fusion

_PHILOX = 1  # TensorFlow's number for the algorithm
_DECISIONS_PER_COUNT = 8  # of dropout, by 16 bits each
_LANES = 128  # of a TPU's vectors
_WORDS_PER_COUNT = 4  # 32-bit words that Philox makes from one counter value
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
# Counter values from which on a loop on a CPU is worth 0.25 s of compiling.
_LARGE_DRAW = 2**15
# The bits of 1.0: below them are the 23 bits of a float's fraction.
_ONE = 0x3F800000


def draw_uniform(
    num_streams: int, shape: Sequence[int], place: tf.Tensor
) -> tf.Tensor:
    """Uniform numbers of consecutive streams.

    Every row, along the last axis, has values of the counter of its own, and a
    multiple of 128 of them, to which a TPU would pad the axis anyway. A row
    holds the first words of all its values, then the second words, and so on.

    Args:
        num_streams: streams from that of the place on.
        shape: of the numbers of a stream.
        place: `[3]` int64: key, first stream, upper half of the counter.

    Returns:
        `[num_streams, *shape]` float32 in `[0, 1)`, multiples of 2**-23.
    """
    *outer, size = num_streams, *shape
    width = _LANES * -(-size // (_LANES * _WORDS_PER_COUNT))
    per_stream = math.prod(shape[:-1]) * width
    key, counter = _locate(1, per_stream, place)
    dims = [*outer, width]
    is_whole = fusion.compiles(fusion.Scope.STEP)
    if is_whole and fusion.has_accelerator():
        return _draw_one_by_one(key, counter, dims, size)
    if is_whole or _is_loop(num_streams * per_stream):
        numbers = _draw_in_loop(key, counter, dims)
    else:
        words = _draw_words([*dims, _WORDS_PER_COUNT], key, counter)
        parts = tf.unstack(_to_floats(words), axis=-1)
        numbers = tf.concat(parts, -1)
    return numbers[..., :size]


def draw_kept(
    shape: Sequence[int | tf.Tensor], place: tf.Tensor, threshold: int
) -> tf.Tensor:
    """Which entries of a tensor dropout keeps: those with large random bits.

    Args:
        shape: of the tensor. Its rows, along the first axis, are
            `place[1] * shape[0]` and the following ones of the whole batch.
        place: `[3]` int64: key, part of the batch, upper half of the counter.
        threshold: an entry is kept where its 16 bits are this or more.

    Returns:
        True, or 1 as uint8, for what is kept. Steps that XLA compiles whole
        have eight entries in a byte (`unpack_kept`), with which Base moves a
        tenth fewer bytes on a GPU.
    """
    num_rows, size = shape[0], math.prod(shape[1:])
    # A model has many sites, and each operation costs time to trace.
    is_exact = isinstance(size, int) and size % _DECISIONS_PER_COUNT == 0
    groups = -(-size // _DECISIONS_PER_COUNT)
    key, counter = _locate(num_rows, groups, place)
    is_packed = is_exact and shape[-1] % _DECISIONS_PER_COUNT == 0
    if is_packed and fusion.compiles(fusion.Scope.STEP):
        dims = [*shape[:-1], shape[-1] // _DECISIONS_PER_COUNT]
        words = _make_words(key, _list_counters(counter, dims))
        # XLA would draw again for the gradient: a program of a ninth more.
        kept = xla.optimization_barrier(_decide(words, threshold, 2, tf.uint8))
        return kept[0]
    if is_exact and _is_loop(num_rows * groups):
        dims = [num_rows, groups]
        kept = _decide_in_loop(key, counter, dims, threshold)
        return tf.reshape(tf.bitcast(kept, tf.uint8), shape)
    words = _draw_words([num_rows, groups * _WORDS_PER_COUNT], key, counter)
    kept = tf.reshape(tf.bitcast(words, tf.uint16), [num_rows, -1]) >= threshold
    return tf.reshape(kept if is_exact else kept[:, :size], shape)


def unpack_kept(kept: tf.Tensor, size: int | None) -> tf.Tensor:
    """`[..., size]`, an entry to a byte, whether there are eight or one."""
    if kept.shape[-1] == size:
        return kept
    powers = tf.constant([2**i for i in range(_DECISIONS_PER_COUNT)], tf.uint8)
    kept = tf.cast((kept[..., tf.newaxis] & powers) > 0, tf.uint8)
    return tf.reshape(kept, [*kept.shape[:-2], size])


def _locate(num_rows: Any, groups: Any, place: tf.Tensor) -> Any:
    """Philox's key `[1]` and first counter `[2]`, lower half first, uint64.

    Every row has `groups` values of the counter, consecutive rows one range.
    """
    scale = tf.cast(tf.stack([1, num_rows * groups, 1]), tf.int64)
    return tf.split(tf.bitcast(place * scale, tf.uint64), [1, 2])


def _is_loop(count: Any) -> bool:
    """Whether XLA makes a loop of a draw of so many values of the counter."""
    is_large = isinstance(count, int) and count >= _LARGE_DRAW
    return is_large and fusion.compiles(fusion.Scope.LOOPS)


def _draw_words(shape: Any, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=tf.uint32
    )


def _to_floats(words: tf.Tensor) -> tf.Tensor:
    # The top 23 bits become the fraction of a number between 1 and 2.
    fraction = tf.bitwise.right_shift(words, tf.constant(9, tf.uint32))
    one_to_two = tf.bitwise.bitwise_or(fraction, tf.constant(_ONE, tf.uint32))
    return tf.bitcast(one_to_two, tf.float32) - 1.0


@fusion.fused
def _draw_in_loop(
    key: tf.Tensor, counter: tf.Tensor, dims: Sequence[int]
) -> tf.Tensor:
    """`[..., 4 * width]` numbers in [0, 1), for dims `[..., width]`."""
    words = _make_words(key, _list_counters(counter, dims))
    return tf.concat([*map(_to_floats, words)], -1)


def _draw_one_by_one(
    key: tf.Tensor, counter: tf.Tensor, dims: Sequence[int], size: int
) -> tf.Tensor:
    """The first `size` numbers of each row of `_draw_in_loop`.

    Every number chooses its word of its own value of the counter. XLA writes
    Philox four times for four words that are joined, and fuses this form with
    the argmax behind it: 3 of 7 MiB of program on a TPU v4, for equal work. On
    CPUs it costs a step of two layers of Small a fifth more processor time.
    """
    *outer, width = dims
    low, high = _list_counters(counter, [*outer, 1], width)
    values = tf.tile(tf.range(width, dtype=tf.int64), [_WORDS_PER_COUNT])
    low += tf.bitcast(values[:size], tf.uint64)
    number = tf.range(size) // width
    words = _make_words(key, (low, tf.broadcast_to(high, low.shape)))
    chosen = words.pop()
    for place in reversed(range(len(words))):
        chosen = tf.where(number == place, words[place], chosen)
    return _to_floats(chosen)


@fusion.fused
def _decide_in_loop(
    key: tf.Tensor, counter: tf.Tensor, dims: Sequence[int], threshold: int
) -> tf.Tensor:
    """Uint64 of these dims, a byte for each decision."""
    # XLA's loops write one number of eight bytes faster than eight of one.
    words = _make_words(key, _list_counters(counter, dims))
    return _decide(words, threshold, 256, tf.uint64)


def _decide(
    words: Sequence[tf.Tensor], threshold: int, base: int, dtype: tf.DType
) -> tf.Tensor:
    """Numbers of eight digits, 1 for what is kept, in the order of the bits."""
    decided = tf.zeros_like(words[0], dtype)
    for word in reversed(words):
        high = tf.bitwise.right_shift(word, tf.constant(16, tf.uint32))
        for half in (high, word & 0xFFFF):
            decided = base * decided + tf.cast(half >= threshold, dtype)
    return decided


def _list_counters(
    counter: tf.Tensor, dims: Sequence[int], stride: int = 1
) -> tuple[tf.Tensor, tf.Tensor]:
    """Values of the counter from a first one, `[2]` uint64, on.

    TensorFlow would fold a whole range into the program as a constant, 8 bytes
    a value: 244 MB for Small. A sum of a short range for each axis and of the
    counter, which is not known, stays a sum.

    Returns:
        Lower and upper halves, uint64 of these dims.
    """
    low = counter[0]
    for axis, size in enumerate(dims):
        inner = dims[axis + 1 :]
        numbers = tf.range(size, dtype=tf.int64) * stride * math.prod(inner)
        numbers = tf.reshape(numbers, [-1] + [1] * len(inner))
        low += tf.bitcast(numbers, tf.uint64)
    return low, tf.fill(dims, counter[1])


def _make_words(
    key: tf.Tensor, counters: tuple[tf.Tensor, tf.Tensor]
) -> list[tf.Tensor]:
    """The four words of each counter, uint32 of its shape each.

    Philox4x32-10 (section 5.2).

    Args:
        key: `[1]` uint64.
        counters: lower and upper halves, uint64 of one shape.
    """
    xor = tf.bitwise.bitwise_xor
    low, high = counters
    words = [*_halves(low), *_halves(high)]
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
    """The lower and the upper 32 bits of uint64 numbers."""
    high = tf.bitwise.right_shift(wide, tf.constant(32, tf.uint64))
    return tf.cast(wide, tf.uint32), tf.cast(high, tf.uint32)
