"""Runs that are killed with kill -9 again and again, until they are done.

    python tests/end_to_end/killed_run.py points CONFIG_JSON MODEL_DIR
    python tests/end_to_end/killed_run.py instants CONFIG_JSON MODEL_DIR SEED

Every attempt is a fork of a process that has imported TensorFlow and started
nothing, which saves most of a start's time. `points` kills one attempt at each
of `POINTS`, `instants` at random instants of the training; both then let one
attempt finish. Each attempt prints a line; the exit code is 0 if all ended as
planned.
"""

import os
import pathlib
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from electra_tf import config
from electra_tf.pretraining import run
from electra_tf.records import atomic
from electra_tf.training import checkpoints
from electra_tf.training import reporting

# Owner, function, which call of it, and whether the kill comes after the call.
# The numbers skip what is called on the way there: saving the vocabulary calls
# `replace` and (in vain) `unlink` twice.
POINTS: dict[str, tuple[Any, str, int, bool]] = {
    "while the folder is claimed": (atomic, "remove_partial", 1, False),
    "before the first line": (reporting, "_append", 1, False),
    "after the variables": (tf.raw_ops, "SaveV2", 1, True),
    "before the name": (pathlib.Path, "rename", 1, False),
    "after the name": (checkpoints, "_flush", 5, True),
    "between line and save": (run._Run, "save", 2, False),
    "before the evaluation": (run._Run, "evaluate", 1, False),
    "between evaluation and line": (run._Run, "evaluate", 1, True),
    "halfway through the oldest": (os, "unlink", 3, True),
    "while old lines are dropped": (os, "replace", 3, False),
    "in the middle of a line": (reporting, "_append", 3, False),
}


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def _kill_at(owner: Any, name: str, number: int, is_after: bool) -> None:
    """Makes the n-th call of a function this process's last act."""
    original, calls = getattr(owner, name), []

    def call(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        is_last = len(calls) == number
        if is_last and name == "_append":
            path, text = arguments
            with path.open("a") as file:
                file.write(text[: len(text) // 2])
        if is_last and not is_after:
            _kill()
        result = original(*arguments, **options)
        if is_last:
            _kill()
        return result

    setattr(owner, name, call)


def _fork(prepare_fn: Callable[[], None], arguments: tuple) -> int:
    """Starts an attempt in a process of its own; returns its id."""
    process = os.fork()
    if process == 0:
        code = 70
        try:
            prepare_fn()
            code = 0 if run.pretrain(*arguments) else 71
        finally:
            sys.stdout.flush()
            os._exit(code)
    return process


def _wait(process: int) -> int:
    """The exit code of an attempt, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _kill_at_points(arguments: tuple) -> bool:
    is_as_planned = True
    for name, point in POINTS.items():
        code = _wait(_fork(lambda p=point: _kill_at(*p), arguments))
        print(f"killed {name}: exit code {code}", flush=True)
        is_as_planned &= code == -signal.SIGKILL
    return is_as_planned


def _kill_at_instants(arguments: tuple, seed: int, count: int = 5) -> bool:
    """Kills soon after an attempt's first save, until one was too fast."""
    generator = random.Random(seed)
    num_killed = 0
    for _ in range(count):
        before = checkpoints.latest(arguments[1])
        process = _fork(lambda: None, arguments)
        while checkpoints.latest(arguments[1]) == before:
            time.sleep(0.001)
        time.sleep(generator.uniform(0.0, 0.15))
        os.kill(process, signal.SIGKILL)
        code = _wait(process)
        after = checkpoints.latest(arguments[1])
        unfinished = [path.name for path in after.parent.glob(".*")]
        print(f"exit code {code} after {after.name}, left {unfinished}")
        num_killed += code == -signal.SIGKILL
        if code != -signal.SIGKILL:
            break
    return num_killed >= 2


def main() -> int:
    """Runs what the command line says; returns the exit code."""
    how, text, model_dir = sys.argv[1:4]
    settings = config.from_json(pathlib.Path(text).read_text())
    arguments = (settings, pathlib.Path(model_dir))
    if how == "points":
        is_as_planned = _kill_at_points(arguments)
    else:
        is_as_planned = _kill_at_instants(arguments, int(sys.argv[4]))
    code = _wait(_fork(lambda: None, arguments))
    print(f"the last attempt: exit code {code}")
    return 0 if is_as_planned and code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
