"""Processes of a pool, and lines of their progress."""

import functools
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from electra_tf.processes import pool
from electra_tf.processes.pool import ProcessPool
from electra_tf.processes.pool import WorkerError
from electra_tf.processes.progress import WorkProgress
from tests import script_modules


def start(work, *unused):
    return work


def square(task, report):
    report(task, 1)
    return task * task


def start_failing(kind):
    if kind == "at start":
        raise RuntimeError("cannot start")
    return functools.partial(fail, kind)


def fail(kind, task, report):
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
    with ProcessPool(functools.partial(start, square), num_processes) as pool:
        results = dict(pool.run(list(range(20)), lambda *c: reports.append(c)))
        again = dict(pool.run([7], lambda *content: None))
    assert results == {number: number * number for number in range(20)}
    assert sorted(reports) == [(number, 1) for number in range(20)]
    assert again == {7: 49}


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("kill", WorkerError, r"\d+\) was killed by SIGKILL during 2"),
        ("exit", WorkerError, "ended with exit code 3 during 2"),
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


def tell(task, report):
    print("said by", task, os.environ["PLACE"])
    if task == "b":
        raise RuntimeError("no b")
    return os.getpid()


def test_each_task_with_a_log_has_a_process_and_a_failure_ends_no_other(
    tmp_path,
):
    environments = [{"PLACE": "0"}, {"PLACE": "1"}]
    begin = functools.partial(start, tell)
    for task in "abc":  # Of a process that was killed.
        (tmp_path / task).write_text("half a li")
    pool = ProcessPool(begin, 2, tmp_path.joinpath, environments)
    with pool:
        outcomes = {o.task: o for o in pool.outcomes(["a", "b", "c"])}
    assert outcomes["a"].result not in (outcomes["c"].result, os.getpid(), None)
    assert str(outcomes["b"].error) == "no b"
    places = set()
    for task in "abc":
        earlier, again, log = (tmp_path / task).read_text().split("\n", 2)
        assert earlier == "half a li" and "--- Started again, 20" in again
        assert log.startswith(f"said by {task} ")
        places.add(log.split()[3])
    assert places == {"0", "1"}
    assert "RuntimeError: no b" in (tmp_path / "b").read_text()


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

    begin = functools.partial(start, wait_for_signal)
    with ProcessPool(begin, 1, tmp_path.joinpath) as pool:
        found = pool.outcomes(["a", "b"], on_report=stop_all, stop=Stop())
        assert list(found) == [("a", ["a"], None)]


# Crashes when it runs first, then does what its argument says.
_SCRIPT = """
import os, pathlib, signal, sys, time
count = pathlib.Path("count")
count.write_text(count.read_text() + "x" if count.exists() else "x")
if len(count.read_text()) < 2:
    os.kill(os.getpid(), signal.SIGABRT)
if sys.argv[1] == "wait":
    pathlib.Path("waits").write_text(str(os.getpid()))
    time.sleep(600)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("code", "max_restarts", "num_runs"), [(0, 5, 2), (75, 5, 2), (69, 2, 3)]
)
def test_a_crashed_script_is_started_again(
    code, max_restarts, num_runs, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(script_modules.ROOT))
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    command = [str(script), str(code)]
    assert pool.run_restarting(command, max_restarts) == code
    assert (tmp_path / "count").read_text() == num_runs * "x"
    assert "exit code 134; restart 1 of" in capfd.readouterr().err


def test_a_restarted_script_ends_with_its_parent(tmp_path):
    (tmp_path / "script.py").write_text(_SCRIPT)
    program = (
        "from electra_tf.processes import pool\n"
        "pool.run_restarting(['script.py', 'wait'], 9)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(script_modules.ROOT)},
    )
    waits = tmp_path / "waits"
    deadline = time.monotonic() + 60
    while not (waits.exists() and waits.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = int(waits.read_text())
    parent.kill()
    parent.wait()
    while pathlib.Path(f"/proc/{child}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_log_has_rate_and_time_left_every_ten_seconds(clock, capsys):
    with WorkProgress("Building", 1000, "tokens") as line:
        clock[0] += 5  # processes are starting
        line.advance(0, 0)
        for _ in range(6):
            clock[0] += 4
            line.advance(100, 5000)
    assert capsys.readouterr().err.splitlines() == [
        "Building: 30 %, 15,000 tokens, 1,250/s, 0:00:28 left",
        "Building: 60 %, 30,000 tokens, 1,250/s, 0:00:16 left",
        # Sizes are estimates; what has ended is complete.
        "Building: 100 %, 30,000 tokens, 1,250/s",
    ]
