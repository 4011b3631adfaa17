"""Devices train together, or the reason why not is named; their peak rates."""

import re
import socket
from unittest import mock

import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.config import schema
from electra_tf.training import devices
from electra_tf.training import distribution

CLUSTER = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
WORKERS = config.TrainingConfig(strategy="multi_worker")
# Number 1 of a cluster that has number 0 alone.
_NOBODY = (
    '{"cluster": {"worker": ["127.0.0.1:1"]}, '
    '"task": {"type": "worker", "index": 1}}'
)


@pytest.mark.parametrize("text", ["", "{", _NOBODY])
def test_several_workers_need_to_know_each_other(text, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match="TF_CONFIG on every host, such as"):
        distribution.build_strategy(WORKERS)


def test_the_others_are_waited_for(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        with socket.create_server(("127.0.0.1", 0)) as own:
            ports = [s.getsockname()[1] for s in (own, other)]
        own, chief = (f"127.0.0.1:{port}" for port in ports)
        distribution._wait_for_workers(own, {"chief 0": chief})
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(distribution, "START_SECONDS", 1)
    monkeypatch.setattr(distribution, "_REPORT_SECONDS", 0.1)
    expected = re.escape(f"answers from chief 0 ({chief}). Start")
    with pytest.raises(errors.WorkerLostError, match=expected):
        distribution._wait_for_workers(own, {"chief 0": chief})
    assert "Waiting for chief 0 (127.0.0.1:" in capsys.readouterr().err


def test_a_tpu_that_does_not_answer_is_named(monkeypatch):
    def raise_error(tpu):
        raise tf.errors.NotFoundError(None, None, "no TPU")

    resolvers = tf.distribute.cluster_resolver
    monkeypatch.setattr(resolvers, "TPUClusterResolver", raise_error)
    settings = config.TrainingConfig(strategy="tpu", tpu="my-tpu")
    with pytest.raises(ValueError, match="No TPU answers .*'my-tpu'"):
        distribution.build_strategy(settings)


@pytest.mark.parametrize(
    ("choice", "strategy", "without_gpu", "with_gpu"),
    [
        ("on", "one_device", "STEP", "STEP"),
        ("off", "one_device", "NOTHING", "NOTHING"),
        ("auto", "one_device", "LOOPS", "STEP"),
        ("auto", "mirrored", "LOOPS", "STEP"),
        ("off", "tpu", "STEP", "STEP"),
    ],
)
def test_xla_compiles_whole_steps_for_tpus_and_gpus_unless_asked(
    choice, strategy, without_gpu, with_gpu, monkeypatch
):
    settings = config.TrainingConfig(jit_compile=choice, strategy=strategy)
    gpus, name = [], "list_logical_devices"
    monkeypatch.setattr(tf.config, name, lambda _: gpus)
    assert distribution.xla_scope(settings).name == without_gpu
    gpus.append("GPU:0")
    assert distribution.xla_scope(settings).name == with_gpu


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
        schema.list_values(config.freeze({"training": train, "data": data}))
        for train, data in (
            ({"seed": 3}, {}),
            ({"seed": 4}, {}),
            ({"seed": 3}, {"dataset_dir": "b"}),
        )
    )
    _start_two_hosts(monkeypatch, one, path)
    with pytest.raises(ValueError, match="same training.seed. Received: 4 on"):
        _start_two_hosts(monkeypatch, one, seed)
    with pytest.raises(ValueError, match="same checkpoint. Received: 8 on"):
        _start_two_hosts(monkeypatch, {"checkpoint": 4}, {"checkpoint": 8})
    # One of an earlier version knows fewer: nothing waits for the others.
    with pytest.raises(ValueError, match="same version of electra_tf"):
        _start_two_hosts(monkeypatch, {"checkpoint": 4}, one)


@pytest.mark.parametrize(
    ("device", "precision", "peak"),
    [
        ("1 x NVIDIA H100 80GB HBM3", "bfloat16", 989e12),
        ("8 x NVIDIA A100-SXM4-40GB", "float16", 312e12),
        ("1 x NVIDIA A100-SXM4-40GB", "float32", 156e12),
        ("1 x NVIDIA H100 PCIe", "bfloat16", 756e12),
        ("1 x NVIDIA A10G", "bfloat16", 70e12),
        ("1 x NVIDIA T400 4GB", "float32", 0.0),
        ("8 x TPU", "bfloat16", 0.0),
    ],
)
def test_known_devices_have_the_peak_of_their_data_sheet(
    device, precision, peak
):
    assert devices.peak_flops(device, precision) == peak


def test_the_peak_of_a_cpu_is_measured():
    # Between a thermostat and a supercomputer.
    assert 1e8 < devices.peak_flops("1 x CPU", "float32") < 1e14


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
