"""Which run of how many a study is at, and how long it will take.

The time left comes from the seconds that finished runs took; arms that have
none yet are judged by their operations.
"""

import json
import pathlib
import time
from collections.abc import Mapping
from collections.abc import Sequence

from electra_tf.analysis import study_plan
from electra_tf.analysis import study_run
from electra_tf.processes import progress

_LINE_SECONDS = 60.0
_UPDATE_SECONDS = 2.0


class StudyProgress(progress.ProgressBar):
    """Prints a line for every event, and a bar that is kept up to date.

    Args:
        arms: name to planned arm.
        requests: all runs of the study.
        num_parallel: runs at a time.
    """

    def __init__(
        self,
        arms: Mapping[str, study_plan.PlannedArm],
        requests: Sequence[study_run.RunRequest],
        num_parallel: int,
    ) -> None:
        super().__init__("Study", _LINE_SECONDS, is_error=False)
        self._arms = arms
        self._requests = requests
        self._num_parallel = num_parallel
        self._number = {
            request.folder: index
            for index, request in enumerate(requests, start=1)
        }
        # Arm to the wall-clock seconds of its runs made in this session, and
        # of those found finished; the latter are without their start.
        self._seconds: dict[str, list[float]] = {}
        self._is_done: set[str] = set()
        self._begun: dict[str, tuple[float, float]] = {}
        self._next_update = 0.0

    def announce(self) -> None:
        """Says what is there already and what remains."""
        for request in self._requests:
            result = study_run.read_result(request.path)
            if result is not None:
                self._is_done.add(request.folder)
                self._seconds.setdefault(request.arm, []).append(result.seconds)
        count = len(self._is_done)
        if count:
            self.say(
                f"{count} of {len(self._requests)} runs are finished already."
            )

    def started(self, request: study_run.RunRequest) -> None:
        """A run begins, or goes on from its last checkpoint."""
        fraction = self._fraction(request)
        self._begun[request.folder] = (time.monotonic(), fraction)
        steps = self._arms[request.arm].num_steps
        verb = f"goes on at step {round(fraction * steps)}" if fraction else ""
        self.say(f"{self._title_of(request)} {verb or 'starts'}.")

    def finished(
        self, request: study_run.RunRequest, result: study_run.RunResult
    ) -> None:
        """A run has its result."""
        begun, fraction = self._begun.pop(request.folder)
        seconds = time.monotonic() - begun
        if fraction:  # A part of the run was made before.
            seconds = max(seconds, result.seconds)
        self._is_done.add(request.folder)
        self._seconds.setdefault(request.arm, []).append(seconds)
        scores = ", ".join(f"{k} {v:.3f}" for k, v in result.tasks.items())
        loss = result.held_out.get("loss")
        if not scores and loss is not None:
            scores = f"held-out loss {loss:.3f}"
        left = progress.format_time(self.seconds_left([]))
        self.say(
            f"{self._title_of(request)} finished in "
            f"{progress.format_time(seconds)}: {scores or 'no measures'}. "
            f"Study: {len(self._is_done)}/{len(self._requests)}, {left} left."
        )

    def failed(
        self, request: study_run.RunRequest, reason: str, log: pathlib.Path
    ) -> None:
        """A run ended without a result."""
        self._begun.pop(request.folder, None)
        self._is_done.add(request.folder)
        self.say(f"{self._title_of(request)} FAILED: {reason} See {log}.")

    def update(self, active: Sequence[study_run.RunRequest]) -> None:
        """Brings the bar up to date.

        Args:
            active: the runs in progress.
        """
        if not active or time.monotonic() < self._next_update:
            return
        self._next_update = time.monotonic() + _UPDATE_SECONDS
        parts, share = [], float(len(self._is_done))
        for request in active:
            fraction = self._fraction(request)
            steps = self._arms[request.arm].num_steps
            done = round(fraction * steps)
            what = f"step {done}/{steps}" if done < steps else "measuring"
            parts.append(f"{self._title_of(request)} {what}")
            share += fraction
        left = progress.format_time(self.seconds_left(active))
        self.show(
            share / len(self._requests), f"{'; '.join(parts)}; {left} left"
        )

    def seconds_left(
        self, active: Sequence[study_run.RunRequest]
    ) -> float | None:
        """Estimate for all runs not yet finished; None before any is known.

        Args:
            active: the runs in progress.
        """
        running = {request.folder: request for request in active}
        left = 0.0
        for request in self._requests:
            if request.folder in self._is_done:
                continue
            seconds = self._estimate(request.arm, active)
            if seconds is None:
                return None
            if request.folder in running:
                seconds *= 1 - self._fraction(request)
            left += seconds
        return left / self._num_parallel

    def _estimate(
        self, arm: str, active: Sequence[study_run.RunRequest]
    ) -> float | None:
        """Seconds of a whole run of an arm."""
        known = self._seconds.get(arm)
        if known:
            return sum(known) / len(known)
        flops = self._arms[arm].flops
        seconds = sum(sum(values) for values in self._seconds.values())
        work = sum(
            len(values) * self._arms[name].flops
            for name, values in self._seconds.items()
        )
        if not work:
            for request in active:
                begun, before = self._begun[request.folder]
                done = self._fraction(request) - before
                if done > 0:
                    seconds += time.monotonic() - begun
                    work += done * self._arms[request.arm].flops
        return seconds / work * flops if work else None

    def _title_of(self, request: study_run.RunRequest) -> str:
        number = self._number[request.folder]
        return (
            f"Run {number}/{len(self._requests)} {request.arm}, "
            f"seed {request.seed}:"
        )

    def _fraction(self, request: study_run.RunRequest) -> float:
        """Part of a run's training steps that its metrics speak of."""
        path = request.path / study_run.MODEL_FOLDER / "metrics.jsonl"
        if not path.is_file():
            return 0.0
        for text in reversed(path.read_text("utf-8").splitlines()):
            try:
                step = json.loads(text)["step"]
            except ValueError:  # A line that is being written.
                continue
            return step / self._arms[request.arm].num_steps
        return 0.0
