"""How much computation a run takes, from its config alone."""

from electra_tf import config
from electra_tf.modeling import flops
from electra_tf.pretraining import model as model_lib


class Cost:
    """Training operations of a run, counted `original` or `exact`."""

    def __init__(
        self, settings: config.ExperimentConfig, convention: str = "exact"
    ) -> None:
        self.settings = settings
        self.convention = flops.Convention(convention, settings)
        self._objective = model_lib.find_objective(settings)
        self.phase_starts = self._objective.phases(settings)

    def row_flops(self, step: int = 0) -> float:
        """Operations of training on one row at a step."""
        return self._objective.training_flops(
            self.settings, self.convention, step
        )

    def step_flops(self, step: int = 0) -> float:
        """Operations of a step on the global batch."""
        return self.row_flops(step) * self.settings.training.train_batch_size

    def flops_until(self, num_steps: int) -> float:
        """Operations of the first `num_steps` steps of a run."""
        ends = (*self.phase_starts[1:], num_steps)
        return sum(
            max(0, min(end, num_steps) - start) * self.step_flops(start)
            for start, end in zip(self.phase_starts, ends, strict=True)
        )

    def run_flops(self) -> float:
        """Operations of the whole run."""
        return self.flops_until(self.settings.training.num_train_steps)

    def inference_flops(self) -> float:
        """Operations of the main network on one row."""
        return self._objective.main_flops(self.convention).forward
