"""From the start of a process to the end of its first step, anew each time."""

import sys
from collections.abc import Sequence

from benchmarks import timing


def run(
    programs: Sequence[timing.Program], num_rounds: int
) -> list[timing.Side]:
    """Starts every program once a round, one after another."""
    rounds: list[list[timing.Side]] = []
    for number in range(num_rounds):
        print(f"Round {number + 1} of {num_rounds}", file=sys.stderr)
        rounds.append([])
        for program in programs:
            with program.start() as side:
                side.peak_memory = side.ask("peak_memory")
                block = {
                    "seconds": [side.startup_seconds],
                    "units": [1],
                    "processor": side.ask("processor_seconds"),
                }
            side.rounds.append(block)
            rounds[-1].append(side)
    sides = rounds[0]
    timing.require_same_work(sides)
    for side, *others in zip(*rounds, strict=True):
        side.rounds += [other.rounds[0] for other in others]
        side.startup_seconds = None  # What is timed, not a column beside it.
    return sides
