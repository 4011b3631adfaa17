"""What a TPU would run: no work of the host, static shapes, one strategy."""

import dataclasses
import functools
import re
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.finetuning import model as finetuning
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import task_heads
from electra_tf.pretraining import run
from electra_tf.training import distribution
from electra_tf.training import optimizers
from tests import tiny
from tests import tiny_run
from tests.pretraining import tiny_objectives

HEADS = {
    "classification": functools.partial(task_heads.ClassificationHead, 3),
    "regression": task_heads.RegressionHead,
    "multilabel": functools.partial(task_heads.MultilabelHead, 3),
    "comparison": task_heads.ComparisonHead,
    "tagging": functools.partial(task_heads.TaggingHead, 4),
    "squad": task_heads.QuestionAnsweringHead,
}


def _trace(function, *arguments):
    traced = tf.function(function, autograph=False)
    return traced.get_concrete_function(*arguments)


def _build_finetuning(kind):
    settings = tiny_objectives.build_settings("electra").encoder
    settings = dataclasses.replace(settings, vocab_size=50)
    head = HEADS[kind](seed=1, name="task")
    with keras.name_scope("task_specific"):
        head.build((None, None, settings.hidden_size))
    encoder = encoder_lib.build_encoder(settings, "electra")
    model = finetuning.FinetuningModel(
        encoder, {"task": head}, num_micro_batches=2
    )
    model.optimizer = optimizers.build(config.OptimizerConfig(), 1e-3)
    model.optimizer.build(model.trainable_variables)
    rows = tiny.build_features(8)
    shapes = {"labels": [8, 3], "relevance": [4, 2]}
    for name, column in head.columns.items():
        shape = shapes.get(name, [8, 8] if column.is_ragged else [8])
        rows[f"task/{name}"] = tf.zeros(shape, column.dtype)
    groups = 4 if kind == "comparison" else 8
    return model, rows | {"task_id": tf.zeros([groups], tf.int32)}


@pytest.mark.parametrize("name", tiny_objectives.SECTIONS)
def test_pre_training_leaves_nothing_to_the_host(name):
    training = {"num_micro_batches": 2, "precision": "bfloat16"}
    settings = tiny_objectives.build_settings(name, training=training)
    model = run.build_model_and_optimizer(
        tiny.with_dropout(settings), tiny.VOCABULARY
    )
    features = tiny.deal(tiny.build_features())
    for phase in range(len(model.phase_starts)):
        model.enter_phase(phase, is_beginning=True)
        traced = _trace(model.training_step, features)
        assert distribution.find_unfit(traced) == []
    batch = tf.constant(0, tf.int64)
    traced = _trace(model.evaluation_step, features, batch)
    assert distribution.find_unfit(traced) == []


@pytest.mark.parametrize("kind", HEADS)
def test_fine_tuning_leaves_nothing_to_the_host(kind):
    model, rows = _build_finetuning(kind)
    assert distribution.find_unfit(_trace(model.training_step, rows)) == []
    predict = functools.partial(model.predict_task, "task")
    assert distribution.find_unfit(_trace(predict, rows)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adversarial", "electric", "squad"])
def test_xla_compiles_and_traces_once(name):
    if name in HEADS:
        model, features = _build_finetuning(name)
    else:
        model = tiny_objectives.build_model(name)
        features = tiny.deal(tiny.build_features())
    step = tf.function(model.training_step, jit_compile=True, autograph=False)
    for _ in range(2):
        found = step(features)
    assert all(np.isfinite(value).all() for value in found.values())
    assert step.experimental_get_tracing_count() == 1


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: tf.numpy_function(np.sin, [x], tf.float32), "PyFunc"),
        (lambda x: tf.boolean_mask(x, x > 0), "Where .*depends on values"),
        (tf.strings.as_string, "AsString .*strings"),
        (lambda x: tf.zeros(tf.cast(x[:1], tf.int32)), "Fill .*not static"),
    ],
)  # fmt: skip
def test_what_no_tpu_runs_is_found_in_nested_functions(function, expected):
    def nested(values):
        branches = [lambda: (function(values), 0)[1], lambda: 1]
        return tf.cond(values[0] > 0, *branches)

    unfit = distribution.find_unfit(_trace(nested, tf.ones([4])))
    assert any(re.match(expected, text) for text in unfit)


class _StandIn(tf.distribute.TPUStrategy):
    """A TPU of one core, which is this CPU."""

    run = tf.distribute.Strategy.run

    def __init__(self, resolver):
        assert resolver == "x"
        extended = tf.distribute.OneDeviceStrategy("CPU:0").extended
        extended._container_strategy_weakref = weakref.ref(self)
        tf.distribute.Strategy.__init__(self, extended)


def test_a_run_on_a_tpu_is_that_on_one_device(monkeypatch, tmp_path, capsys):
    resolvers = tf.distribute.cluster_resolver
    for owner, name, replacement in (
        (resolvers, "TPUClusterResolver", str),
        (tf.distribute, "TPUStrategy", _StandIn),
        (tf.config, "experimental_connect_to_cluster", id),
        (tf.tpu.experimental, "initialize_tpu_system", id),
    ):
        monkeypatch.setattr(owner, name, replacement)
    dataset = tiny_run.write_dataset(tmp_path / "dataset")
    for name, training in (("a", {}), ("b", {"strategy": "tpu", "tpu": "x"})):
        settings = tiny_run.build_settings(
            dataset, num_train_steps=5, eval_steps=5, **training
        )
        assert run.pretrain(settings, tmp_path / name)
    assert "on 1 x TPU" in capsys.readouterr().out
    tiny_run.require_equal_runs(tmp_path / "a", tmp_path / "b")
