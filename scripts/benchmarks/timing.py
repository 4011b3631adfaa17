"""Sides in processes of their own, which take turns; what came of it."""

import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_SCRIPTS = pathlib.Path(__file__).parent.parent
# Threads that have just worked wait for more, and slow down the other side.
_PAUSE_SECONDS = 0.3


@dataclasses.dataclass
class Side:
    """One of those that are compared: a module beside this, as a process."""

    name: str
    group: str  # of those compared with each other, such as a precision
    module: str
    description: Mapping[str, Any]  # for `side.serve`; `kind` names a builder
    python: str = sys.executable
    # As the side itself found them, when it had started.
    sizes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    flops_per_unit: float = 0.0
    startup_seconds: float | None = None
    # What it said: of its blocks, of its bytes at most, and of the operations
    # (`flops`) and bytes a second that the device can reach.
    rounds: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    peak_memory: int | None = None
    peak_rates: dict[str, float] = dataclasses.field(default_factory=dict)
    process: Any = None

    @contextlib.contextmanager
    def started(self) -> Iterator["Side"]:
        """Runs until the block ends; `ChildProcessError` if it ends."""
        print(f"Starting {self.name} {self.group}", file=sys.stderr)
        start = time.perf_counter()
        paths = [str(_SCRIPTS), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            # Otherwise the first side takes all memory of a GPU.
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        }
        command = [self.python, "-P", "-m", f"benchmarks.{self.module}"]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=environment
        ) as self.process:
            try:
                found = self._send(self.description)
                self.sizes, self.versions, self.flops_per_unit = found
                self.startup_seconds = time.perf_counter() - start
                yield self
            finally:
                self.process.kill()
                # What was not read any more would be written once more.
                with contextlib.suppress(BrokenPipeError):
                    self.process.stdin.close()

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method of the process returns: see `side.serve`."""
        return self._send([method, arguments])

    def _send(self, request: Any) -> Any:
        # If it has ended, reading says so.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self.process.stdin, flush=True)
        if line := self.process.stdout.readline():
            return json.loads(line)
        raise ChildProcessError(
            f"The side {self.name} must answer. It ended with "
            f"{self.process.wait()}; what it said stands above. For "
            "transformers, --peer_python must have torch and transformers."
        )


def require_same_work(sides: Sequence[Side]) -> None:
    """Raises `ValueError` unless all sides found equal sizes."""
    first, *others = sides
    for side in others:
        unlike = [
            f"{name}: {first.sizes.get(name)} and {side.sizes.get(name)}"
            for name in {**first.sizes, **side.sizes}
            if first.sizes.get(name) != side.sizes.get(name)
        ]
        if unlike:
            raise ValueError(
                "All sides must do the same work. Received of "
                f"{first.name} and {side.name}: {', '.join(unlike)}. Leave one "
                "out of --sides, or choose settings that both have."
            )


def take_turns(
    sides: Sequence[Side],
    blocks: Iterable[Sequence[Any]],
    pause: float = _PAUSE_SECONDS,
) -> None:
    """Gives every block of batches to each side; the first one warms up.

    So what else the machine does meets all of them, and what they measure
    between the blocks: how fast the device can be.
    """
    for number, block in enumerate(blocks):
        print(f"Round {number}" if number else "Warming up", file=sys.stderr)
        for side in sides:
            time.sleep(pause)
            reply = side.ask("step", block)
            if number:
                side.rounds.append(reply)
        for side in sides:
            if side.peak_memory is None:
                # Before products of large matrices add to it.
                side.peak_memory = side.ask("peak_memory")
            for name, rate in side.ask("peak_rates").items():
                best = max(rate, side.peak_rates.get(name, 0.0))
                side.peak_rates[name] = best


def time_starts(sides: Sequence[Side], num_rounds: int) -> None:
    """Starts every side once a round; a start ends with its first step."""
    for _ in range(num_rounds):
        for side in sides:
            with side.started():
                side.peak_memory = side.ask("peak_memory")
                processor = side.ask("processor_seconds")
            seconds, side.startup_seconds = [side.startup_seconds], None
            block = {"seconds": seconds, "units": [1], "processor": processor}
            side.rounds.append(block)
    require_same_work(sides)


def find_peak(sides: Iterable[Side], group: str, name: str) -> float:
    """The highest rate that any side of a group has measured; 0 for none."""
    rates = (s.peak_rates.get(name, 0.0) for s in sides if s.group == group)
    return max(rates, default=0.0)


def summarize(sides: Sequence[Side]) -> list[dict[str, Any]]:
    """What came of each side.

    `median`, `low` and `high` (5 % and 95 %) seconds of a batch, `processor`
    seconds of one, the `rate` of units at the median, `share_of_peak`, and
    `ratios`: how many times as long a unit takes as on the first side of the
    group, as median, lowest and highest of the rounds.
    """
    firsts: dict[str, Side] = {}
    found = []
    for side in sides:
        first = firsts.setdefault(side.group, side)
        seconds = np.concatenate([b["seconds"] for b in side.rounds])
        units = np.concatenate([b["units"] for b in side.rounds])
        low, median, high = np.quantile(seconds, (0.05, 0.5, 0.95)).tolist()
        rate = units.mean().item() / median
        flops = find_peak(sides, side.group, "flops")
        ratios = [
            _seconds_per_unit(block) / _seconds_per_unit(reference)
            for block, reference in zip(side.rounds, first.rounds, strict=True)
        ]
        processor = sum(block["processor"] for block in side.rounds)
        own = side.flops_per_unit or first.flops_per_unit
        share = rate * own / flops if flops else 0.0
        spread = statistics.median(ratios), min(ratios), max(ratios)
        found.append(
            {"median": median, "low": low, "high": high, "rate": rate}
            | {"processor": processor / len(seconds), "ratios": spread}
            | {"share_of_peak": share or None}
        )
    return found


def _seconds_per_unit(block: Mapping[str, Any]) -> float:
    pairs = zip(block["seconds"], block["units"], strict=True)
    return statistics.median(seconds / units for seconds, units in pairs)
