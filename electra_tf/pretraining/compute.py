"""How much computation a run takes, from its config alone."""

from electra_tf import config
from electra_tf.inputs import masking
from electra_tf.modeling import flops
from electra_tf.pretraining import objective as objective_lib


class Compute:
    """Training operations of a run, in one convention.

    Args:
        settings: the whole config, `encoder.vocab_size` resolved.
        convention: a key of `flops.CONVENTIONS`.

    Raises:
        ValueError: if the vocabulary's size is open, or the settings do not
            fit the objective.
    """

    def __init__(
        self, settings: config.ExperimentConfig, convention: str = "exact"
    ) -> None:
        length = settings.data.max_seq_length
        sizes = flops.Sizes(
            settings.encoder,
            settings.generator,
            length,
            masking.max_predictions_per_seq(settings.masking.mask_prob, length),
        )
        self.settings = settings
        self.convention = flops.CONVENTIONS[convention](sizes)
        self.objective = objective_lib.build_objective(settings)

    def row_flops(self, step: int = 0) -> float:
        """Operations of training on one row at a step."""
        return self.objective.training_flops(self.convention, step)

    def step_flops(self, step: int = 0) -> float:
        """Operations of a step on the global batch."""
        return self.row_flops(step) * self.settings.training.train_batch_size

    def flops_until(self, num_steps: int) -> float:
        """Operations of the first `num_steps` steps of a run."""
        starts = self.objective.phase_starts
        ends = (*starts[1:], num_steps)
        return sum(
            max(0, min(end, num_steps) - start) * self.step_flops(start)
            for start, end in zip(starts, ends, strict=True)
        )

    def run_flops(self) -> float:
        """Operations of the whole run."""
        return self.flops_until(self.settings.training.num_train_steps)

    def inference_flops(self) -> float:
        """Operations of the main tower on one row."""
        return self.objective.inference_flops(self.convention)
