"""Training on a stand-in for a TPU, a device that compiles whole steps."""

import pytest
import tensorflow as tf
from tensorflow.python.distribute import mirrored_strategy

from electra_tf.finetuning import finetune
from electra_tf.finetuning import model as finetuning
from electra_tf.finetuning import trial_training
from electra_tf.pretraining import run
from electra_tf.processes import stopping
from electra_tf.training import checkpoints
from tests import tiny
from tests import tiny_run
from tests.finetuning import conftest
from tests.finetuning import little_task


class _StandIn(tf.distribute.Strategy):
    """A `TPUStrategy` of one CPU: it compiles whatever a replica runs."""

    _collective_key_base = 0

    def __init__(self, resolver):
        assert resolver == "x"
        super().__init__(mirrored_strategy.MirroredExtended(self, ["/CPU:0"]))

    def run(self, fn, args=(), kwargs=None, options=None):
        own = tf.function(fn, jit_compile=True, autograph=False)
        return super().run(lambda *values: own(*values), args, kwargs, options)


@pytest.fixture
def tpu(monkeypatch):
    """Settings of a training on the stand-in."""
    resolvers = tf.distribute.cluster_resolver
    for owner, name, replacement in (
        (resolvers, "TPUClusterResolver", str),
        (tf.distribute, "TPUStrategy", _StandIn),
        (tf.config, "experimental_connect_to_cluster", id),
        (tf.tpu.experimental, "initialize_tpu_system", id),
    ):
        monkeypatch.setattr(owner, name, replacement)
    return {"strategy": "tpu", "tpu": "x"}


@pytest.mark.parametrize(
    "name",
    [
        name if name == "mlm" else pytest.param(name, marks=pytest.mark.slow)
        for name in tiny.OBJECTIVE_NAMES
        if name != "fast_electra"  # which begins with another run
    ],
)
def test_a_run_on_a_tpu_is_that_on_one_device(
    name, tpu, dataset, tmp_path, capsys
):
    settings = tiny_run.build_settings(dataset, num_train_steps=5, eval_steps=5)
    settings = tiny.with_objective(settings, name)
    one, other = tmp_path / "one", tmp_path / "other"
    with tiny.eagerly():
        assert run.pretrain(settings, one)
    assert run.pretrain(tiny_run.replace(settings, training=tpu), other)
    assert "on 1 x TPU" in capsys.readouterr().out
    ends = map(checkpoints.latest, (one, other))
    assert tiny_run.largest_difference(*ends) < 1e-4


@pytest.mark.slow
def test_a_trial_on_a_tpu_is_traced_for_one_length(tpu, tmp_path):
    settings, words = tiny.build_settings(), conftest.VOCABULARY
    loaded = finetuning.random_encoder(settings.encoder, words, seed=5)
    request = little_task.build_request(
        little_task.write_files(tmp_path / "data"),
        conftest.write_run(tmp_path / "run", settings, loaded.encoder.weights),
        tmp_path / "out",
        tpu | {"num_train_epochs": 1.0},
    )
    trial = finetune.Session(request).start(1)
    result = trial_training.run_trial(trial, stopping.StopRequest())
    assert (trial.static_length, result.device) == (16, "1 x TPU")
    (predict,) = trial._predictor._functions.values()
    assert predict.experimental_get_tracing_count() == 1
