"""Tests of the names that random numbers go by."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.inputs import randomness


def _draw(step, stream_ids, purpose=randomness.MASK_POSITIONS):
    seeds = randomness.stream_seeds(
        7, purpose, step, tf.constant(stream_ids, tf.int64)
    )
    return randomness.uniform_by_stream(seeds, (2, 5)).numpy()


def test_stream_seeds_are_key_and_counter():
    seeds = randomness.stream_seeds(
        3, randomness.GENERATOR_SAMPLE, 10, tf.constant([1, 3])
    )
    # 3 * 16 + 2 and 10 * 2**16 + stream.
    np.testing.assert_array_equal(seeds, [[50, 655361], [50, 655363]])
    assert seeds.dtype == tf.int64


def test_dropout_seed_is_key_and_counter():
    seed = randomness.dropout_seed(3, 10, 1, 2, 2, 4)
    # 3 * 16 + 3 and ((10 * 2 + 1) * 4 + 2) * 1024.
    np.testing.assert_array_equal(seed, [51, 86 * 1024])


def test_draws_follow_the_stream_however_streams_are_dealt():
    together = _draw(6, [0, 1, 2, 3])
    assert together.shape == (8, 5)
    np.testing.assert_array_equal(together[:4], _draw(6, [0, 1]))
    np.testing.assert_array_equal(together[4:], _draw(6, [2, 3]))
    np.testing.assert_array_equal(together[4:6], _draw(6, [2]))


@pytest.mark.parametrize(
    "other",
    [
        lambda: _draw(7, [0]),
        lambda: _draw(6, [1]),
        lambda: _draw(6, [0], randomness.MASK_REPLACEMENT),
        lambda: _draw(6, [0], randomness.EVALUATION),
    ],
    ids=["step", "stream", "purpose", "evaluation"],
)
def test_another_name_gives_other_numbers(other):
    assert not np.isin(other(), _draw(6, [0])).any()


# Philox4x32-10 of counter 0 and key 0, from the known-answer test vectors of
# its authors (Random123, kat_vectors).
PHILOX_ZERO = (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)


def test_uniform_numbers_are_the_top_bits_of_philox():
    seeds = tf.zeros([1, 2], tf.int64)
    numbers = randomness.uniform_by_stream(seeds, (4,)).numpy()
    np.testing.assert_array_equal(
        numbers, [(word >> 9) / 2**23 for word in PHILOX_ZERO]
    )


@pytest.mark.parametrize("counter", [0, 2**32 - 2, 2**45])
@pytest.mark.parametrize("shape", [(3, 7), (19, 331)])
def test_uniform_numbers_have_equal_bits_eager_traced_and_compiled(
    shape, counter
):
    counters = counter + tf.range(3, dtype=tf.int64)
    seeds = tf.stack([tf.fill([3], tf.int64.max), counters], axis=1)
    eager = randomness.uniform_by_stream(seeds, shape).numpy()
    for jit_compile in (False, True):
        traced = tf.function(
            lambda given: randomness.uniform_by_stream(given, shape),
            jit_compile=jit_compile,
        )
        np.testing.assert_array_equal(eager, traced(seeds))


def test_neighbouring_dropout_sites_share_no_word():
    seed = randomness.dropout_seed(3, 5, 0, 1, 0, 1)
    first = randomness.dropout_bits(4000, seed).numpy()
    second = randomness.dropout_bits(4000, seed + tf.constant([0, 1], tf.int64))
    # Two of 8000 random 32-bit words are equal with probability 0.007.
    assert np.intersect1d(first, second.numpy()).size <= 1


def test_a_seed_out_of_range_is_refused():
    with pytest.raises(ValueError, match=f"Received: {2**59}"):
        randomness.purpose_key(2**59, 0)
