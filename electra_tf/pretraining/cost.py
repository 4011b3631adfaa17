"""Counts the operations of training a run."""

from electra_tf import config
from electra_tf.modeling import flops
from electra_tf.objectives import registry


class Cost:
    """Training operations of a run, counted `original` or `exact`."""

    def __init__(
        self, settings: config.ExperimentConfig, convention: str = "exact"
    ) -> None:
        settings = registry.complete(settings)
        self.settings = settings
        self._objective = registry.find(settings)
        self._phases = [
            (phase, flops.Convention(convention, phase.settings))
            for phase in config.split_phases(settings)
        ]
        self.convention = self._phases[-1][1]
        starts = {phase.start for phase, _ in self._phases}
        starts |= {*self._objective.stages(settings)}
        self.starts = tuple(sorted(starts))

    def row_flops(self, step: int = 0) -> float:
        """Operations of training on one row at a step."""
        phase, convention = self._find_phase(step)
        settings = phase.settings
        return self._objective.training_flops(settings, convention, step)

    def step_flops(self, step: int = 0) -> float:
        """Operations of a step on the global batch."""
        batch = self._find_phase(step)[0].settings.training.train_batch_size
        return self.row_flops(step) * batch

    def _find_phase(
        self, step: int
    ) -> tuple[config.RowPhase, flops.Convention]:
        return next(p for p in reversed(self._phases) if p[0].start <= step)

    def flops_until(self, num_steps: int) -> float:
        """Operations of the first `num_steps` steps of a run."""
        ends = (*self.starts[1:], num_steps)
        return sum(
            max(0, min(end, num_steps) - start) * self.step_flops(start)
            for start, end in zip(self.starts, ends, strict=True)
        )

    def run_flops(self) -> float:
        """Operations of the whole run."""
        return self.flops_until(self.settings.training.num_train_steps)

    def inference_flops(self) -> float:
        """Operations of the main network on one row."""
        return self._objective.main_flops(self.convention).forward
