"""One step is the same step however it is cut up."""

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import fusion
from electra_tf.pretraining import cost
from electra_tf.pretraining import run
from electra_tf.training import step_state
from tests import profiler
from tests import tiny
from tests import tiny_run
from tests.objectives import tiny_objectives

FEATURES = tiny.deal(tiny.build_features())


def _build(settings):
    settings = tiny_run.replace(settings, encoder={"num_hidden_layers": 1})
    tf.keras.utils.set_random_seed(3)
    return run.build_model_and_optimizer(settings, tiny.VOCABULARY)


def _measure(num_micro_batches, num_parallel=1):
    """Gradients and sums of a training batch, sums of a held-out one."""
    settings = tiny.build_settings(num_micro_batches=num_micro_batches)
    model = _build(tiny.with_dropout(settings))
    model.num_parallel = num_parallel
    step = tf.constant(5, tf.int64)
    prepared = model.prepare(FEATURES, step, is_training=True)
    normalizers = model.loss_normalizers(prepared)
    accumulate = tf.function(model._accumulate, autograph=False)
    evaluate = tf.function(model.evaluation_step, autograph=False)
    sums = evaluate(FEATURES, step) if num_parallel == 1 else {}
    return *accumulate(prepared, normalizers, step), sums


def test_micro_batches_give_the_gradients_of_the_whole_batch():
    whole, parts = _measure(1), _measure(4)
    for one, four in zip(whole[0], parts[0], strict=True):
        np.testing.assert_allclose(one, four, atol=1e-5)
    for one, four in zip(whole[1:], parts[1:], strict=True):
        assert one.keys() == four.keys()
        for name, value in one.items():
            np.testing.assert_allclose(value, four[name], rtol=1e-5)
    # Side by side they give the same bits as one after the other.
    for one, other in zip(_measure(4, 4)[0], parts[0], strict=True):
        np.testing.assert_array_equal(one, other)


def test_recomputation_gives_the_same_step():
    found = []
    for recompute in (False, True):
        settings = tiny.with_dropout(tiny.build_settings(recompute=recompute))
        # Without warm-up the first step moves the weights.
        model = _build(
            tiny_run.replace(settings, optimizer=tiny_objectives.NO_WARMUP)
        )
        # Calls, which the profiler does not look into.
        model.xla_scope = fusion.Scope.NOTHING
        # Blocks run again in the backward pass.
        count = profiler.count_matrix_products(model.training_step, FEATURES)
        assert count == cost.Cost(model.settings).step_flops()
        norm = model.training_step(FEATURES)["gradient_norm"]
        weights = [v.numpy() for v in model.trainable_variables]
        found.append((count, norm, weights))
    (few, norm, plain), (many, same, again) = found
    assert many > few
    np.testing.assert_allclose(same, norm, rtol=1e-6)
    for one, other in zip(plain, again, strict=True):
        np.testing.assert_allclose(other, one, atol=1e-6)


def test_dropout_depends_on_the_seed_and_on_nothing_hidden():
    model = _build(tiny.with_dropout(tiny.build_settings()))
    step = tf.constant(5, tf.int64)
    prepared = model.prepare(FEATURES, step, is_training=True)
    normalizers = model.loss_normalizers(prepared)
    found = []
    for seed in (7, 7, 8):
        # The masks, which have this seed too, are those of above.
        model.seed = seed
        gradients, _ = model._accumulate(prepared, normalizers, step)
        found.append(tf.concat([tf.reshape(g, -1) for g in gradients], 0))
    np.testing.assert_array_equal(found[0], found[1])
    assert (found[0] != found[2]).numpy().any()


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_keeps_float32_weights_and_finite_losses(precision):
    model = _build(tiny.build_settings(precision=precision))
    # Float16 may skip a few steps at first, until its loss scale fits.
    for _ in range(8):
        statistics = model.training_step(FEATURES)
    assert {v.dtype for v in model.trainable_variables} == {"float32"}
    assert all(np.isfinite(value).all() for value in statistics.values())
    assert statistics["num_skipped_steps"][0] == 0
    assert (model.loss_scale is not None) == (precision == "float16")


def test_a_float16_overflow_skips_the_step_and_halves_the_scale():
    model = _build(tiny.build_settings(precision="float16"))
    model.loss_scale.value.assign(3e38)
    before = [v.numpy() for v in model.trainable_variables]
    statistics = model.training_step(FEATURES)
    assert statistics["num_skipped_steps"].numpy() == [1.0]
    assert np.isfinite(statistics["gradient_norm"]).all()
    assert float(model.loss_scale.value.numpy()) == pytest.approx(1.5e38)
    for old, variable in zip(before, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(old, variable)
    assert model.optimizer.iterations.numpy() == 1


def test_the_loss_scale_changes_no_update():
    found, no_warmup = [], tiny_objectives.NO_WARMUP
    settings = tiny_run.replace(tiny.build_settings(), optimizer=no_warmup)
    for scale in (None, step_state.LossScale(initial=2.0**10)):
        model = _build(settings)
        model.loss_scale = scale
        norm = model.training_step(FEATURES)["gradient_norm"]
        found.append([norm, *(v.numpy() for v in model.trainable_variables)])
    for plain, scaled in zip(*found, strict=True):
        np.testing.assert_allclose(plain, scaled, rtol=1e-5, atol=1e-7)


def test_the_loss_scale_follows_its_rule():
    scale, values = step_state.LossScale(initial=8.0, growth_steps=2), []
    for is_finite in (True, True, True, False, True, True):
        scale.update(tf.constant(is_finite))
        values.append(float(scale.value.numpy()))
    assert values == [8.0, 16.0, 16.0, 8.0, 8.0, 16.0]


def test_the_moving_average_is_a_worked_example():
    weight, values = tf.keras.Variable([0.0], name="kernel"), []
    average = step_state.WeightAverage([weight], decay=0.25)
    weight.assign([1.0])
    for n in (1, 2, 3, 1000):
        average.update(tf.constant(n), [weight])
        values.append(float(average.by_path()["kernel"][0]))
    # It keeps 2/11 of 0, then 3/12 and 0.25 (less than 4/13) of the rest.
    left = np.cumprod([2 / 11, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(values, 1 - left, rtol=1e-6)
    weight.assign([5.0])
    average.reset()
    # Anew: of the distance from 5 to 16 it goes 9/11 again.
    weight.assign([16.0])
    average.start = 1000
    average.update(tf.constant(1001), [weight])
    assert float(average.by_path()["kernel"][0]) == pytest.approx(14.0)
