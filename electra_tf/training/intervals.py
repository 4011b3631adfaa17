"""When the host acts: one tested rule for logs, checkpoints, evaluations."""

import dataclasses


def is_due(step: int, every: int, total: int) -> bool:
    """Whether something that happens `every` so many steps happens at `step`.

    Args:
        step: updates made so far, from 1.
        every: its period in steps; 0 is never.
        total: last step of the run, at which everything is due.
    """
    return every > 0 and (step % every == 0 or step == total)


@dataclasses.dataclass(frozen=True)
class Intervals:
    """Periods of a run, in steps; 0 is never.

    Attributes:
        total: last step.
        steps_per_loop: most steps per call of the compiled loop.
        log, evaluate, save: periods.
        stops: further steps that a call must not run past, and that are
            logged, because another phase begins there.
    """

    total: int
    steps_per_loop: int
    log: int
    evaluate: int
    save: int
    stops: tuple[int, ...] = ()

    def logs_at(self, step: int) -> bool:
        """Whether the metrics of the steps so far are due at a step."""
        return is_due(step, self.log, self.total) or step in self.stops

    def num_next_steps(self, step: int) -> int:
        """Steps from `step` until the host must act again."""
        periods = (self.log, self.evaluate, self.save)
        until = [every - step % every for every in periods if every > 0]
        until += [stop - step for stop in self.stops if stop > step]
        return min(self.steps_per_loop, self.total - step, *until)
