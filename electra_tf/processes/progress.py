"""Progress: a bar in a terminal, lines in a log."""

import time
from typing import Any, Self

import rich.console
import rich.progress


class TimeLeft:
    """Estimates the remaining time of work from its rate so far.

    The rate is measured from the first call of `estimate` on, without the time
    in which processes start or functions are traced.
    """

    def __init__(self, total: float) -> None:
        self._total = total
        self._first: tuple[float, float] | None = None

    def estimate(self, done: float) -> float | None:
        """Returns the seconds left; None before a rate is known."""
        now = time.monotonic()
        self._first = self._first or (done, now)
        first, start = self._first
        if done == first:
            return None
        return (now - start) / (done - first) * (self._total - done)


class ProgressBar:
    """Shows the share of the work that is done, and a status.

    A terminal shows a bar; a log gets a line every `log_seconds`. A transient
    bar is short and removed in the end; its log lines become rarer.
    """

    def __init__(
        self,
        title: str,
        log_seconds: float = 10.0,
        is_error: bool = True,
        is_transient: bool = False,
    ) -> None:
        self._title = title
        self._log_seconds = log_seconds
        self._growth = 3 if is_transient else 1
        self._console = rich.console.Console(stderr=is_error)
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(14 if is_transient else 40),
            rich.progress.TaskProgressColumn(),
            rich.progress.TextColumn("{task.fields[status]}", markup=False),
            console=self._console,
            refresh_per_second=2,
            transient=is_transient,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=1, status="")
        self._last_line = time.monotonic()
        self._unprinted = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *unused_error: Any) -> None:
        self._bar.stop()

    def show(self, share: float, status: str) -> None:
        """Updates the bar; `share` goes from 0 to 1."""
        if not self._bar.disable:
            self._bar.update(self._task, completed=share, status=status)
            return
        self._unprinted = f"{self._title}: {100 * share:.0f} %, {status}"
        if time.monotonic() - self._last_line > self._log_seconds:
            self.say(self._unprinted)
            self._last_line, self._unprinted = time.monotonic(), ""
            self._log_seconds *= self._growth

    def say(self, text: str) -> None:
        """Prints a permanent line."""
        self._console.print(
            text, markup=False, highlight=False, emoji=False, soft_wrap=True
        )


class WorkProgress(ProgressBar):
    """Shows the share of the work done, its rate and the time left."""

    def __init__(self, title: str, total: float, unit: str) -> None:
        super().__init__(title)
        self._total = max(total, 1)
        self._unit = unit
        self._done, self._count = 0.0, 0
        self._begin: float | None = None
        self._time_left = TimeLeft(self._total)

    def __exit__(self, error_type: Any, *unused_error: Any) -> None:
        if error_type is None and self._begin is not None:
            # The total is an estimate; at the end all work is done.
            self.advance(self._total - self._done, 0)
            if self._unprinted:  # the last line of a log
                self.say(self._unprinted)
        super().__exit__(error_type, *unused_error)

    def advance(self, done: float, count: int) -> None:
        """Adds finished work, and its count in the displayed unit."""
        now = time.monotonic()
        if self._begin is None:
            self._begin = self._last_line = now
        self._done = min(self._done + done, self._total)
        self._count += count
        rate = self._count / max(now - self._begin, 1e-6)
        left = self._time_left.estimate(self._done)
        ending = f", {format_time(left)} left" if left else ""
        status = f"{self._count:,} {self._unit}, {rate:,.0f}/s{ending}"
        self.show(self._done / self._total, status)


def format_time(seconds: float | None) -> str:
    """Formats a duration as `h:mm:ss`, from one day on with days.

    >>> format_time(3725), format_time(400_000), format_time(None)
    ('1:02:05', '4d 15:06', '-')
    """
    if seconds is None:
        return "-"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours < 24:
        return f"{hours}:{minute:02d}:{second:02d}"
    return f"{hours // 24}d {hours % 24:02d}:{minute:02d}"
