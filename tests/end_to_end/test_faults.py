"""Signals, lost workers and hosts that differ, in real processes."""

import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from electra_tf import config
from electra_tf.training import checkpoints
from tests import tiny
from tests import tiny_run

pytestmark = pytest.mark.slow

_TIMEOUT = 240  # seconds; a start takes ten on an idle machine
# A run on as many logical CPUs as the last argument says.
_ON_REPLICAS = """
import json, pathlib, sys
import tensorflow as tf
from electra_tf import config
from electra_tf.pretraining import run
text, model_dir, count = *map(pathlib.Path, sys.argv[1:3]), int(sys.argv[3])
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * count,
)
run.pretrain(config.freeze(json.loads(text.read_text())), model_dir)
"""


def _settings(dataset, **training):
    common = {"num_train_steps": 60, "log_steps": 5, "eval_steps": 6}
    common |= {"save_checkpoints_steps": 4, "keep_checkpoints": 2}
    return tiny_run.build_settings(dataset, **(common | training))


def _finish(process):
    """Exit code, standard output and errors of a process."""
    try:
        output, errors = process.communicate(timeout=_TIMEOUT)
    finally:
        process.kill()
    return process.returncode, output, errors


def _run(settings, model_dir, **options):
    return _finish(tiny_run.start_script(settings, model_dir, **options))


def _the_error(errors):
    """The only line that a user must read; there may be no traceback."""
    assert "Traceback" not in errors
    lines = [t for t in errors.splitlines() if t.startswith("error: ")]
    assert len(lines) == 1, errors
    return lines[0]


def _wait_for_lines(model_dir, count, process):
    path, deadline = model_dir / "metrics.jsonl", time.monotonic() + _TIMEOUT
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, _finish(process)
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _start_workers(settings, model_dir, *others, flags=()):
    """Starts a process of a run for each settings, on this host."""
    settings = settings, *others
    clusters = tiny_run.write_clusters(len(settings))
    return [
        tiny_run.start_script(own, model_dir, cluster, flags)
        for own, cluster in zip(settings, clusters, strict=True)
    ]


def _make_other(what, home):
    """A dataset or run on a host, beside that of the test."""
    if what == "seed":
        return {"training": {"seed": 4}}
    if what == "weights":
        _run(_settings(tiny_run.write_dataset(home / "d"), num_train_steps=1),
             home / "run")  # fmt: skip
        return {"training": {"init_from": str(home / "run")}}
    vocabulary, seed = tiny.VOCABULARY, 5
    if what == "vocabulary":
        tokens = (*vocabulary.tokens[:-1], "other")
        vocabulary = dataclasses.replace(vocabulary, tokens=tokens)
        seed = 0
    other = tiny_run.write_dataset(home / "d", vocabulary, seed=seed)
    return {"data": {"dataset_dir": str(other)}}


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("seed", "same training.seed. Received: [34] on this host"),
        ("examples", "same examples. Received: {'train': .*} on this host"),
        ("vocabulary", "same vocabulary. Received: .* on this host"),
        ("weights", "same weights to begin with, so the same `init_from`"),
    ],
)
def test_two_workers_with_something_else_are_told_what(
    dataset, tmp_path, what, said
):
    settings = _settings(dataset, strategy="multi_worker", seed=3)
    other = tiny_run.replace(settings, **_make_other(what, tmp_path))
    workers = _start_workers(settings, tmp_path / "both", other)
    outcomes = [*map(_finish, workers)]
    assert [code for code, *_ in outcomes] == [1, 1]
    for _, _, errors in outcomes:
        assert re.search(said, _the_error(errors))
    assert not (tmp_path / "both" / "checkpoints").exists()


@pytest.fixture(scope="module")
def both_workers(dataset, tmp_path_factory):
    """The settings, folder and outcomes of two workers."""
    often = {"eval_steps": 40, "save_checkpoints_steps": 20}
    often |= {"keep_checkpoints": 99, "strategy": "multi_worker"}
    settings = tiny_run.build_settings(dataset, num_train_steps=120, **often)
    model_dir = tmp_path_factory.mktemp("workers") / "run"
    results = [*map(_finish, _start_workers(settings, model_dir, settings))]
    return settings, model_dir, results


def test_one_of_two_workers_speaks(both_workers):
    _, model_dir, results = both_workers
    (code, output, errors), (other_code, other_output, _) = results
    assert (code, other_code) == (0, 0), errors
    assert "2 x CPU" in output
    assert other_output == ""
    for split in ("train", "validation"):
        assert len(list((model_dir / "tensorboard" / split).iterdir())) == 1


@pytest.mark.parametrize("count", [2, 4])
def test_workers_with_dropout_train_like_one_device(dataset, tmp_path, count):
    settings = tiny_run.build_settings(
        dataset, num_train_steps=50, eval_steps=50, strategy="multi_worker"
    )
    settings = tiny.with_dropout(settings)
    many, one = tmp_path / "many", tmp_path / "one"
    workers = _start_workers(settings, many, *[settings] * (count - 1))
    for code, _, errors in map(_finish, workers):
        assert code == 0, errors
    alone = tiny_run.replace(settings, training={"strategy": "one_device"})
    code, _, errors = _run(alone, one)
    assert code == 0, errors
    name = "checkpoints/step-00000050"
    assert tiny_run.largest_difference(one / name, many / name) <= 1e-5
    lines = (tiny_run.reproducible_metrics(p) for p in (one, many))
    for own, other in zip(*lines, strict=True):
        assert own.keys() == other.keys()
        assert own["loss"] == pytest.approx(other["loss"], rel=1e-4)


def test_two_workers_survive_a_kill_and_a_signal(both_workers, tmp_path):
    settings, whole, _ = both_workers
    model_dir = tmp_path / "run"

    chief, other = workers = _start_workers(settings, model_dir, settings)
    _wait_for_lines(model_dir, 3, chief)
    other.kill()
    (code, _, errors), (killed, _, _) = map(_finish, workers)
    assert (code, killed) == (os.EX_UNAVAILABLE, -signal.SIGKILL)
    expected = r"Worker 1 \(127.0.0.1:\d+\) has stopped or .*all hosts"
    assert re.search(expected, _the_error(errors))

    chief, other = workers = _start_workers(settings, model_dir, settings)
    _wait_for_lines(model_dir, 10, chief)
    # Not to the chief: all have to hear of it.
    other.send_signal(signal.SIGTERM)
    (code, output, _), (other_code, _, _) = map(_finish, workers)
    assert (code, other_code) == (os.EX_TEMPFAIL, os.EX_TEMPFAIL)
    step = checkpoints.step_of(checkpoints.latest(model_dir))
    assert f"Stopped by another worker after step {step}; saved." in output
    assert step < 120

    workers = _start_workers(settings, model_dir, settings)
    assert [_finish(worker)[0] for worker in workers] == [0, 0]
    tiny_run.require_equal_runs(whole, model_dir)


def test_a_worker_that_is_lost_starts_again_with_the_others(
    both_workers, tmp_path
):
    settings, whole, _ = both_workers
    model_dir = tmp_path / "run"
    chief, other = workers = _start_workers(
        settings, model_dir, settings, flags=["--max_restarts=2"]
    )
    _wait_for_lines(model_dir, 10, chief)
    children = pathlib.Path(f"/proc/{other.pid}/task/{other.pid}/children")
    os.kill(int(children.read_text()), signal.SIGKILL)
    (code, _, errors), (other_code, _, other_errors) = map(_finish, workers)
    assert (code, other_code) == (0, 0), errors
    assert "ended with exit code 69; restart 1 of 2" in errors
    assert "ended with exit code 137; restart 1 of 2" in other_errors
    tiny_run.require_equal_runs(whole, model_dir)


def test_a_run_moves_between_hosts_replicas_and_micro_batches(
    both_workers, tmp_path
):
    settings, whole, _ = both_workers
    model_dir, path = tmp_path / "run", tmp_path / "settings.json"
    shutil.copytree(whole, model_dir)
    # First step, replicas and micro-batches of each, after two hosts.
    legs = (20, 1, 1), (40, 4, 1), (60, 2, 2), (80, 1, 4)
    for first, replicas, number in legs:
        for checkpoint in (model_dir / "checkpoints").glob("step-*"):
            if checkpoints.step_of(checkpoint) > first:
                shutil.rmtree(checkpoint)
        own = tiny_run.replace(
            settings,
            training={"strategy": "mirrored", "num_micro_batches": number},
        )
        path.write_text(config.to_json(own))
        arguments = _ON_REPLICAS, path, model_dir, str(replicas)
        subprocess.run(
            [sys.executable, "-c", *arguments], cwd=tiny_run.REPOSITORY,
            timeout=_TIMEOUT, check=True,
        )  # fmt: skip
    lines = (tiny_run.reproducible_metrics(p) for p in (whole, model_dir))
    for own, other in zip(*lines, strict=True):
        assert own["loss"] == pytest.approx(other["loss"], rel=1e-5)
