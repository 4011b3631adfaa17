"""What every training does around its loop: restore, tell, save, end.

Pre-training and a trial of fine-tuning fill in the rest.
"""

import abc
import pathlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from electra_tf.training import checkpoints
from electra_tf.training import distribution
from electra_tf.training import intervals as intervals_lib
from electra_tf.training import loop as loop_lib
from electra_tf.training import reporting
from electra_tf.training import step as step_lib
from electra_tf.training import stopping


class TrainingRun(abc.ABC):
    """One training in a folder, resumable at any time to the bit.

    Args:
        settings: how to train and how often to log, evaluate and save.
        strategy: where; the model was built in its scope.
        model: with its optimizer built.
        folder: for checkpoints and metrics.
        num_steps: the last step.
        evaluates: whether there is held-out data.

    Attributes:
        start_step: updates that were made before this process.
        best_step: step of the best evaluation so far; None before the first.
        is_finished: whether no further step is wanted.
        report: where metrics and sentences go while it runs.
    """

    late_metrics: tuple[str, ...] = ("tokens_per_second", "share_of_peak")
    """Metrics that the first line of the printed table does not have."""

    report: reporting.RunReport

    def __init__(
        self,
        settings: distribution.Settings,
        strategy: tf.distribute.Strategy,
        model: step_lib.TrainableModel,
        folder: pathlib.Path,
        num_steps: int,
        evaluates: bool = True,
    ) -> None:
        self.strategy = strategy
        self.model = model
        self.folder = folder
        self.num_steps = num_steps
        self.is_chief = distribution.is_chief(strategy)
        self.device = distribution.device_description(strategy)
        self.loop = loop_lib.TrainingLoop(
            strategy, model, distribution.compiles_with_xla(settings)
        )
        self.start_step = 0
        self.best_step: int | None = None
        self.is_finished = False
        self._training = settings
        self._intervals = intervals_lib.Intervals(
            total=num_steps,
            steps_per_loop=settings.steps_per_loop,
            log=settings.log_steps,
            evaluate=settings.eval_steps if evaluates else 0,
            save=settings.save_checkpoints_steps,
            stops=model.phase_starts,
        )

    def run(self, stop: stopping.StopRequest) -> bool:
        """Trains from the newest checkpoint to the last step.

        Args:
            stop: a signal that asks to stop; all is saved then.

        Returns:
            True if the training is done.

        Raises:
            ModelError: if the newest checkpoint is damaged, or is of
                another training.
            NonFiniteLossError: if the loss stops being a number.
            MemoryError: if a batch does not fit into the device.
        """
        origin = self._restore()
        self.report = reporting.RunReport(
            self.folder if self.is_chief else None,
            self.start_step,
            self.num_steps,
            self.late_metrics,
        )
        with self.report, distribution.naming_lost_workers(self.strategy):
            self.report.say(self.describe(origin))
            return self.is_finished or self._train(stop)

    def _restore(self) -> str:
        """Takes up what an earlier process left; returns where from."""
        newest = checkpoints.latest(self.folder)
        step = checkpoints.step_of(newest) if newest else 0
        distribution.require_same_step(self.strategy, step)
        if newest is None:
            return self.begin()
        state = checkpoints.load_state(newest)
        self.resume(state, newest)
        checkpoints.restore(newest, self.loop.variables())
        self.start_step, self.best_step = state["step"], state["best_step"]
        return f"resumed from {newest}"

    def _train(self, stop: stopping.StopRequest) -> bool:
        dataset = distribution.distribute_endless(
            self.strategy, self.build_dataset
        )
        try:
            return self.loop.run(
                iter(dataset), self._intervals, self, self.report, stop
            )
        except tf.errors.ResourceExhaustedError as error:
            number = self._training.num_micro_batches
            raise MemoryError(
                "The device has too little memory for train_batch_size="
                f"{self._training.train_batch_size} in num_micro_batches="
                f"{number}. Set --config.training.num_micro_batches="
                f"{2 * number}: the result is that of the whole batch, with "
                "other dropout bits."
            ) from error

    def save(self, step: int) -> None:
        """Writes the checkpoint of a step."""
        if self.is_chief:
            state = self.state(step) | {
                "seed": self._training.seed,
                "best_step": self.best_step,
            }
            variables = self.loop.variables()
            keep = self._training.keep_checkpoints
            checkpoints.save(self.folder, step, variables, state, keep)

    @abc.abstractmethod
    def begin(self) -> str:
        """Sets the weights of a new training; returns where they are from."""

    @abc.abstractmethod
    def resume(
        self, state: Mapping[str, Any], checkpoint: pathlib.Path
    ) -> None:
        """Takes what `state` gave; refuses that of another training."""

    @abc.abstractmethod
    def state(self, step: int) -> dict[str, Any]:
        """What a checkpoint of a step holds beside variables, as JSON."""

    @abc.abstractmethod
    def describe(self, origin: str) -> str:
        """What runs, for people; printed before the first step."""

    @abc.abstractmethod
    def build_dataset(self, context: tf.distribute.InputContext) -> Any:
        """The endless batches of one input pipeline, from `start_step` on."""

    @abc.abstractmethod
    def evaluate(self, step: int) -> loop_lib.Evaluation:
        """What held-out data say at a step."""

    @abc.abstractmethod
    def timing(self, seconds: float, steps: int) -> Mapping[str, float]:
        """What is logged about the speed of some steps."""

    def cost(self, step: int) -> Mapping[str, float]:
        """What the training has cost until a step."""
        del step
        return {}
