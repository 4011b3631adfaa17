"""The learning rate of every update."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.schedules import PolynomialDecayTimesWarmup
from electra_tf.training.schedules import Restarted
from electra_tf.training.schedules import constant_or_linear

# Four steps down from 1, then five down from 2 after a warm-up of 2.
RESTARTED = Restarted(
    [
        PolynomialDecayTimesWarmup(1.0, 4),
        PolynomialDecayTimesWarmup(2.0, 5, num_warmup_steps=2),
    ],
    [0, 4],
)


@pytest.mark.parametrize(
    ("steps", "power"), [(10, 1.0), (7, 0.5), (1000, 2.0), (1_000_000, 1.0)]
)
def test_rates_are_exact_to_float32_also_near_the_end(steps, power):
    warmup = max(4, steps // 100)
    schedule = PolynomialDecayTimesWarmup(5e-4, steps, warmup, power=power)
    for t in (0, 1, 2, steps // 3, steps - 2, steps - 1, steps, steps + 5):
        decay = (1 - min(t, steps) / steps) ** power
        expected = 5e-4 * decay * min(1, t / warmup)
        rate = float(schedule(tf.constant(t, tf.int64)))
        assert rate == pytest.approx(expected, rel=1e-6)


def test_a_restarted_schedule_counts_each_part_from_its_start():
    rates = [float(RESTARTED(step)) for step in range(11)]
    first = [1.0, 0.75, 0.5, 0.25]
    second = [0.0, 0.8, 1.2, 0.8, 0.4]
    np.testing.assert_allclose(rates, [*first, *second, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    "schedule", [PolynomialDecayTimesWarmup(0.1, 50, 3, 0.2, 2.0), RESTARTED]
)
def test_a_schedule_survives_serialization(schedule):
    config = keras.saving.serialize_keras_object(schedule)
    copy = keras.saving.deserialize_keras_object(config)
    for step in (0, 3, 4, 6, 17):
        assert float(copy(step)) == float(schedule(step))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_a_linear_schedule_goes_and_stays(dtype):
    schedule = functools.partial(constant_or_linear, 2.0, 0.5, 6)
    values = [schedule(tf.constant(step, dtype)) for step in range(9)]
    expected = [2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.5, 0.5]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert values[0].dtype == tf.float32
