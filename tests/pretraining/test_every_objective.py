"""What holds of every objective: devices, kills, host and device agree."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config as tf_config

from electra_tf.pretraining import run
from electra_tf.training import checkpoints
from electra_tf.training import reporting
from tests import tiny
from tests import tiny_run

# One of each kind in the quick tests, the others in the slow ones.
_QUICK = ("two_stage", "adversarial", "electric", "mlm")
each_objective = pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[] if n in _QUICK else [pytest.mark.slow])
        for n in tiny.OBJECTIVE_NAMES
    ],
)
COUNTS = np.r_[np.zeros(5), np.arange(1, 46)]


@pytest.fixture(scope="module", autouse=True)
def _leave_determinism_as_it_was():
    yield
    tf_config.disable_op_determinism()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return tiny_run.write_dataset(tmp_path_factory.mktemp("data") / "dataset")


class _Killed(BaseException):
    """Stands for kill -9: no handler of the package catches it."""


def _kill_after_log(monkeypatch, step):
    """Kills the run when the line of a step has been written."""
    write = reporting.RunReport.write

    def write_and_die(self, split, written_step, *arguments):
        write(self, split, written_step, *arguments)
        if written_step == step:
            raise _Killed

    monkeypatch.setattr(reporting.RunReport, "write", write_and_die)


def _settings(name, **training):
    settings = tiny_run.replace(
        tiny.build_settings(**training), encoder={"num_hidden_layers": 1}
    )
    return tiny.with_objective(settings, name)


def _take_a_step(strategy, settings):
    """Statistics and weights after one step on a batch that is dealt out."""
    tf.keras.utils.set_random_seed(3)
    with strategy.scope():
        model = run.build_model_and_optimizer(settings, tiny.VOCABULARY, COUNTS)
    model.enter_phase(len(model.phase_starts) - 1, is_beginning=True)
    # Without warm-up the first step moves the weights.
    features = tiny.deal(tiny.build_features())
    count = strategy.num_replicas_in_sync
    values = strategy.experimental_distribute_values_from_function(
        lambda context: {
            name: tf.split(value, count)[context.replica_id_in_sync_group]
            for name, value in features.items()
        }
    )

    @tf.function(autograph=False)
    def step(values):
        statistics = strategy.run(model.training_step, args=(values,))
        return tf.nest.map_structure(
            lambda value: strategy.experimental_local_results(value)[0],
            statistics,
        )

    statistics = {n: v.numpy() for n, v in step(values).items()}
    return statistics, {v.path: v.numpy() for v in model.trainable_variables}


@each_objective
def test_two_replicas_are_one(name, two_devices):
    settings = tiny_run.replace(
        _settings(name), optimizer={"num_warmup_steps": 0}
    )
    one_device = tf.distribute.get_strategy()
    one, one_weights = _take_a_step(one_device, settings)
    two, two_weights = _take_a_step(two_devices, settings)
    for statistic, value in one.items():
        np.testing.assert_allclose(
            value, two[statistic], rtol=1e-5, atol=1e-5, err_msg=statistic
        )
    for path, value in one_weights.items():
        np.testing.assert_allclose(
            value, two_weights[path], atol=1e-5, err_msg=path
        )


def _require_kill_is_unnoticed(settings, folder, monkeypatch, step):
    whole, cut = folder / "whole", folder / "cut"
    monkeypatch.setattr(reporting, "draw_training_curves", lambda _: None)
    assert run.pretrain(settings, whole)
    with monkeypatch.context() as patch:
        _kill_after_log(patch, step)
        with pytest.raises(_Killed):
            run.pretrain(settings, cut)
    newest = checkpoints.step_of(checkpoints.latest(cut))
    assert run.pretrain(settings, cut)
    tiny_run.require_equal_runs(whole, cut)
    return newest


@each_objective
def test_a_killed_run_ends_with_the_same_bits(
    name, dataset, tmp_path, monkeypatch
):
    # Two-stage training resumes exactly at its switch.
    settings = tiny.with_objective(
        tiny_run.build_settings(
            dataset,
            num_train_steps=6,
            log_steps=1,
            eval_steps=3,
            save_checkpoints_steps=2,
        ),
        name,
    )
    newest = _require_kill_is_unnoticed(settings, tmp_path, monkeypatch, 5)
    assert newest == 4
    lines = tiny_run.reproducible_metrics(tmp_path / "whole")
    assert all(np.isfinite(list(line.values())[3:]).all() for line in lines)
    costs = [line["train_flops"] for line in lines if line["split"] == "train"]
    assert costs == sorted(set(costs))


def test_the_best_checkpoint_is_that_of_the_last_stage(
    dataset, tmp_path, monkeypatch
):
    monkeypatch.setattr(reporting, "draw_training_curves", lambda _: None)
    settings = tiny.with_objective(
        tiny_run.build_settings(
            dataset,
            num_train_steps=6,
            log_steps=6,
            eval_steps=2,
            save_checkpoints_steps=6,
        ),
        "two_stage",
    )
    assert run.pretrain(settings, tmp_path)
    # The generator's loss of stage one, near 4, is far below 50 times that of
    # the discriminator; it must not count.
    assert checkpoints.best(tmp_path).name == "step-00000006"
