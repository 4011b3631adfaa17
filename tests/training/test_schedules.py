"""The learning rate of every update."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training.schedules import PolynomialDecayTimesWarmup
from electra_tf.training.schedules import Restarted
from electra_tf.training.schedules import constant_or_linear


def formula(step, rate, steps, warmup, power):
    """The schedule in float64, straight from its definition."""
    decay = (1 - min(step, steps) / steps) ** power
    return rate * decay * (min(1, step / warmup) if warmup else 1)


def test_a_worked_example_of_ten_steps():
    schedule = PolynomialDecayTimesWarmup(1.0, 10, num_warmup_steps=4)
    rates = [float(schedule(step)) for step in range(12)]
    # 1 - t/10, times t/4 while that is below 1.
    expected = [0, 0.225, 0.4, 0.525, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("steps", "power"), [(7, 0.5), (1000, 2.0), (1_000_000, 1.0)]
)
def test_rates_are_exact_to_float32_also_near_the_end(steps, power):
    schedule = PolynomialDecayTimesWarmup(
        5e-4, steps, num_warmup_steps=steps // 100, power=power
    )
    chosen = [0, 1, 2, steps // 3, steps - 2, steps - 1, steps, steps + 5]
    expected = [formula(t, 5e-4, steps, steps // 100, power) for t in chosen]
    rates = [float(schedule(tf.constant(t, tf.int64))) for t in chosen]
    np.testing.assert_allclose(rates, expected, rtol=1e-6)


def test_warmup_is_the_larger_of_both_settings_and_not_rounded():
    by_share = PolynomialDecayTimesWarmup(
        1.0, 25, num_warmup_steps=2, warmup_proportion=0.1
    )
    assert float(by_share(1)) == pytest.approx(24 / 25 / 2.5, rel=1e-6)
    by_steps = PolynomialDecayTimesWarmup(
        1.0, 25, num_warmup_steps=5, warmup_proportion=0.1
    )
    assert float(by_steps(1)) == pytest.approx(24 / 25 / 5, rel=1e-6)


def test_it_survives_serialization():
    schedule = PolynomialDecayTimesWarmup(0.1, 50, 3, 0.2, 2.0)
    config = keras.saving.serialize_keras_object(schedule)
    copy = keras.saving.deserialize_keras_object(config)
    assert copy.get_config() == schedule.get_config()
    assert float(copy(17)) == float(schedule(17))


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": -1.0},
        {"learning_rate": float("nan")},
        {"num_steps": 0},
        {"num_warmup_steps": -1},
        {"warmup_proportion": 1.5},
        {"power": 0.0},
    ],
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match=re.escape(str(wrong)[1:-1])):
        PolynomialDecayTimesWarmup(
            **{"learning_rate": 0.1, "num_steps": 10, **wrong}
        )


def _restarted():
    """Four steps down from 1, then five down from 2 after a warm-up of 2."""
    return Restarted(
        [
            PolynomialDecayTimesWarmup(1.0, 4),
            PolynomialDecayTimesWarmup(2.0, 5, num_warmup_steps=2),
        ],
        [0, 4],
    )


def test_a_restarted_schedule_counts_each_part_from_its_start():
    schedule = _restarted()
    rates = [float(schedule(step)) for step in range(11)]
    first = [1.0, 0.75, 0.5, 0.25]
    second = [0.0, 0.8, 1.2, 0.8, 0.4]
    np.testing.assert_allclose(rates, [*first, *second, 0, 0], atol=1e-6)


def test_a_restarted_schedule_survives_serialization():
    schedule = _restarted()
    config = keras.saving.serialize_keras_object(schedule)
    copy = keras.saving.deserialize_keras_object(config)
    for step in (0, 3, 4, 6, 20):
        assert float(copy(step)) == float(schedule(step))


@pytest.mark.parametrize("step", [4, tf.constant(4), tf.constant(4, tf.int64)])
def test_a_linear_schedule_goes_and_stays(step):
    schedule = constant_or_linear(2.0, 0.5, 6)
    values = [float(schedule(t)) for t in range(9)]
    expected = [2.0, 1.75, 1.5, 1.25, 1.0, 0.75, 0.5, 0.5, 0.5]
    np.testing.assert_allclose(values, expected, rtol=1e-6)
    assert float(schedule(step)) == 1.0
    assert schedule(step).dtype == tf.float32
