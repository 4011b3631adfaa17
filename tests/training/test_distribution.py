"""Devices train together, or the reason why not is named."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from unittest import mock

import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.training import distribution

CLUSTER = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}


TASK = {"type": "worker", "index": 2}


@pytest.mark.parametrize(
    "text", ["", "{", json.dumps({"cluster": CLUSTER, "task": TASK})]
)
def test_several_workers_need_to_know_each_other(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    settings = config.TrainingConfig(strategy="multi_worker")
    with pytest.raises(ValueError, match="TF_CONFIG on every host, such as"):
        distribution.build_strategy(settings)


@pytest.fixture
def cluster_of_two():
    """This host's place in a cluster whose other host has an open port."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        with socket.create_server(("127.0.0.1", 0)) as own:
            ports = [s.getsockname()[1] for s in (own, other)]
        addresses = [f"127.0.0.1:{port}" for port in ports]
        yield addresses[0], {"chief 0": addresses[1]}, other


def test_a_processor_has_a_micro_batch_alone():
    # Another process, since this one's TensorFlow has begun.
    code = """
import tensorflow as tf
from electra_tf import config
from electra_tf.pretraining import run
run.distribution.configure_process(config.TrainingConfig(), is_shared=True)
assert tf.zeros([]) == 0
print(tf.config.threading.get_intra_op_parallelism_threads())
"""
    command = [sys.executable, "-c", code]
    assert subprocess.check_output(command, text=True).split() == ["1"]


def test_the_others_are_waited_for(cluster_of_two, monkeypatch, capsys):
    own, others, socket_of_other = cluster_of_two
    distribution._wait_for_workers(own, others)
    assert capsys.readouterr().err == ""
    socket_of_other.close()
    monkeypatch.setattr(distribution, "START_SECONDS", 1)
    monkeypatch.setattr(distribution, "_REPORT_SECONDS", 0.1)
    expected = re.escape(f"answers from chief 0 ({others['chief 0']}). Start")
    with pytest.raises(errors.WorkerLostError, match=expected):
        distribution._wait_for_workers(own, others)
    assert "Waiting for chief 0 (127.0.0.1:" in capsys.readouterr().err


def test_a_cluster_that_tensorflow_refuses_leaves_no_alarm(monkeypatch):
    def refuse():
        raise RuntimeError("Collective ops must be configured at startup")

    alone = {
        "cluster": {"worker": ["127.0.0.1:0"]},
        "task": TASK | {"index": 0},
    }
    monkeypatch.setenv("TF_CONFIG", json.dumps(alone))
    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", refuse)
    settings = config.TrainingConfig(strategy="multi_worker")
    with pytest.raises(RuntimeError, match="at startup"):
        distribution.build_strategy(settings)
    assert signal.alarm(0) == 0


def test_a_tpu_that_does_not_answer_is_named(monkeypatch):
    def raise_error(tpu):
        raise tf.errors.NotFoundError(None, None, "no TPU")

    resolvers = tf.distribute.cluster_resolver
    monkeypatch.setattr(resolvers, "TPUClusterResolver", raise_error)
    settings = config.TrainingConfig(strategy="tpu", tpu="my-tpu")
    with pytest.raises(ValueError, match="No TPU answers .*'my-tpu'"):
        distribution.build_strategy(settings)


@pytest.mark.parametrize(
    ("kind", "index", "cluster", "is_chief"),
    [
        ("worker", 0, CLUSTER, True),
        ("worker", 1, CLUSTER, False),
        ("chief", 0, CLUSTER | {"chief": ["127.0.0.1:3"]}, True),
        ("worker", 0, CLUSTER | {"chief": ["127.0.0.1:3"]}, False),
    ],
)
def test_exactly_one_worker_is_the_chief(kind, index, cluster, is_chief):
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type=kind, task_id=index
    )
    strategy = mock.Mock(tf.distribute.MultiWorkerMirroredStrategy)
    strategy.cluster_resolver = resolver
    assert distribution.is_chief(strategy) == is_chief


@pytest.mark.parametrize(
    ("choice", "strategy", "without_gpu", "with_gpu"),
    [
        ("on", "one_device", "STEP", "STEP"),
        ("off", "one_device", "NOTHING", "NOTHING"),
        ("auto", "one_device", "LOOPS", "STEP"),
        ("auto", "mirrored", "LOOPS", "STEP"),
        ("auto", "tpu", "NOTHING", "NOTHING"),
    ],
)
def test_xla_compiles_whole_steps_for_gpus_unless_asked(
    choice, strategy, without_gpu, with_gpu, monkeypatch
):
    settings = config.TrainingConfig(jit_compile=choice, strategy=strategy)
    for devices, expected in (([], without_gpu), (["GPU:0"], with_gpu)):
        monkeypatch.setattr(
            tf.config, "list_logical_devices", lambda _, own=devices: own
        )
        assert distribution.xla_scope(settings).name == expected


def test_xla_rounds_on_gpus_where_a_step_does(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--own=1")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: ["GPU"])
    distribution.configure_process(config.TrainingConfig(deterministic=False))
    flags = os.environ["XLA_FLAGS"].split()
    # The last one counts where one is given twice.
    assert flags == ["--xla_allow_excess_precision=false", "--own=1"]


def _start_two_hosts(monkeypatch, one, other):
    """Compares on the second of two hosts what both of them start with."""
    numbers = []
    with monkeypatch.context() as patch:
        name = "mean_over_workers"
        patch.setattr(distribution, name, lambda _, n: numbers.append(n) or n)
        distribution.require_same(None, one)
        patch.setattr(distribution, name, lambda _, n: (numbers.pop(0) + n) / 2)
        distribution.require_same(None, other)


def test_hosts_with_other_settings_are_told_which(monkeypatch):
    one, seed, path = (
        schema.list_values(
            config.ExperimentConfig(
                training=config.TrainingConfig(seed=seed),
                data=config.DataConfig(dataset_dir=path),
            )
        )
        for seed, path in ((3, "a"), (4, "a"), (3, "b"))
    )
    assert one["training.seed"] == 3
    _start_two_hosts(monkeypatch, one, path)
    with pytest.raises(ValueError, match="same training.seed. Received: 4 on"):
        _start_two_hosts(monkeypatch, one, seed)
    with pytest.raises(ValueError, match="same checkpoint. Received: 8 on"):
        _start_two_hosts(monkeypatch, {"checkpoint": 4}, {"checkpoint": 8})
    # One of an earlier version knows fewer: nothing waits for the others.
    with pytest.raises(ValueError, match="same version of electra_tf"):
        _start_two_hosts(monkeypatch, {"checkpoint": 4}, one)
