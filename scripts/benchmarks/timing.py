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
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

_SCRIPTS = pathlib.Path(__file__).parent.parent
# Threads that have just worked wait for more, and slow down the other side.
_PAUSE_SECONDS = 0.3


@dataclasses.dataclass
class Side:
    """One of those that are compared."""

    name: str
    # What is compared with each other: a precision, a batch size.
    group: str
    # Takes the name of a method and its arguments: see `side.serve`.
    ask: Callable[..., Any]
    # Of the work, as the side itself found them.
    sizes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    startup_seconds: float | None = None
    # Operations of matrix products; of peers, the first side's count.
    flops_per_unit: float = 0.0
    rounds: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    peak_memory: int | None = None
    # Products and bytes moved a second, the highest seen: `flops`, `bytes`.
    peak_rates: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Summary:
    """What a side has shown; times in seconds, rates in units a second."""

    name: str
    group: str
    median: float
    low: float  # the 5 % quantile
    high: float  # the 95 % quantile
    processor: float  # mean seconds of all processors
    rate: float  # at the median
    share_of_peak: float | None  # of the matrix products
    peak_memory: int | None  # bytes
    startup_seconds: float | None
    # How many times as long a unit takes as on the group's first side: median,
    # lowest and highest of the rounds.
    ratio: float
    ratio_low: float
    ratio_high: float


@dataclasses.dataclass(frozen=True)
class Program:
    """What is run as a side: a module of this folder, and what it builds."""

    name: str
    group: str
    module: str
    description: Mapping[str, Any]  # as JSON; `kind` names a builder
    python: str = sys.executable

    @contextlib.contextmanager
    def start(self) -> Iterator[Side]:
        """Runs it until the block ends; raises `RuntimeError` if it ends."""
        start = time.perf_counter()
        command = [self.python, "-P", "-m", f"benchmarks.{self.module}"]
        paths = [str(_SCRIPTS), os.environ.get("PYTHONPATH", "")]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            # Otherwise the first side takes all memory of a GPU.
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        }
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, env=environment
        ) as process:
            try:
                sizes, versions, flops = self._ask(process, self.description)
                yield Side(
                    self.name,
                    self.group,
                    lambda name, *rest: self._ask(process, [name, rest]),
                    sizes,
                    versions,
                    time.perf_counter() - start,
                    flops,
                )
            finally:
                process.kill()

    def _ask(self, process: Any, request: Any) -> Any:
        # If it has ended, reading says so.
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(request), file=process.stdin, flush=True)
        if line := process.stdout.readline():
            return json.loads(line)
        raise RuntimeError(
            f"The side {self.name} must answer. It ended with "
            f"{process.wait()}; what it said stands above. transformers and "
            "torch must be installed where --peer_python is; a side that takes "
            "too much memory can be left out of --sides."
        )


def start_all(
    programs: Iterable[Program], stack: contextlib.ExitStack
) -> list[Side]:
    """Starts programs one after another; they end with the stack."""
    sides = []
    for program in programs:
        print(f"Starting {program.name} {program.group}", file=sys.stderr)
        sides.append(stack.enter_context(program.start()))
    require_same_work(sides)
    return sides


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

    So what else the machine does meets all of them. Between the blocks, sides
    that can measure what the device could do, as often as they work.
    """
    for number, block in enumerate(blocks):
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


def find_peak(sides: Iterable[Side], group: str, name: str) -> float:
    """The highest rate that any side of a group has measured; 0 for none."""
    rates = (s.peak_rates.get(name, 0.0) for s in sides if s.group == group)
    return max(rates, default=0.0)


def summarize(sides: Sequence[Side]) -> list[Summary]:
    """Medians, spreads and ratios of all sides, in their order."""
    firsts: dict[str, Side] = {}
    return [
        _summarize(side, firsts.setdefault(side.group, side), sides)
        for side in sides
    ]


def _summarize(side: Side, first: Side, sides: Sequence[Side]) -> Summary:
    seconds = np.concatenate([block["seconds"] for block in side.rounds])
    units = np.concatenate([block["units"] for block in side.rounds])
    median = float(np.median(seconds))
    rate = float(units.mean()) / median
    peak = find_peak(sides, side.group, "flops")
    ratios = [
        _seconds_per_unit(own) / _seconds_per_unit(reference)
        for own, reference in zip(side.rounds, first.rounds, strict=True)
    ]
    return Summary(
        side.name,
        side.group,
        median,
        float(np.quantile(seconds, 0.05)),
        float(np.quantile(seconds, 0.95)),
        sum(block["processor"] for block in side.rounds) / len(seconds),
        rate,
        rate * first.flops_per_unit / peak if peak else None,
        side.peak_memory,
        side.startup_seconds,
        statistics.median(ratios),
        min(ratios),
        max(ratios),
    )


def _seconds_per_unit(block: Mapping[str, Any]) -> float:
    pairs = zip(block["seconds"], block["units"], strict=True)
    return statistics.median(seconds / units for seconds, units in pairs)
