"""Tests of the names that random numbers go by."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import fusion
from electra_tf.acceleration import random_bits
from electra_tf.inputs import randomness


def test_seeds_are_key_and_counter():
    seeds = randomness.stream_seeds(
        3, randomness.GENERATOR_SAMPLE, 10, tf.constant([1, 3])
    )
    # 3 * 16 + 2 and 10 * 2**16 + stream.
    np.testing.assert_array_equal(seeds, [[50, 655361], [50, 655363]])
    assert seeds.dtype == tf.int64
    # 3 * 16 + 3 and 10 * 1024.
    seed = randomness.dropout_seed(3, 10, 6)
    np.testing.assert_array_equal(seed, [51, 6, 10 * 1024])


# Of counter 0 and key 0, from the known-answer test vectors of the authors of
# Philox4x32-10 and Threefry4x32-20 (Random123, kat_vectors).
PHILOX_ZERO = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
THREEFRY_ZERO = (0x9C6CA96A, 0xE17EAE66, 0xFC10ECD4, 0x5256A7D8)


@pytest.mark.parametrize(
    ("device", "words"), [("GPU", PHILOX_ZERO), ("TPU", THREEFRY_ZERO)]
)
def test_uniform_numbers_are_the_top_bits_of_known_words(device, words):
    seeds = tf.zeros([1, 2], tf.int64)
    with (
        fusion.switched(fusion.Scope.STEP),
        mock.patch.object(fusion, "accelerator", return_value=device),
    ):
        draw = tf.function(randomness.uniform_by_stream, autograph=False)
        numbers = draw(seeds, (385,)).numpy()
    np.testing.assert_array_equal(
        numbers[::128], [(word >> 9) / 2**23 for word in words]
    )


def _require_equal_numbers(function, argument):
    eager = function(argument)
    whole = fusion.Scope.STEP
    for scope, device in [(s, "") for s in fusion.Scope] + [(whole, "GPU")]:
        for jit_compile in {scope is whole, True}:
            with (
                fusion.switched(scope),
                mock.patch.object(fusion, "accelerator", return_value=device),
            ):
                traced = tf.function(
                    function, jit_compile=jit_compile, autograph=False
                )
                np.testing.assert_array_equal(eager, traced(argument))


# In the last shape a stream has 65,664 values of the counter, so the low word
# becomes 0 amid those of stream 65,408.
@pytest.mark.parametrize(
    ("shape", "counter"),
    [((3, 7), 0), ((19, 331), 2**32 - 128), ((3, 87_552), 2**32 - 128),
     ((3, 87_552), 2**45)],
)  # fmt: skip
def test_uniform_numbers_have_equal_bits_eager_traced_and_compiled(
    shape, counter
):
    counters = counter + tf.range(3, dtype=tf.int64)
    seeds = tf.stack([tf.fill([3], tf.int64.max), counters], axis=1)
    _require_equal_numbers(
        lambda s: randomness.uniform_by_stream(s, shape), seeds
    )


def _draw_kept(num_rows, part, site=0, shape=(37,)):
    seed = randomness.dropout_seed(3, 5, part)
    seed += tf.constant([0, 0, site], tf.int64)
    kept = random_bits.draw_kept([num_rows, *shape], seed, 20_000)
    return random_bits.unpack_kept(kept, shape[-1])


def test_dropout_follows_the_row_however_a_batch_is_cut():
    whole = _draw_kept(12, 0)
    assert whole.shape == (12, 37)
    for num_parts in (2, 3, 12):
        parts = [_draw_kept(12 // num_parts, i) for i in range(num_parts)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert len(np.unique(whole, axis=0)) == 12


def test_dropout_keeps_what_reaches_the_threshold_in_bits_of_philox():
    halves = [w >> shift & 0xFFFF for w in PHILOX_ZERO for shift in (0, 16)]
    for threshold in (min(halves), sorted(halves)[4], max(halves), 65535):
        kept = random_bits.draw_kept([1, 8], tf.zeros([3], tf.int64), threshold)
        expected = [[half >= threshold for half in halves]]
        np.testing.assert_array_equal(kept, expected)


# Those that XLA makes a loop of, some of which end amid a value of the counter,
# and those that can be packed.
@pytest.mark.parametrize(
    "shape", [(331,), (2**16,), (4, 8), (8, 12), (3, 2**14 + 1), (8, 2**13)]
)
def test_dropout_is_equal_eager_traced_and_compiled(shape):
    def draw(part):
        return _draw_kept(6, part, 1023, shape)

    assert 0.6 < np.mean(draw(2)) < 0.8
    _require_equal_numbers(draw, tf.constant(2))


@pytest.mark.parametrize("shape", [(37,), (4, 8)])
def test_sites_that_draw_together_draw_as_alone(shape):
    def draw(sites):
        return random_bits.unpack_kept(
            random_bits.draw_kept([6, *shape], sites, 1000), shape[-1]
        )

    sites = tf.constant([[3, 1, 2**33 + site] for site in (0, 3, 6)], tf.int64)
    np.testing.assert_array_equal(draw(sites), [*map(draw, sites)])
    _require_equal_numbers(draw, sites)
