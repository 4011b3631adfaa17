"""Commands in processes that start in no time and die when they are told to.

A victim is a fork of this process, which has imported TensorFlow and must
never compute: a fork of a process that has hangs. Its own pools fork, too.
"""

import dataclasses
import functools
import multiprocessing
import os
import pathlib
import random
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from collections.abc import Mapping
from multiprocessing import context as context_lib
from multiprocessing import util
from typing import Any

from tests import tiny_run

_DEADLINE = 300.0  # seconds, of whatever a victim does
_EVENTS = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir")


@dataclasses.dataclass
class Victim:
    """A process at work, then how it ended."""

    pid: int
    log: pathlib.Path
    start: float
    code: int | None = None  # minus the signal's number
    seconds: float = 0.0

    @property
    def lines(self) -> list[str]:
        """What it has written to standard output and errors."""
        return self.log.read_text("utf-8", "replace").splitlines()

    def is_running(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.seconds = time.monotonic() - self.start
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is None

    def wait(self, seconds: float = _DEADLINE) -> "Victim":
        """Waits for its end; one that has not ended by then hangs."""
        while self.is_running() and self.seconds < seconds:
            time.sleep(0.005)
        if self.code is None and seconds == _DEADLINE:
            self.end_all()
            os.waitpid(self.pid, 0)
            self.code = 124
        return self

    def session(self) -> list[int]:
        """The process and those that it started, if they live."""
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                state, *_, session = (
                    path.read_text().rpartition(")")[2].split()[:4]
                )
            except OSError:
                continue
            if int(session) == self.pid and state != "Z":
                found.append(int(path.parent.name))
        return found

    def end_all(self) -> None:
        for pid in self.session():
            os.kill(pid, signal.SIGKILL)

    def error(self) -> str | None:
        """The one line that a user must read; None if it is not so."""
        beginnings = ("error: ", "FAILED: ", "Traceback")
        told = [line for line in self.lines if line.startswith(beginnings)]
        # A study that goes on without a run has a line for each.
        is_clear = len({*told}) == 1 or all(line[0] == "F" for line in told)
        return told[0] if told and is_clear and told[0][0] != "T" else None


class _ForkContext(context_lib.ForkContext):
    """Starts the processes of a pool as if they were fresh ones."""

    def Pipe(self, duplex: bool = True) -> Any:
        ours, theirs = super().Pipe(duplex)
        # A sibling that kept it would keep others waiting for their end.
        util.register_after_fork(ours, type(ours).close)
        return ours, theirs


def start(
    command: list[str],
    log: pathlib.Path,
    prepare: Callable[[], Any] = lambda: None,
    environment: Mapping[str, str] | None = None,
) -> Victim:
    """Runs a script of scripts/ with arguments, after `prepare`, in a fork."""
    begin = time.monotonic()
    if pid := os.fork():
        return Victim(pid, log, begin)
    code: Any = 70
    try:
        os.setsid()
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ.update(environment or {})
        context = _ForkContext()
        multiprocessing.get_context = lambda unused_method: context
        prepare()
        if command:
            script = tiny_run.REPOSITORY / "scripts" / f"{command[0]}.py"
            sys.argv = [str(script), *command[1:]]
            runpy.run_path(str(script), run_name="__main__")
        code = 0
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def in_fork(function: Callable[[], Any], log: pathlib.Path) -> None:
    """Calls a function that may compute; raises if it fails."""
    victim = start([], log, function).wait()
    if victim.code:
        raise RuntimeError("\n".join(victim.lines))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_change(number: int, folder: pathlib.Path) -> None:
    """Makes the n-th change of a file in a folder this process's last act.

    Each process of a pool counts its own.
    """
    counts: dict[int, int] = {}
    # What is still unfinished has the folder's name in its own.
    parent, name = str(folder.parent), folder.name

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in _EVENTS:
            return
        is_reading = event == "open" and not (
            (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        )
        path = str(arguments[0])
        # A folder's own files are removed by their names alone.
        is_relative = event in ("os.remove", "os.rmdir") and arguments[1] != -1
        is_inside = path.startswith(parent) and name in path[len(parent) :]
        if is_reading or not (is_relative or is_inside):
            return
        pid = os.getpid()
        counts[pid] = counts.get(pid, 0) + 1
        if counts[pid] == number:
            print(f"killed before {event} of {path}", flush=True)
            _die()

    sys.addaudithook(watch)


def die_inside(place: str, call: int, seconds: float) -> None:
    """Kills so long after the n-th call of `module:Class.method` began."""
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, sys.modules[module])
    original, count = getattr(owner, name), 0

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count == call:
            print(f"killed {seconds:.3f} s into {place}", flush=True)
            threading.Timer(seconds, _die).start()
        return original(*args, **kwargs)

    setattr(owner, name, wrapper)


def kill_after(victim: Victim, seconds: float, rng: random.Random) -> None:
    """Kills it, or one that it has started, after a time."""
    victim.wait(seconds)
    if victim.code is None:
        living = victim.session() or [victim.pid]
        os.kill(rng.choice(living), signal.SIGKILL)
