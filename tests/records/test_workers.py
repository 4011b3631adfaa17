"""Worker processes: results, errors, and sudden death."""

import functools
import multiprocessing
import os
import signal

import pytest

from electra_tf.records.workers import WorkerError
from electra_tf.records.workers import WorkerPool


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
    if kind == "storage":
        raise OSError(28, "No space left on device")
    if kind == "bug":
        raise KeyError("a bug")
    if kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(3)


@pytest.mark.parametrize("num_processes", [1, 3])
def test_every_task_is_done_once_and_reported(num_processes):
    reports = []
    with WorkerPool(start_squaring, num_processes) as pool:
        results = dict(pool.run(list(range(20)), lambda *c: reports.append(c)))
        again = dict(pool.run([7], lambda *content: None))
    assert results == {number: number * number for number in range(20)}
    assert sorted(reports) == [(number, 1) for number in range(20)]
    assert again == {7: 49}


def test_no_tasks_are_no_results():
    with WorkerPool(start_squaring, 2) as pool:
        assert list(pool.run([], lambda *content: None)) == []


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (
            "kill",
            WorkerError,
            r"process \d+\) was killed by SIGKILL while at 2",
        ),
        ("exit", WorkerError, "ended with exit code 3 while at 2"),
        ("bug", WorkerError, r"(?s)At 2:.*KeyError: 'a bug'"),
        ("at start", WorkerError, "(?s)At its start:.*cannot start"),
        ("value", ValueError, "^the input is wrong$"),
        ("storage", OSError, "No space left on device"),
    ],
)
def test_failures_are_named_and_end_all_workers(kind, error, message):
    pool = WorkerPool(functools.partial(start_failing, kind), 2)
    with pytest.raises(error, match=message), pool:
        list(pool.run(list(range(8)), lambda *content: None))
    assert multiprocessing.active_children() == []


def test_number_of_processes_is_checked():
    with pytest.raises(ValueError, match="at least 1. Received: 0"):
        WorkerPool(start_squaring, 0)
