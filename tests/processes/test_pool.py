"""Worker processes: results, errors, and sudden death."""

import functools
import multiprocessing
import multiprocessing.resource_tracker
import multiprocessing.spawn
import os
import signal
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
