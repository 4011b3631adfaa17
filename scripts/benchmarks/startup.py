"""From the start of a process to the end of its first step, anew each time."""

from collections.abc import Sequence

from benchmarks import timing


def run(sides: Sequence[timing.Side], num_rounds: int) -> None:
    """Starts every side once a round, one after another."""
    for _ in range(num_rounds):
        for side in sides:
            with side.started():
                side.peak_memory = side.ask("peak_memory")
                processor = side.ask("processor_seconds")
            side.rounds.append(
                {
                    "seconds": [side.startup_seconds],
                    "units": [1],
                    "processor": processor,
                }
            )
    timing.require_same_work(sides)
