"""What all objectives share: sums, sizes, factors, and how one is found."""

import numpy as np
import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.pretraining import model as model_lib
from tests import tiny
from tests.pretraining import tiny_objectives

_NAMES = tuple(tiny_objectives.SECTIONS)
# Factors that tell the losses apart.
_FACTORS = {
    "mlm": {"gen_weight": 3.0},
    "replace_mlm": {"gen_weight": 3.0, "main_weight": 0.7},
    "all_tokens_mlm": {"gen_weight": 3.0, "main_weight": 0.7},
}


@pytest.fixture(scope="module", params=_NAMES)
def model(request):
    name = request.param
    own = tiny_objectives.SECTIONS[name].get("objective", {})
    factors = _FACTORS.get(name, {"gen_weight": 3.0, "disc_weight": 7.0})
    return tiny_objectives.build_model(name, objective=own | factors)


def _phases(model):
    return range(len(model.phase_starts))


def test_every_objective_has_a_tiny_model_here():
    assert set(model_lib.OBJECTIVES) == set(_NAMES) - {"straight_through"}


def test_statistics_have_the_announced_sizes(model):
    prepared = tiny_objectives.prepare(model)
    for phase in _phases(model):
        model.enter_phase(phase, is_beginning=True)
        statistics = model.compute_statistics(prepared)
        sizes = {n: tuple(v.shape) for n, v in statistics.items()}
        assert sizes == {n: (k,) for n, k in model.statistic_sizes.items()}


def test_the_total_is_the_sum_of_factors_times_means(model):
    prepared = tiny_objectives.prepare(model)
    for phase in _phases(model):
        model.enter_phase(phase, is_beginning=True)
        statistics = {
            name: value.numpy()
            for name, value in model.compute_statistics(prepared).items()
        }
        metrics = model.summarize(statistics)
        total = 0.0
        for name, factor in model.loss_coefficients.items():
            if not factor:
                continue
            mean = statistics[name][0] / statistics[f"{name}_normalizer"][0]
            assert metrics[name] == pytest.approx(mean)
            # What fools the discriminator is no part of the total.
            if name not in ("adversarial_loss", "baseline_loss"):
                total += factor * mean
        assert metrics["loss"] == pytest.approx(total, rel=1e-6)
        assert np.isfinite(list(metrics.values())).all()


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


def _settings(name):
    return config.ExperimentConfig(objective=config.ObjectiveConfig(name=name))


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(errors.ConfigError) as caught:
        model_lib.find_objective(_settings("electro"))
    known = (
        "adversarial, all_tokens_mlm, electra, electra_15, electric, mlm, "
        "replace_mlm, two_stage"
    )
    assert known in str(caught.value)
    assert "'electro'" in str(caught.value)


def test_an_unknown_module_is_refused_the_same_way():
    with pytest.raises(errors.ConfigError, match="can be imported"):
        model_lib.find_objective(_settings("no_such_package.objective"))


def test_a_missing_import_inside_a_module_is_not_taken_for_a_wrong_name(
    tmp_path, monkeypatch
):
    package = tmp_path / "broken_objectives"
    package.mkdir()
    (package / "lacking.py").write_text("import no_such_library_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library_at_all"):
        model_lib.find_objective(_settings("broken_objectives.lacking"))
