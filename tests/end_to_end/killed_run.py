"""A run that is killed with kill -9 again and again, until it is done.

    python tests/end_to_end/killed_run.py CONFIG_JSON MODEL_DIR

Every attempt is a fork of a process that has imported TensorFlow and started
nothing, which saves most of a start's time. It is killed right before its n-th
change of the run's files, for each n of `CHANGES`; then one attempt may finish.
Each prints a line; the exit code is 0 if all ended as planned.
"""

import os
import pathlib
import signal
import sys
from typing import Any

from electra_tf import config
from electra_tf.pretraining import run

# The first are those of the claim of the folder; each save has about ten.
CHANGES = (1, 3, 6, 9, 12, 14, 15, 16, 17, 18, 19)
_EVENTS = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir")


def _kill_before(number: int, model_dir: str) -> None:
    """Makes the n-th change of a file or folder this process's last act."""
    count = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in _EVENTS:
            return
        is_reading = event == "open" and not (
            arguments[2] & (os.O_WRONLY | os.O_RDWR)
        )
        # A folder's own files are removed by their names alone.
        is_relative = event in ("os.remove", "os.rmdir") and arguments[1] != -1
        if is_reading or not (is_relative or model_dir in str(arguments[0])):
            return
        count += 1
        if count == number:
            name = pathlib.Path(str(arguments[0])).name
            print(f"killed before {event} of {name}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def _attempt(number: int, settings: Any, model_dir: pathlib.Path) -> int:
    """Trains in a process of its own; returns its exit code."""
    process = os.fork()
    if process == 0:
        code = 70
        try:
            if number:
                _kill_before(number, str(model_dir))
            code = 0 if run.pretrain(settings, model_dir) else 71
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main() -> int:
    """Runs what the command line says; returns the exit code."""
    text, model_dir = map(pathlib.Path, sys.argv[1:])
    settings = config.from_json(text.read_text())
    codes = [_attempt(number, settings, model_dir) for number in CHANGES]
    last = _attempt(0, settings, model_dir)
    print(f"exit codes {codes}, and {last} of the last attempt")
    return 0 if set(codes) == {-signal.SIGKILL} and last == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
