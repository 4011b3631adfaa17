"""Random bits of counters (Salmon et al., 2011), in arithmetic that XLA fuses.

On CPUs and GPUs they are those of TensorFlow's operation, Philox. A loop that
XLA compiles makes them faster: a step of Small on two CPU cores takes 0.96 of
the time. A TPU multiplies integers by thirty operations on floats, so there the
bits are Threefry's, which has no products: a quarter of the operations, and 42
instead of 50 MiB of program for a step of Small on a v4.
"""

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf import fusion

_PHILOX = 1  # TensorFlow's number for the algorithm
_DECISIONS_PER_COUNT = 8  # decisions of dropout from one counter value
_LANES = 128  # the width of a TPU's vectors
_WORDS_PER_COUNT = 4  # 32-bit words that Philox makes from one counter value
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85
_PARITY = 0x1BD11BDA
_ROTATIONS = (
    *((10, 26), (11, 21), (13, 27), (23, 5)),
    *((6, 20), (17, 11), (25, 10), (18, 20)),
)
# Draws of so many counter values or more are worth 0.25 s of compilation.
_LARGE_DRAW = 2**15
_ONE = 0x3F800000  # the bits of the float 1.0, whose fraction is 0


def draw_uniform(
    num_streams: int, shape: Sequence[int], place: tf.Tensor
) -> tf.Tensor:
    """Draws the uniform numbers of consecutive streams.

    Every row, along the last axis, uses its own counter values, a multiple of
    128, to which a TPU would pad the axis anyway. A row holds the first words
    of all its counter values, then the second words, and so on.

    Args:
        num_streams: the number of streams.
        shape: the shape of one stream's numbers.
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
    if is_whole or _is_loop(num_streams * per_stream):
        numbers = _draw_in_loop(key, counter, dims)
    else:
        words = _draw_words([*dims, _WORDS_PER_COUNT], key, counter)
        columns = tf.unstack(_to_floats(words), axis=-1)
        numbers = tf.concat(columns, -1)
    return numbers[..., :size]


def draw_kept(
    shape: Sequence[int | tf.Tensor], place: tf.Tensor, threshold: int
) -> tf.Tensor:
    """Draws the entries of a tensor that dropout keeps.

    Args:
        shape: the shape of the tensor, which is a part of the whole batch: its
            first row has the number `place[1] * shape[0]` in the batch.
        place: `[3]` int64: key, part of the batch, upper half of the counter.
            Of `[n, 3]`, which differ in the last alone, n tensors are drawn: an
            H100's compiler takes 39 s for Base, and 53 if each block draws.
        threshold: an entry is kept where its 16 bits are this or more.

    Returns:
        True, or 1 as uint8, for kept entries. If XLA compiles whole steps, a
        byte holds eight entries: Base moves a tenth fewer bytes on a GPU.
    """
    num_rows, size = shape[0], math.prod(shape[1:])
    # Exact sizes need no slice; fewer operations are traced faster.
    is_exact = isinstance(size, int) and size % _DECISIONS_PER_COUNT == 0
    groups = -(-size // _DECISIONS_PER_COUNT)
    is_packed = is_exact and shape[-1] % _DECISIONS_PER_COUNT == 0
    if is_packed and fusion.compiles(fusion.Scope.STEP):
        dims = [*shape[:-1], shape[-1] // _DECISIONS_PER_COUNT]
        return _draw_packed(dims, place, groups, threshold)
    if place.shape.rank == 2:
        places = tf.unstack(place)
        return tf.stack([draw_kept(shape, one, threshold) for one in places])
    key, counter = _locate(num_rows, groups, place)
    if is_exact and _is_loop(num_rows * groups):
        dims = [num_rows, groups]
        kept = _decide_in_loop(key, counter, dims, threshold)
        return tf.reshape(tf.bitcast(kept, tf.uint8), shape)
    words = _draw_words([num_rows, groups * _WORDS_PER_COUNT], key, counter)
    kept = tf.reshape(tf.bitcast(words, tf.uint16), [num_rows, -1]) >= threshold
    return tf.reshape(kept if is_exact else kept[:, :size], shape)


def _draw_packed(
    dims: Sequence[Any], place: tf.Tensor, groups: int, threshold: int
) -> tf.Tensor:
    """Draws uint8 `dims`, eight decisions in each; `[n, *dims]` of n places."""
    first = place if place.shape.rank == 1 else place[0]
    key, counter = _locate(dims[0], groups, first)
    low, _ = _list_counters(counter, dims)
    high = tf.bitcast(place[..., 2], tf.uint64)
    high = tf.reshape(high, [*place.shape[:-1], *[1] * len(dims)])
    shape = [*place.shape[:-1], *dims]
    counters = tf.broadcast_to(low, shape), tf.broadcast_to(high, shape)
    # XLA would draw again for the gradient: a program of a ninth more.
    words = _make_words(key, counters)
    return fusion.keep(_decide(words, threshold, 2, tf.uint8))


def unpack_kept(kept: tf.Tensor, size: int | None) -> tf.Tensor:
    """Returns `[..., size]` with one entry in a byte, from eight or one."""
    if kept.shape[-1] == size:
        return kept
    powers = tf.constant([2**i for i in range(_DECISIONS_PER_COUNT)], tf.uint8)
    kept = tf.cast((kept[..., tf.newaxis] & powers) > 0, tf.uint8)
    return tf.reshape(kept, [*kept.shape[:-2], size])


def _locate(num_rows: Any, groups: Any, place: tf.Tensor) -> Any:
    """Computes Philox's key `[1]` and first counter value `[2]`, uint64.

    Every row uses `groups` counter values; consecutive rows follow each other.
    """
    scale = tf.cast(tf.stack([1, num_rows * groups, 1]), tf.int64)
    return tf.split(tf.bitcast(place * scale, tf.uint64), [1, 2])


def _is_loop(count: Any) -> bool:
    """Whether a draw from `count` counter values is compiled as a loop."""
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
    """Draws `[..., 4 * width]` numbers in [0, 1), for dims `[..., width]`."""
    words = _make_words(key, _list_counters(counter, dims))
    return tf.concat([*map(_to_floats, words)], -1)


@fusion.fused
def _decide_in_loop(
    key: tf.Tensor, counter: tf.Tensor, dims: Sequence[int], threshold: int
) -> tf.Tensor:
    """Returns uint64 of these dims, with one decision in each byte."""
    # XLA's loops write one uint64 faster than eight bytes.
    words = _make_words(key, _list_counters(counter, dims))
    return _decide(words, threshold, 256, tf.uint64)


def _decide(
    words: Sequence[tf.Tensor], threshold: int, base: int, dtype: tf.DType
) -> tf.Tensor:
    """Packs eight decisions, 1 for kept, as digits of a number to `base`."""
    decided = tf.zeros_like(words[0], dtype)
    for word in reversed(words):
        high = tf.bitwise.right_shift(word, tf.constant(16, tf.uint32))
        for half in (high, word & 0xFFFF):
            decided = base * decided + tf.cast(half >= threshold, dtype)
    return decided


def _list_counters(
    counter: tf.Tensor, dims: Sequence[int]
) -> tuple[tf.Tensor, tf.Tensor]:
    """Lists consecutive counter values, the first of which is `counter`.

    One long range would become a constant of the program, 244 MB for Small, so
    the values are sums of short ranges, one for each axis.

    Returns:
        Lower and upper halves, uint64 of these dims.
    """
    low = counter[0]
    for axis, size in enumerate(dims):
        inner = dims[axis + 1 :]
        numbers = tf.range(size, dtype=tf.int64) * math.prod(inner)
        numbers = tf.reshape(numbers, [-1] + [1] * len(inner))
        low += tf.bitcast(numbers, tf.uint64)
    return low, tf.fill(dims, counter[1])


def _make_words(
    key: tf.Tensor, counters: tuple[tf.Tensor, tf.Tensor]
) -> list[tf.Tensor]:
    """Makes four uint32 tensors of the counters' shape.

    Args:
        key: `[1]` uint64.
        counters: lower and upper halves, uint64 of one shape.
    """
    low, high = counters
    words = [*_halves(low), *_halves(high)]
    make = _philox if fusion.accelerator() != "TPU" else _threefry
    return make(words, [*_halves(key)])


def _philox(words: list[tf.Tensor], keys: list[tf.Tensor]) -> list[tf.Tensor]:
    """Computes Philox4x32-10 (section 5.2)."""
    for _ in range(10):
        low_0, high_0 = _halves(tf.cast(words[0], tf.uint64) * _MULTIPLIERS[0])
        low_1, high_1 = _halves(tf.cast(words[2], tf.uint64) * _MULTIPLIERS[1])
        words = [
            *(high_1 ^ words[1] ^ keys[0], low_1),
            *(high_0 ^ words[3] ^ keys[1], low_0),
        ]
        keys = [k + w for k, w in zip(keys, _KEY_STEPS, strict=True)]
    return words


def _threefry(words: list[tf.Tensor], keys: list[tf.Tensor]) -> list[tf.Tensor]:
    """Computes Threefry4x32-20, with zeros as the upper half of its key."""
    zeros = tf.zeros_like(keys[0])
    keys = [*keys, zeros, zeros, keys[0] ^ keys[1] ^ _PARITY]
    for number in range(20):
        turn, rest = divmod(number, 4)
        if rest == 0:
            words = _add_keys(words, keys, turn)
        # The odd words change places in every second round.
        odd = (1, 3) if number % 2 == 0 else (3, 1)
        rotations = _ROTATIONS[number % len(_ROTATIONS)]
        for even, other, bits in zip((0, 2), odd, rotations, strict=True):
            words[even] += words[other]
            left = tf.bitwise.left_shift(words[other], bits)
            right = tf.bitwise.right_shift(words[other], 32 - bits)
            words[other] = (left | right) ^ words[even]
    return _add_keys(words, keys, 5)


def _add_keys(
    words: list[tf.Tensor], keys: list[tf.Tensor], turn: int
) -> list[tf.Tensor]:
    *first, last = (w + keys[(turn + i) % 5] for i, w in enumerate(words))
    return [*first, last + turn]


def _halves(wide: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Splits uint64 numbers into their lower and upper 32 bits."""
    high = tf.bitwise.right_shift(wide, tf.constant(32, tf.uint64))
    return tf.cast(wide, tf.uint32), tf.cast(high, tf.uint32)
