"""Processes that work through a list of tasks, watched by their parent.

The pool starts fresh interpreters (spawn): TensorFlow does not survive a fork.
A worker that dies, by itself or killed from outside, is noticed at once and
reported with what it was doing.
"""

import dataclasses
import gc
import multiprocessing
import multiprocessing.connection
import signal
import traceback
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

Report = Callable[..., None]
Handler = Callable[[Any, Report], Any]


class WorkerError(ChildProcessError):
    """A worker that died or failed; says which, how, and at what."""


@dataclasses.dataclass
class _Worker:
    """One process, the parent's end of its pipe, and its present task."""

    process: Any
    connection: Any
    task: Any = None


class WorkerPool:
    """Runs tasks in processes of their own, or here if one is enough.

    Args:
      start: called once per process without arguments; returns the handler,
        which is called as `handler(task, report)` and returns the task's
        result. `report(...)` sends its arguments to the parent. Everything
        that crosses the border must be picklable.
      num_processes: 1 runs the tasks in the calling process.
    """

    def __init__(self, start: Callable[[], Handler], num_processes: int):
        if num_processes < 1:
            raise ValueError(
                f"num_processes must be at least 1. Received: {num_processes}."
            )
        self._start = start
        self._num_processes = num_processes
        self._handler: Handler | None = None
        self._workers: list[_Worker] = []

    def __enter__(self) -> "WorkerPool":
        if self._num_processes > 1:
            context = multiprocessing.get_context("spawn")
            for index in range(self._num_processes):
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_serve,
                    args=(theirs, self._start),
                    name=f"worker-{index}",
                    daemon=True,
                )
                process.start()
                theirs.close()
                self._workers.append(_Worker(process, ours))
        return self

    def __exit__(self, *unused_error: Any) -> None:
        for worker in self._workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
        self._workers = []

    def run(
        self, tasks: Sequence[Any], on_report: Report
    ) -> Iterator[tuple[Any, Any]]:
        """Yields each task with its result, as they are completed.

        Args:
          tasks: what to do; `str(task)` names it in errors.
          on_report: called in this process with what workers report.

        Raises:
          WorkerError: if a worker dies or meets an error of its own.
          ValueError, OSError: as a worker raised it.
        """
        if self._num_processes == 1:
            self._handler = self._handler or self._start()
            for task in tasks:
                yield task, self._handler(task, on_report)
            return
        waiting = list(reversed(tasks))
        for worker in self._workers:
            self._assign(worker, waiting)
        while any(worker.task is not None for worker in self._workers):
            for worker in self._wait():
                kind, content = self._receive(worker)
                if kind == "report":
                    on_report(*content)
                elif kind == "done":
                    task = worker.task
                    self._assign(worker, waiting)
                    yield task, content
                else:
                    raise content

    def _assign(self, worker: _Worker, waiting: list[Any]) -> None:
        """Gives the worker the next task, if there is one."""
        worker.task = waiting.pop() if waiting else None
        if worker.task is not None:
            try:
                worker.connection.send(worker.task)
            except OSError as error:
                raise self._death(worker) from error

    def _wait(self) -> list[_Worker]:
        """Returns the workers that have sent something, or died."""
        ready = multiprocessing.connection.wait(
            [worker.connection for worker in self._workers]
        )
        return [
            worker for worker in self._workers if worker.connection in ready
        ]

    def _receive(self, worker: _Worker) -> tuple[str, Any]:
        """Returns the next message of a worker that has one."""
        try:
            return worker.connection.recv()
        except (EOFError, OSError) as error:
            raise self._death(worker) from error

    def _death(self, worker: _Worker) -> WorkerError:
        """Returns the error that tells how a worker ended."""
        worker.process.join()
        code = worker.process.exitcode
        how = f"ended with exit code {code}"
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        return WorkerError(
            f"{worker.process.name} (process {worker.process.pid}) {how} while "
            f"at {worker.task or 'no task'}. SIGKILL often means that memory "
            "ran out: use fewer processes."
        )


def _serve(connection: Any, start: Callable[[], Handler]) -> None:
    """Works in a process of its own until the parent hangs up."""
    # An interrupt from the keyboard reaches the parent, which ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    task = "its start"

    def report(*content: Any) -> None:
        connection.send(("report", content))

    try:
        # Importing TensorFlow makes a million objects that all stay. Looking
        # for garbage among them takes a fifth of the start, and would go on
        # taking time later.
        gc.disable()
        handler = start()
        gc.freeze()
        gc.enable()
        while True:
            task = connection.recv()
            connection.send(("done", handler(task, report)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except (ValueError, OSError) as error:
        connection.send(("error", error))
    except BaseException:
        connection.send(
            ("error", WorkerError(f"At {task}:\n{traceback.format_exc()}"))
        )


def limit_threads() -> None:
    """Keeps TensorFlow in a worker process to one thread and off the GPU.

    There is one process per core already. In the calling process, which has
    settings of its own, nothing is changed.
    """
    if multiprocessing.parent_process() is None:
        return
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")
