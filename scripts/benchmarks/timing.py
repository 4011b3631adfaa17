"""Times programs that do the same work in turn, each in its own process."""

import contextlib
import dataclasses
import itertools
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
# Threads that have just worked spin for a while and slow down the other side.
_PAUSE_SECONDS = 0.3
_NUM_WARM_UP_BATCHES = 3


@dataclasses.dataclass
class Side:
    """One of the programs that are compared, in a process of its own."""

    name: str  # shown in the table
    group: str  # sides of one group are compared with each other (a precision)
    description: Mapping[str, Any]  # for `side.serve`; `kind` names the builder
    module: str = "ours"  # of this folder; it calls `side.serve`
    python: str = sys.executable  # the interpreter
    # The process reports these four when it has started.
    sizes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    flops_per_unit: float = 0.0
    startup_seconds: float | None = None
    # Seconds and units of each block of batches.
    rounds: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    peak_memory: int | None = None  # bytes that the process used at most
    # `flops` and `bytes` a second that the device can reach.
    peak_rates: dict[str, float] = dataclasses.field(default_factory=dict)
    process: Any = None

    @contextlib.contextmanager
    def started(self) -> Iterator["Side"]:
        """Runs the process until the block ends, or it ends: an error."""
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
                built = self._send(self.description)
                self.sizes, self.versions, self.flops_per_unit = built
                self.startup_seconds = time.perf_counter() - start
                yield self
            finally:
                self.process.kill()
                # Closing flushes what the process did not read.
                with contextlib.suppress(BrokenPipeError):
                    self.process.stdin.close()

    def ask(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the process (`side.serve`), returns its result."""
        return self._send([method, arguments])

    def _send(self, request: Any) -> Any:
        # If the process has ended, `readline` below returns nothing.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=self.process.stdin, flush=True)
        if line := self.process.stdout.readline():
            return json.loads(line)
        raise ChildProcessError(
            f"{self.name} ended with exit code {self.process.wait()}; its own "
            "message stands above. For transformers, --peer_python must name "
            "an interpreter with torch and transformers."
        )


def require_same_work(sides: Sequence[Side]) -> None:
    """Raises `ValueError` unless all sides report equal sizes."""
    first, *others = sides
    for side in others:
        pairs = {
            name: (first.sizes.get(name), side.sizes.get(name))
            for name in {**first.sizes, **side.sizes}
        }
        unlike = [f"{n}: {a} and {b}" for n, (a, b) in pairs.items() if a != b]
        if unlike:
            raise ValueError(
                "All sides must do the same work. Received of "
                f"{first.name} and {side.name}: {', '.join(unlike)}. Leave one "
                "out of --sides, or choose settings that both have."
            )


def largest_difference(sides: Sequence[Side], texts: Sequence[str]) -> float:
    """Returns the largest difference of the probabilities of two sides."""
    first, second = (side.ask("answer", list(texts)) for side in sides)
    largest = 0.0
    for text, here, there in zip(texts, first, second, strict=True):
        if len(here) != len(there):
            raise ValueError(
                "Both sides must split a text into the same tokens. Received: "
                f"{len(here)} and {len(there)} for {text!r}. Take one "
                "vocabulary and the same tokenizer settings."
            )
        largest = max(largest, float(np.abs(np.subtract(here, there)).max()))
    return largest


def deal(
    texts: Sequence[str], batch_size: int, num_batches: int, num_rounds: int
) -> Iterator[list[list[str]]]:
    """Yields blocks of batches, the warm-up first; texts repeat endlessly."""
    remaining = itertools.cycle(texts)
    for count in [_NUM_WARM_UP_BATCHES, *[num_batches] * num_rounds]:
        batches = (
            itertools.islice(remaining, batch_size) for _ in range(count)
        )
        yield [*map(list, batches)]


def take_turns(
    sides: Sequence[Side],
    blocks: Iterable[Sequence[Any]],
    pause: float = _PAUSE_SECONDS,
) -> None:
    """Gives every block of batches to each side in turn; the first warms up.

    In turn, so that other work on the machine disturbs all of them alike.
    Between the blocks each measures the peak rates of the device.
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
                # Asked first: measuring peak rates takes memory too.
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
    """Returns the highest rate that a side of a group measured, or 0."""
    rates = (s.peak_rates.get(name, 0.0) for s in sides if s.group == group)
    return max(rates, default=0.0)


def summarize(sides: Sequence[Side]) -> list[dict[str, Any]]:
    """Summarizes the rounds of each side.

    Seconds of a batch are `median`, `low` and `high` (5 % and 95 %) and
    `processor`; `rate` is units a second at the median. `ratios` are the time
    of a unit relative to the first side of the group: median, lowest and
    highest of the rounds.
    """
    firsts: dict[str, Side] = {}
    summaries = []
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
        summaries.append(
            {
                "median": median,
                "low": low,
                "high": high,
                "rate": rate,
                "processor": processor / len(seconds),
                "share_of_peak": (flops and rate * own / flops) or None,
                "ratios": (statistics.median(ratios), min(ratios), max(ratios)),
            }  # fmt: skip
        )
    return summaries


def _seconds_per_unit(block: Mapping[str, Any]) -> float:
    pairs = zip(block["seconds"], block["units"], strict=True)
    return statistics.median(seconds / units for seconds, units in pairs)
