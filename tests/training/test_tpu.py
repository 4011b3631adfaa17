"""Training on a stand-in for a TPU, a device that compiles whole steps."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.distribute import mirrored_strategy

from electra_tf import config
from electra_tf.finetuning import finetune
from electra_tf.finetuning import model as finetuning
from electra_tf.finetuning import trial_training
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads
from electra_tf.pretraining import run
from electra_tf.processes import stopping
from electra_tf.training import checkpoints
from electra_tf.training import optimizers
from tests import tiny
from tests import tiny_run
from tests.finetuning import conftest
from tests.finetuning import little_task
from tests.objectives import tiny_objectives

HEADS = {
    "classification": functools.partial(task_heads.ClassificationHead, 3),
    "regression": task_heads.RegressionHead,
    "multilabel": functools.partial(task_heads.MultilabelHead, 3),
    "comparison": task_heads.ComparisonHead,
    "tagging": functools.partial(task_heads.TaggingHead, 4),
    "squad": task_heads.QuestionAnsweringHead,
}


def _build_finetuning(kind):
    keras.utils.set_random_seed(3)
    head = HEADS[kind](seed=1, name="task")
    head.build((None, None, tiny.ENCODER.hidden_size))
    encoder = encoder_lib.build_encoder(tiny.ENCODER, "electra")
    heads = {"task": head}
    model = finetuning.FinetuningModel(encoder, heads, num_micro_batches=2)
    model.optimizer = optimizers.build(config.OptimizerConfig(), 1e-3)
    model.optimizer.build(model.trainable_variables)
    tiny_objectives.randomize(model.trainable_variables)
    rows = tiny.build_features(8)
    shapes = {"labels": [8, 3], "relevance": [4, 2]}
    for name, column in head.columns.items():
        shape = shapes.get(name, [8, 8] if column.is_ragged else [8])
        rows[f"task/{name}"] = tf.zeros(shape, column.dtype)
    groups = 4 if kind == "comparison" else 8
    return model, rows | {"task_id": tf.zeros([groups], tf.int32)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HEADS)
def test_xla_changes_no_number_of_fine_tuning(kind):
    found = []
    for jit_compile in (False, True):
        model, rows = _build_finetuning(kind)

        @tf.function(jit_compile=jit_compile, autograph=False)
        def run_once(rows, model=model):
            return model.training_step(rows), model.predict_task("task", rows)

        found.append([run_once(rows), run_once(rows)])
        assert run_once.experimental_get_tracing_count() == 1
    for one, other in zip(*map(tf.nest.flatten, found), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


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
def test_a_run_on_a_tpu_is_that_on_one_device(name, tpu, tmp_path, capsys):
    dataset, ends = tiny_run.write_dataset(tmp_path / "dataset"), []
    for folder, training in (("a", {}), ("b", tpu)):
        settings = tiny_run.build_settings(
            dataset, num_train_steps=5, eval_steps=5, **training
        )
        settings = tiny.with_objective(settings, name)
        assert run.pretrain(settings, tmp_path / folder)
        ends.append(checkpoints.latest(tmp_path / folder))
    assert "on 1 x TPU" in capsys.readouterr().out
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
