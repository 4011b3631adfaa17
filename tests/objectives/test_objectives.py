"""Properties of every objective, and how one is found or added."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf import fusion
from electra_tf.objectives import base
from electra_tf.objectives import registry
from electra_tf.pretraining import cost
from electra_tf.pretraining import run
from electra_tf.training import step as step_lib
from tests import profiler
from tests import tiny
from tests import tiny_run
from tests.objectives import tiny_objectives

_COUNTS = np.r_[np.zeros(5), np.arange(1, 46)]
# Factors that tell the losses apart.
_FACTORS = {
    "mlm": {"gen_weight": 3.0},
    "replace_mlm": {"gen_weight": 3.0, "main_weight": 0.7},
    "all_tokens_mlm": {"gen_weight": 3.0, "main_weight": 0.7},
    "fast_electra": {"disc_weight": 7.0},
}


@pytest.fixture(scope="module", params=tiny_objectives.SECTIONS)
def model(request):
    name = request.param
    own = tiny_objectives.SECTIONS[name].get("objective", {})
    factors = _FACTORS.get(name, {"gen_weight": 3.0, "disc_weight": 7.0})
    return tiny_objectives.build_model(name, objective=own | factors)


@pytest.fixture(scope="module", params=tiny.OBJECTIVE_NAMES)
def settings(request):
    """Settings of every objective, and of every kind of generator."""
    settings = tiny.with_objective(tiny.build_settings(), request.param)
    if request.param not in ("electra", "two_tower"):
        # Traced in half the time of two.
        settings = tiny_run.replace(settings, encoder={"num_hidden_layers": 1})
    return base.resolve(settings, tiny.VOCABULARY.size)


def test_every_objective_has_a_tiny_model_here():
    names = {*tiny_objectives.SECTIONS} - {"straight_through"}
    assert {*registry.NAMES} == names


def test_the_total_is_the_sum_of_factors_times_means(model):
    prepared = tiny_objectives.prepare(model)
    for phase in range(len(model.stage_starts)):
        model.enter_stage(phase, is_beginning=True)
        found = model.compute_statistics(prepared)
        sizes = {name: tuple(vector.shape) for name, vector in found.items()}
        assert sizes == {n: (k,) for n, k in model.statistic_sizes.items()}
        metrics = model.summarize({n: v.numpy() for n, v in found.items()})
        total = 0.0
        for name, factor in model.loss_coefficients.items():
            if not factor:
                continue
            mean = float(found[name][0] / found[f"{name}_normalizer"][0])
            assert metrics[name] == pytest.approx(mean)
            # What fools the discriminator is no part of the total.
            if name not in ("adversarial_loss", "baseline_loss"):
                total += factor * mean
        assert metrics["loss"] == pytest.approx(total, rel=1e-6)
        assert np.isfinite(list(metrics.values())).all()
        assert {*metrics} <= tiny.DOCUMENTED_METRICS


def test_losses_and_statistics_add_up_over_parts_of_a_batch(model):
    """Masks and samples follow the streams, so halves make the whole."""
    features = tiny.deal(tiny.build_features())
    halves = [
        {name: value[part] for name, value in features.items()}
        for part in (slice(0, 2), slice(2, 4))
    ]
    whole, first, second = (
        model.compute_statistics(model.prepare(part, 0, True))
        for part in (features, *halves)
    )
    for name, value in whole.items():
        np.testing.assert_allclose(
            first[name] + second[name], value, rtol=1e-4, err_msg=name
        )


def test_a_model_is_saved_whole(settings, tmp_path):
    model = registry.build_model(settings, tiny.VOCABULARY, _COUNTS)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert type(again) is type(model)
    assert again.settings == model.settings
    paths = [variable.path for variable in model.trainable_variables]
    assert [v.path for v in again.trainable_variables] == paths
    rows = tiny.build_features()
    np.testing.assert_array_equal(again(rows), model(rows))
    stream = step_lib.as_one_stream(rows)
    ours, theirs = (
        tiny_objectives.loss_of(m, m.prepare(stream, 0, True))
        for m in (model, again)
    )
    for loss, value in ours.items():
        np.testing.assert_array_equal(theirs[loss], value)


def test_a_traced_step_holds_the_products_that_the_objective_tells_of(settings):
    model = run.build_model_and_optimizer(settings, tiny.VOCABULARY, _COUNTS)
    # Calls, which the profiler does not look into.
    model.xla_scope = fusion.Scope.NOTHING
    work = cost.Cost(settings, "exact")
    features = tiny.deal(tiny.build_features())
    for phase, start in enumerate(work.starts):
        model.enter_stage(phase, True)
        counted = profiler.count_matrix_products(model.training_step, features)
        assert counted == work.step_flops(start)
    for convention in ("original", "exact"):
        work = cost.Cost(settings, convention)
        steps = range(settings.training.num_train_steps)
        total = sum(work.step_flops(step) for step in steps)
        assert work.run_flops() == pytest.approx(total, rel=1e-12)


def _take_a_step(strategy, settings, is_packed):
    """Statistics and weights after one step on a batch that is dealt out."""
    keras.utils.set_random_seed(3)
    with strategy.scope():
        model = run.build_model_and_optimizer(
            settings, tiny.VOCABULARY, _COUNTS, is_packed
        )
    model.enter_stage(len(model.stage_starts) - 1, is_beginning=True)
    features = tiny.build_features()
    if is_packed:  # in each row a second text
        ids = features["input_ids"].numpy()
        ids[:, 4] = tiny.VOCABULARY.cls_id
        features["input_ids"] = tf.constant(ids)
    features = tiny.deal(features)
    count = strategy.num_replicas_in_sync
    values = strategy.experimental_distribute_values_from_function(
        lambda context: {
            name: tf.split(value, count)[context.replica_id_in_sync_group]
            for name, value in features.items()
        }
    )

    def step(values):
        found = strategy.run(model.training_step, args=(values,))
        first = strategy.experimental_local_results
        return {name: first(value)[0] for name, value in found.items()}

    if count > 1:
        step = tf.function(step, autograph=False)
    return step(values) | {v.path: v.numpy() for v in model.trainable_variables}


# One of each kind in the quick tests, the others in the slow ones.
_QUICK = ("two_stage", "adversarial", "electric", "packed mlm")
_SLOW = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in tiny.OBJECTIVE_NAMES
    if name not in _QUICK
]


@pytest.mark.parametrize("name", [*_QUICK, *_SLOW])
def test_two_replicas_are_one(name, two_devices):
    settings = tiny.with_dropout(tiny.build_settings())
    settings = tiny_run.replace(
        tiny.with_objective(settings, name.split()[-1]),
        encoder={"num_hidden_layers": 1},
        # Without warm-up the first step moves the weights.
        optimizer=tiny_objectives.NO_WARMUP,
        training={"num_micro_batches": 2},
    )
    is_packed = name == "packed mlm"
    one = _take_a_step(tf.distribute.get_strategy(), settings, is_packed)
    two = _take_a_step(two_devices, settings, is_packed)
    for name, value in one.items():
        np.testing.assert_allclose(
            value, two[name], rtol=1e-5, atol=1e-5, err_msg=name
        )


def test_an_unknown_name_is_refused_with_the_known_ones():
    known = (
        "adversarial, all_tokens_mlm, electra, electra_15, electric, "
        "fast_electra, mlm, replace_mlm, sentence_order, two_stage, .*imported."
        " Received: "
    )
    for name in ("electro", "no_such_package.objective"):
        settings = config.ExperimentConfig(objective={"name": name})
        with pytest.raises(errors.ConfigError, match=f"{known}'{name}'"):
            registry.find(settings)
