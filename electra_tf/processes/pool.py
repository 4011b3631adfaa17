"""A pool of processes that work through a list of tasks.

Processes are started by "spawn", because TensorFlow does not survive a fork.
They end when their parent does. If one dies, the error names its task.
"""

import contextlib
import gc
import logging
import math
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import logging as absl_logging

from electra_tf import storage
from electra_tf.processes import stopping

Report = Callable[..., None]
Handler = Callable[[Any, Report], Any]

_POLL_SECONDS = 0.5
# Exit codes after which a restart is useless: success, an error of the user, a
# wrong command line, a stop by a signal, a closed output pipe.
FINAL_CODES = (0, 1, 2, os.EX_TEMPFAIL, 128 + signal.SIGPIPE)
# Time for a stopped process to save its work. A second signal to the parent
# ends all processes at once.
_GRACE_SECONDS = 300.0


class WorkerError(ChildProcessError):
    """A process died or failed; the message says which, how, and its task."""


class Outcome(NamedTuple):
    """The result of a task, or its error."""

    task: Any
    result: Any = None
    error: Exception | None = None


class _Worker:
    def __init__(self, name: str, start: Any, *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(
            target=_serve, args=(theirs, *arguments), name=name, daemon=True
        )
        self.process.start()
        theirs.close()
        # Sent through the pipe: if the process died before it had read a long
        # argument, the parent would wait for ever.
        self.begin(start)
        self.task: Any = None

    def begin(self, task: Any) -> None:
        self.task = task
        # If the process has died, `_receive` notices.
        with contextlib.suppress(OSError):
            self.connection.send(task)

    def end(self, grace_seconds: float = 0.0) -> WorkerError:
        """Stops the process; returns an error with its exit code or signal."""
        self.connection.close()
        self.process.join(grace_seconds)
        self.process.kill()
        self.process.join()
        code = self.process.exitcode or 0
        how = f"ended with exit code {code}"
        if code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        return WorkerError(
            f"{self.process.name} (process {self.process.pid}) {how} during "
            f"{self.task or 'no task'}. After SIGKILL try fewer processes."
        )


class ProcessPool(contextlib.AbstractContextManager):
    """Runs tasks in processes; a pool of one runs them in the calling process.

    The end of the `with` block ends the processes.

    Args:
        start: called once in each process; returns the handler, which is
            called as `handler(task, report)`. `report(...)` sends its
            arguments to the parent.
        num_processes: number of parallel processes.
        log_file: returns the log of a task. With it, each task has a process
            of its own, whose output goes to the log.
        environments: environment variables of processes 0, 1, ..., repeated.
    """

    def __init__(
        self,
        start: Callable[[], Handler],
        num_processes: int,
        log_file: Callable[[Any], pathlib.Path] | None = None,
        environments: Sequence[Mapping[str, str]] = (),
    ) -> None:
        if num_processes < 1:
            raise ValueError(
                f"num_processes must be at least 1. Received: {num_processes}."
            )
        self._start = start
        self._log_file = log_file
        self._environments = environments or [{}]
        self._workers: list[_Worker | None] = [None] * num_processes
        self._handler: Handler | None = None

    def __exit__(self, *unused_error: Any) -> None:
        for worker in filter(None, self._workers):
            worker.end()
        self._workers = [None] * len(self._workers)

    def run(
        self, tasks: Sequence[Any], on_report: Report
    ) -> Iterator[tuple[Any, Any]]:
        """Yields each task with its result, as they are completed.

        Raises a handler's `ValueError` or `OSError`, or `WorkerError`.
        """
        if len(self._workers) == 1 and self._log_file is None:
            self._handler = self._handler or self._start()
            for task in tasks:
                yield task, self._handler(task, on_report)
            return
        for outcome in self.outcomes(tasks, on_report):
            if outcome.error is not None:
                raise outcome.error
            yield outcome.task, outcome.result

    def outcomes(
        self,
        tasks: Sequence[Any],
        on_report: Report = lambda *content: None,
        on_start: Callable[[Any], None] = lambda task: None,
        on_wait: Callable[[list[Any]], None] = lambda tasks: None,
        stop: stopping.StopRequest | None = None,
    ) -> Iterator[Outcome]:
        """Yields the outcome of each task as it ends, failed tasks included.

        `on_start` is called with each task that a process begins, `on_wait`
        every half second with the tasks in progress. Once `stop` has a signal,
        no further task is started and the processes get SIGTERM.
        """
        waiting = list(reversed(tasks))
        deadline = math.inf
        while True:
            if stop and stop.signal_name and deadline == math.inf:
                waiting, deadline = [], time.monotonic() + _GRACE_SECONDS
                for worker in self._busy():
                    worker.process.terminate()
            for place, idle in enumerate(self._workers):
                if waiting and (idle is None or idle.task is None):
                    on_start(waiting[-1])
                    self._begin(place, waiting.pop())
            busy = self._busy()
            if not busy:
                return
            if time.monotonic() > deadline:
                for worker in busy:
                    worker.process.kill()
            ready = multiprocessing.connection.wait(
                [worker.connection for worker in busy], _POLL_SECONDS
            )
            for worker in busy:
                if worker.connection in ready:
                    yield from self._receive(worker, on_report)
            on_wait([worker.task for worker in self._busy()])

    def _busy(self) -> list[_Worker]:
        return [w for w in self._workers if w and w.task is not None]

    def _begin(self, place: int, task: Any) -> None:
        worker = self._workers[place]
        if worker is None:
            log = self._log_file(task) if self._log_file else None
            environment = self._environments[place % len(self._environments)]
            worker = self._workers[place] = _Worker(
                f"worker-{place}", self._start, log, dict(environment)
            )
        worker.begin(task)

    def _receive(self, worker: _Worker, on_report: Report) -> Iterator[Outcome]:
        try:
            kind, content = worker.connection.recv()
        except (EOFError, OSError):
            kind, content = "error", worker.end(_GRACE_SECONDS)
        if kind == "report":
            on_report(*content)
            return
        if kind == "error" or self._log_file is not None:
            worker.end(_GRACE_SECONDS)
            self._workers[self._workers.index(worker)] = None
        task, worker.task = worker.task, None
        yield Outcome(task, **{kind: content})


def _serve(
    connection: Any,
    log: pathlib.Path | None,
    environment: Mapping[str, str],
) -> None:
    """Handles the tasks of a process until the parent closes the pipe."""
    parent: Any = multiprocessing.parent_process()
    _end_with(lambda: multiprocessing.connection.wait([parent.sentinel]))
    os.environ.update(environment)
    shorten_logs()
    if log is not None and storage.is_local(log):
        _write_output_to(log)
    task: Any = "its start"
    try:
        # Importing TensorFlow makes a million permanent objects. Garbage
        # collection would search them, for a fifth of the start's time.
        gc.disable()
        handler = connection.recv()()
        gc.freeze()
        gc.enable()
        while True:
            try:
                task = connection.recv()
            except EOFError:
                return
            result = handler(task, lambda *c: connection.send(("report", c)))
            connection.send(("result", result))
    except (BrokenPipeError, ConnectionResetError):
        return
    except BaseException as error:
        connection.send(("error", _sendable(error, task, log)))


def run_restarting(command: Sequence[str], max_restarts: int) -> int:
    """Runs a Python script in a process, and again whenever it crashes.

    `command` holds the script's path and arguments. A script that ends with a
    signal to this process or with one of `FINAL_CODES` is not run again.
    Returns the last exit code, 128 + n for signal n.
    """
    program = f"from {__name__} import _run_script; _run_script()"
    with stopping.StopRequest() as stop:
        for restart in range(1, max_restarts + 2):
            process = subprocess.Popen(
                [sys.executable, "-c", program, *command], stdin=subprocess.PIPE
            )
            while process.poll() is None and not stop.signal_name:
                time.sleep(_POLL_SECONDS)
            if process.poll() is None:
                process.terminate()
            code = process.wait()
            code = code if code >= 0 else 128 - code
            is_final = stop.signal_name or code in FINAL_CODES
            if is_final or restart > max_restarts:
                break
            print(
                f"The run ended with exit code {code}; restart {restart} of "
                f"{max_restarts} from the last checkpoint.",
                file=sys.stderr,
                flush=True,
            )
    return code


def _run_script() -> None:
    # Nothing is written to this pipe; it closes when the parent ends.
    _end_with(sys.stdin.read)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


def _end_with(wait_for_parent: Callable[[], object]) -> None:
    """Ends this process with its parent; leaves Ctrl-C to the parent."""
    # Ctrl-C in a terminal reaches the whole process group. The parent alone
    # receives it and sends SIGTERM once.
    os.setpgrp()

    def watch() -> None:
        wait_for_parent()
        # Files appear complete or not at all, so nothing is damaged.
        os._exit(os.EX_TEMPFAIL)

    threading.Thread(target=watch, daemon=True).start()


def _sendable(
    error: BaseException, task: Any, log: pathlib.Path | None
) -> BaseException:
    """Makes an error picklable; writes its traceback to a local log."""
    if log is not None and storage.is_local(log):
        traceback.print_exc()
        print(f"error: {error}", file=sys.stderr, flush=True)
        return WorkerError(str(error) or type(error).__name__)
    if isinstance(error, ValueError | OSError):
        return error
    return WorkerError(f"At {task}:\n{traceback.format_exc()}")


def _write_output_to(path: pathlib.Path) -> None:
    """Appends all output, also of TensorFlow's C++ code, to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    with storage.naming(path), path.open("ab") as file:
        # After a restart, steps since the last checkpoint are printed again.
        if file.tell():
            now = time.strftime("%Y-%m-%d %H:%M:%S")
            file.write(f"\n--- Started again, {now} ---\n".encode())
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # Otherwise Python buffers the lines, and errors overtake them.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]


def shorten_logs() -> None:
    """Shortens absl's lines to level and message; drops repeated messages."""
    handler, seen = absl_logging.get_absl_handler(), dict[str, object]()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    handler.addFilter(lambda r: seen.setdefault(r.getMessage(), r) is r)


def limit_threads() -> None:
    """Gives TensorFlow one thread and no GPU, if this is a pool's process."""
    if multiprocessing.parent_process() is None:
        return
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.config.set_visible_devices([], "GPU")
