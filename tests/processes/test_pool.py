"""Worker processes: results, errors, and sudden death."""

import functools
import multiprocessing
import multiprocessing.resource_tracker
import multiprocessing.spawn
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from electra_tf.processes.pool import ProcessPool
from electra_tf.processes.pool import WorkerError


def start_squaring():
    return square


def square(task, report):
    report(task, 1)
    return task * task


def start_failing(kind):
    if kind == "at start":
        raise RuntimeError("cannot start")
    return functools.partial(fail, kind)


def fail(kind, task, report):
    """Does what the test asks for at the task 2."""
    if task != 2:
        return task
    if kind == "value":
        raise ValueError("the input is wrong")
    if kind == "bug":
        raise KeyError("a bug")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)


@pytest.mark.parametrize("num_processes", [1, 3])
def test_every_task_is_done_once_and_reported(num_processes):
    reports = []
    with ProcessPool(start_squaring, num_processes) as pool:
        results = dict(pool.run(list(range(20)), lambda *c: reports.append(c)))
        again = dict(pool.run([7], lambda *content: None))
    assert results == {number: number * number for number in range(20)}
    assert sorted(reports) == [(number, 1) for number in range(20)]
    assert again == {7: 49}


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (
            "kill",
            WorkerError,
            r"\d+\) was killed by SIGKILL while at 2",
        ),
        ("exit", WorkerError, "ended with exit code 3 while at 2"),
        ("bug", WorkerError, r"(?s)At 2:.*KeyError: 'a bug'"),
        ("at start", WorkerError, "(?s)At its start:.*cannot start"),
        ("value", ValueError, "^the input is wrong$"),
    ],
)
def test_failures_are_named_and_end_all_workers(kind, error, message):
    pool = ProcessPool(functools.partial(start_failing, kind), 2)
    with pytest.raises(error, match=message), pool:
        list(pool.run(list(range(8)), lambda *content: None))
    assert multiprocessing.active_children() == []


def start_telling():
    return tell


def tell(task, report):
    print("said by", task, os.environ["PLACE"])
    if task == "b":
        raise RuntimeError("no b")
    return os.getpid()


def test_each_task_with_a_log_has_a_process_and_a_failure_ends_no_other(
    tmp_path,
):
    pool = ProcessPool(
        start_telling, 2, tmp_path.joinpath, [{"PLACE": "0"}, {"PLACE": "1"}]
    )
    with pool:
        outcomes = {o.task: o for o in pool.outcomes(["a", "b", "c"])}
    assert outcomes["a"].result not in (outcomes["c"].result, os.getpid(), None)
    assert str(outcomes["b"].error) == "no b"
    places = set()
    for task in "abc":
        log = (tmp_path / task).read_text()
        assert log.startswith(f"said by {task} ")
        places.add(log.split()[3])
    assert places == {"0", "1"}
    assert "RuntimeError: no b" in (tmp_path / "b").read_text()


def start_waiting():
    return wait_for_signal


def wait_for_signal(task, report):
    received = []
    signal.signal(signal.SIGTERM, lambda *_: received.append(task))
    report(task)
    while not received:
        time.sleep(0.01)
    return received


def test_a_request_to_stop_reaches_the_processes_and_starts_no_more(tmp_path):
    class Stop:
        signal_name = ""

    def stop_all(task):
        Stop.signal_name = "SIGTERM"

    with ProcessPool(start_waiting, 1, tmp_path.joinpath) as pool:
        outcomes = list(
            pool.outcomes(["a", "b"], on_report=stop_all, stop=Stop())
        )
    assert outcomes == [("a", ["a"], None)]


def start_with(plan):
    return square


def test_a_process_that_dies_before_it_reads_its_plan_is_named(monkeypatch):
    multiprocessing.resource_tracker.ensure_running()
    monkeypatch.setattr(multiprocessing.spawn, "_python_exe", b"/bin/false")
    # Larger than any pipe.
    pool = ProcessPool(functools.partial(start_with, bytes(2**22)), 2)
    with pytest.raises(WorkerError, match="ended with exit code 1"), pool:
        list(pool.run([1, 2], lambda *content: None))


_PARENT = """
import functools, pathlib, sys
from tests.processes import test_pool
from electra_tf.processes.pool import ProcessPool

start = functools.partial(test_pool.start_beating, pathlib.Path(sys.argv[1]))
if __name__ == "__main__":
    with ProcessPool(start, 2) as pool:
        list(pool.run([1, 2], lambda *content: None))
"""


def start_beating(folder):
    if (delay := folder / "delay").exists():
        (folder / "starting").touch()
        time.sleep(float(delay.read_text()))
    return functools.partial(beat, folder)


def beat(folder, task, report):
    """Tells for ever that it lives, without a word to its parent."""
    while True:
        (folder / "beat").write_text(str(time.monotonic()))
        time.sleep(0.01)


@pytest.mark.parametrize("is_starting", [False, True])
def test_processes_end_with_a_parent_that_is_killed(is_starting, tmp_path):
    if is_starting:  # It takes longer than the parent lives.
        (tmp_path / "delay").write_text("1")
    script, sign = tmp_path / "parent.py", tmp_path / "beat"
    script.write_text(_PARENT)
    root = pathlib.Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, script, tmp_path],
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    awaited = tmp_path / "starting" if is_starting else sign
    end = time.monotonic() + 60
    while not awaited.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    parent.kill()
    parent.wait()
    killed = time.monotonic()
    time.sleep(1.5)
    last = float(sign.read_text() or 0) if sign.exists() else 0.0
    assert last < killed + 0.5
