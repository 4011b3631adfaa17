"""SIGTERM, SIGINT, SIGHUP end a run between two steps; a second one kills it.

A second SIGHUP does nothing: a closed terminal and its shell both send one.
Python runs signal handlers between its own instructions, but a call of the
compiled loop may take a minute. So a thread reads the bytes that the
interpreter writes to a pipe for every signal.
"""

import os
import signal
import sys
import threading
from typing import Any

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopRequest:
    """Remembers the name of a signal that asked the run to end.

    A context manager for the main thread: the signals are handled inside.
    """

    def __init__(self) -> None:
        self.signal_name = ""
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._previous_fd = signal.set_wakeup_fd(self._writer)
        is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        for number in _SIGNALS[:2] if is_ignored else _SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)
        self._terminals = [fd for fd in (1, 2) if os.isatty(fd)]
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_fd)
        # The end of the pipe ends the thread.
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    def _handle(self, number: int, *_: object) -> None:
        # After SIGHUP the terminal is closed, and printing to it would fail.
        for fd in self._terminals if number == signal.SIGHUP else ():
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        self.signal_name = signal.Signals(number).name

    def _watch(self) -> None:
        has_come = False
        while received := os.read(self._reader, 1):
            number = received[0]
            is_repeated = has_come and number == signal.SIGHUP
            if is_repeated or number not in self._previous:
                continue
            if has_come:
                # Only the steps since the last checkpoint are lost.
                if sys.stdout.isatty():
                    print("\033[?25h", end="", flush=True)  # Shows the cursor.
                os._exit(128 + number)
            has_come = True
            self._handle(number)
            print(
                f"{self.signal_name}: saving and ending after the current "
                "steps. A second signal ends at once, without saving.",
                file=sys.stderr,
                flush=True,
            )
