"""What a run is planned for, and how its hosts are started."""

import json
import os
import pathlib
import subprocess

import pytest

from electra_tf import config
from electra_tf import errors
from electra_tf.pretraining import plan

LAUNCH = pathlib.Path(__file__).parents[2] / "docs" / "launch"


def _read(text, **training):
    training = {"precision": "bfloat16"} | training
    settings = config.TrainingConfig(**training)
    return plan.read_topology(text, settings)


@pytest.mark.parametrize(
    ("text", "hosts", "local", "memory", "strategy"),
    [
        ("v2-8", 1, 8, 8, "tpu"),
        ("v3-32", 4, 8, 16, "tpu"),
        ("v4-32", 4, 4, 32, "tpu"),
        ("4x8xA100", 4, 8, 40, "multi_worker"),
        ("1x1xCPU", 1, 1, 16, "one_device"),
    ],
)
def test_a_topology_is_hosts_of_replicas(text, hosts, local, memory, strategy):
    found = _read(text)
    assert found[1:] == (hosts, local, strategy)
    assert (found.device.memory, found.device.precision) == (memory, "bfloat16")


def test_other_topologies_and_precisions_are_refused():
    for text in ("v4-12", "v5-8", "8xA100", "0x8xA100"):
        with pytest.raises(errors.ConfigError, match=f"v4-32, or .*'{text}'"):
            _read(text)
    with pytest.raises(errors.ConfigError, match="precision on TPUv4"):
        _read("v4-8", precision="float16")
    assert _read("v4-8", precision="float32").device.precision == "float32"


def test_without_a_name_it_is_this_machine(monkeypatch):
    found = _read("", strategy="mirrored")
    assert found.device.name == "CPU"
    assert found.num_replicas == 1
    cluster = {"worker": ["host0:1", "host1:1", "host2:1"]}
    own = {"cluster": cluster, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(own))
    assert _read("", strategy="multi_worker").num_hosts == 3
    with pytest.raises(errors.ConfigError, match="--topology=v4-8"):
        _read("", strategy="tpu")


def test_ssh_tells_every_host_its_place(tmp_path):
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\ncd {tmp_path}\nexec sh -c "$2"\n')
    ssh.chmod(0o700)
    show = "echo $TF_CONFIG; exit 69"
    done = subprocess.run(
        [LAUNCH / "ssh.sh", "sh", "-c", show],
        env=os.environ | {"SSH": str(ssh), "HOSTS": "a b", "PORT": "3000"},
        capture_output=True,
    )
    assert done.returncode == 69
    places = [json.loads(line) for line in done.stdout.splitlines()]
    assert {place["task"]["index"] for place in places} == {0, 1}
    workers = {"worker": ["a:3000", "b:3001"]}
    assert [place["cluster"] for place in places] == [workers] * 2
