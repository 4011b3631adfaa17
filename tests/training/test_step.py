"""One step is the same step however it is cut up."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.pretraining import run
from electra_tf.training import step as step_lib
from tests import tiny


def _gradients(num_micro_batches: int, means_per_replica: bool = False):
    settings = tiny.build_settings(num_micro_batches=num_micro_batches)
    tf.keras.utils.set_random_seed(3)
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
    model.means_per_replica = means_per_replica
    features = tiny.deal(tiny.build_features())

    @tf.function(autograph=False)
    def compute():
        step = tf.constant(5, tf.int64)
        prepared = model.prepare(features, step, is_training=True)
        normalizers = model.loss_normalizers(prepared)
        return model._accumulate(prepared, normalizers, step)

    return compute()


def test_micro_batches_give_the_gradients_of_the_whole_batch():
    whole, statistics = _gradients(1)
    parts, part_statistics = _gradients(4)
    for one, four in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, four, atol=1e-5)
    for name, value in statistics.items():
        np.testing.assert_allclose(value, part_statistics[name], rtol=1e-5)


def _run_steps(settings, num_steps):
    """Weights and statistics after some steps on one batch; the model."""
    tf.keras.utils.set_random_seed(3)
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
    step = tf.function(model.training_step, autograph=False)
    for _ in range(num_steps):
        statistics = step(tiny.deal(tiny.build_features()))
    weights = {v.path: v.numpy() for v in model.trainable_variables}
    return weights, {n: v.numpy() for n, v in statistics.items()}, model


def test_dropout_depends_on_the_seed_and_on_nothing_hidden():
    settings = tiny.with_dropout(tiny.build_settings())
    first, _, _ = _run_steps(settings, 2)
    again, _, _ = _run_steps(settings, 2)
    other = dataclasses.replace(
        settings, training=dataclasses.replace(settings.training, seed=8)
    )
    third, _, _ = _run_steps(other, 2)
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name])
    assert any((value != third[name]).any() for name, value in first.items())


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_keeps_float32_weights_and_finite_losses(precision):
    settings = tiny.build_settings(precision=precision)
    # Float16 may skip a few steps at first, until its loss scale fits.
    weights, statistics, model = _run_steps(settings, 8)
    assert all(value.dtype == np.float32 for value in weights.values())
    assert all(np.isfinite(value).all() for value in statistics.values())
    assert statistics["num_skipped_steps"][0] == 0
    assert (model.loss_scale is not None) == (precision == "float16")


def test_a_float16_overflow_skips_the_step_and_halves_the_scale():
    settings = tiny.build_settings(precision="float16")
    tf.keras.utils.set_random_seed(3)
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
    model.loss_scale.value.assign(3e38)
    before = [v.numpy() for v in model.trainable_variables]
    statistics = model.training_step(tiny.deal(tiny.build_features()))
    assert statistics["num_skipped_steps"].numpy() == [1.0]
    assert np.isfinite(statistics["gradient_norm"]).all()
    assert float(model.loss_scale.value.numpy()) == pytest.approx(1.5e38)
    for old, variable in zip(before, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(old, variable.numpy())
    assert model.optimizer.iterations.numpy() == 1


def test_the_whole_step_compiles_under_xla():
    settings = tiny.with_dropout(tiny.build_settings(num_micro_batches=2))
    tf.keras.utils.set_random_seed(3)
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
    features = tiny.deal(tiny.build_features())
    compiled = tf.function(
        model.training_step, jit_compile=True, autograph=False
    )
    statistics = compiled(features)
    tf.keras.utils.set_random_seed(3)
    plain = run.build_model_and_optimizer(settings, tiny.VOCABULARY)
    expected = plain.training_step(features)
    for name, value in expected.items():
        np.testing.assert_allclose(
            value, statistics[name], rtol=1e-4, atol=1e-4, err_msg=name
        )
    assert compiled.experimental_get_tracing_count() == 1


def test_the_moving_average_is_a_worked_example():
    weight = tf.keras.Variable([0.0], name="kernel")
    average = step_lib.WeightAverage([weight], decay=0.25)
    weight.assign([1.0])
    found = []
    for n in (1, 2, 3, 1000):
        average.update(tf.constant(n))
        found.append(float(average.by_path()["kernel"][0]))
    # It keeps 2/11 of 0, then 3/12 and 0.25 (less than 4/13) of the rest.
    left = np.cumprod([2 / 11, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(found, 1 - left, rtol=1e-6)
    weight.assign([5.0])
    average.reset()
    assert average.by_path()["kernel"].numpy() == [5.0]
