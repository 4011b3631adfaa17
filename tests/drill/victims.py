"""Commands in processes that start in no time and die when they are told to.

A victim is a fork of this process, which has imported TensorFlow and must
never compute: a fork of a process that has hangs. Its own pools fork, too.
"""

import collections
import dataclasses
import functools
import multiprocessing
import os
import pathlib
import runpy
import signal
import sys
import threading
import time
import traceback
from multiprocessing import context as context_lib
from multiprocessing import util

from tests import tiny_run

_DEADLINE = 900.0  # seconds, of whatever a victim does
_EVENTS = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir")
_WRITES = os.O_WRONLY | os.O_RDWR
_TOLD = ("error: ", "FAILED: ", "Traceback")


@dataclasses.dataclass
class Victim:
    """A process at work, then how it ended."""

    pid: int
    log: pathlib.Path
    start: float
    code: int | None = None  # minus the signal's number
    seconds: float = 0.0

    @property
    def lines(self):
        return self.log.read_text("utf-8", "replace").splitlines()

    def wait(self, seconds=_DEADLINE):
        """Waits for its end; one that has not ended by the deadline hangs."""
        while self.code is None and self.seconds < seconds:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.seconds = time.monotonic() - self.start
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        if self.code is None and seconds == _DEADLINE:
            self.end_all()
            self.code = 124
        return self

    def session(self):
        """The process and those that it started, if they live."""
        processes = []
        for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == self.pid and fields[0] != "Z":
                processes.append(int(path.parent.name))
        return processes

    def end_all(self):
        for pid in self.session():
            os.kill(pid, signal.SIGKILL)

    def has_left_none(self):
        """Whether all that it started ends soon after it."""
        deadline = time.monotonic() + 30
        while self.session() and time.monotonic() < deadline:
            time.sleep(0.05)
        is_alone = not self.session()
        self.end_all()
        return is_alone

    def error(self):
        """The one line that a user must read; None if it is not so."""
        told = [line for line in self.lines if line.startswith(_TOLD)]
        # A study that goes on without a run has a line for each.
        is_clear = len({*told}) == 1 or all(line[0] == "F" for line in told)
        return told[0] if told and is_clear and told[0][0] != "T" else None


class _ForkContext(context_lib.ForkContext):
    def Pipe(self, duplex=True):
        ours, theirs = super().Pipe(duplex)
        # A sibling that kept it would keep others waiting for their end.
        util.register_after_fork(ours, type(ours).close)
        return ours, theirs


def start(command, log, prepare, environment=()):
    """Runs a script of scripts/ with arguments, after `prepare`, in a fork."""
    begin = time.monotonic()
    if pid := os.fork():
        return Victim(pid, log, begin)
    code = 0
    try:
        os.setsid()
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.environ.update(environment)
        context = _ForkContext()
        multiprocessing.get_context = lambda unused_method: context
        prepare()
        if command:
            script = tiny_run.REPOSITORY / "scripts" / f"{command[0]}.py"
            sys.argv = [str(script), *command[1:]]
            runpy.run_path(str(script), run_name="__main__")
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_change(number, folder):
    """Makes the n-th change of a file in a folder this process's last act.

    Each process of a pool counts its own.
    """
    counts = collections.Counter()
    # What is still unfinished has the folder's name in its own.
    parent, name = str(folder.parent), folder.name

    def watch(event, arguments):
        if event not in _EVENTS:
            return
        if event == "open" and not (arguments[2] or 0) & _WRITES:
            return
        path = str(arguments[0])
        # A folder's own files are removed by their names alone.
        is_relative = event in ("os.remove", "os.rmdir") and arguments[1] != -1
        is_inside = path.startswith(parent) and name in path[len(parent) :]
        if is_relative or is_inside:
            counts[os.getpid()] += 1
            if counts[os.getpid()] == number:
                _die()

    sys.addaudithook(watch)


def die_inside(place, call, seconds):
    """Kills so long after the n-th call of `module:Class.method` began."""
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, sys.modules[module])
    original, calls = getattr(owner, name), []

    def wrapper(*args, **kwargs):
        calls.append(True)
        if len(calls) == call:
            threading.Timer(seconds, _die).start()
        return original(*args, **kwargs)

    setattr(owner, name, wrapper)


def kill_after(victim, seconds, rng):
    """Kills it, or one that it has started, after a time."""
    victim.wait(seconds)
    if victim.code is None:
        os.kill(rng.choice(victim.session() or [victim.pid]), signal.SIGKILL)
