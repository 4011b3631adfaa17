"""A progress line with rate and time left, for terminals and for logs."""

import sys
import time
from typing import Any

import rich.console
import rich.progress

_LOG_SECONDS = 10.0


class ProgressLine:
    """Shows how far a phase has come, on standard error.

    A terminal gets a moving bar; anything else a line every ten seconds and
    one at the end. Rates count from the first report on, so that they do not
    depend on how long processes take to start.

    Args:
      title: what is being done.
      total: amount of work, in any unit.
      unit: what the displayed count and rate are of, for example "tokens".
    """

    def __init__(self, title: str, total: float, unit: str):
        self._title = title
        self._total = max(total, 1)
        self._unit = unit
        self._done = 0.0
        self._count = 0
        self._begin: float | None = None
        self._last_line = time.monotonic()
        self._last_line_done = 0.0
        self._bar: rich.progress.Progress | None = None
        self._bar_task: Any = None

    def __enter__(self) -> "ProgressLine":
        console = rich.console.Console(stderr=True)
        if console.is_terminal:
            self._bar = rich.progress.Progress(
                rich.progress.TextColumn("{task.description}"),
                rich.progress.BarColumn(),
                rich.progress.TaskProgressColumn(),
                rich.progress.TextColumn("{task.fields[status]}"),
                console=console,
            )
            self._bar.start()
            self._bar_task = self._bar.add_task(
                self._title, total=self._total, status=""
            )
        return self

    def __exit__(self, error_type: Any, *unused_error: Any) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif error_type is None and self._last_line_done < self._done:
            self._print_line()

    @property
    def seconds(self) -> float:
        """Time since the first report."""
        return 0.0 if self._begin is None else time.monotonic() - self._begin

    def advance(self, done: float, count: int) -> None:
        """Adds work done, and how much of the displayed unit that was."""
        if self._begin is None:
            self._begin = self._last_line = time.monotonic()
        self._done = min(self._done + done, self._total)
        self._count += count
        if self._bar is not None:
            self._bar.update(
                self._bar_task, completed=self._done, status=self._status()
            )
        elif time.monotonic() - self._last_line > _LOG_SECONDS:
            self._print_line()

    def _status(self) -> str:
        """Returns count, rate and time left."""
        rate = self._count / max(self.seconds, 1e-6)
        text = f"{self._count:,} {self._unit}, {rate:,.0f}/s"
        if 0 < self._done < self._total:
            left = self.seconds * (self._total / self._done - 1)
            text += f", {_format_seconds(left)} left"
        return text

    def _print_line(self) -> None:
        """Writes the state as one line of a log."""
        self._last_line = time.monotonic()
        self._last_line_done = self._done
        percent = 100 * self._done / self._total
        print(
            f"{self._title}: {percent:.0f} %, {self._status()}",
            file=sys.stderr,
            flush=True,
        )


def _format_seconds(seconds: float) -> str:
    """Returns `m:ss`, or `h:mm:ss` from an hour on."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}"
