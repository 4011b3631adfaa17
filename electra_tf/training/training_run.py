"""A training from its checkpoint to its last step.

`TrainingLoop` is the compiled part: many steps on the devices in one call.
`TrainingRun` is what the host does around it: restore; then, between two
calls, check the losses, log, evaluate, save, stop. A checkpoint comes last, so
that whatever a run has told about its step is on disk by then.
"""

import abc
import bisect
import pathlib
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.processes import stopping
from electra_tf.training import checkpoints
from electra_tf.training import distribution
from electra_tf.training import metrics as metrics_lib
from electra_tf.training import reporting
from electra_tf.training import step as step_lib

# Longest stay in the compiled loop: who sends SIGTERM often waits 30 seconds
# before SIGKILL, and a checkpoint must be written in them.
_MAX_LOOP_SECONDS = 10.0
# A float16 run that skips this many steps in a row has diverged.
_MAX_SKIPPED_STEPS = 50
_STEP_STATISTICS = {"num_steps": 1, "gradient_norm": 1, "num_skipped_steps": 1}


class NonFiniteLossError(ArithmeticError):
    """The loss stopped being a number; the last good checkpoint is kept."""

    def __init__(self, where: str, names: Iterable[str]) -> None:
        super().__init__(
            f"Not a finite number {where}: {', '.join(names)}. Nothing was "
            "saved since, the last checkpoint is good. Start again from it "
            "with a lower learning rate or a longer warm-up (in a new "
            "model_dir), or in float32 or bfloat16."
        )


def require_finite(values: Mapping[str, Any], where: str) -> None:
    """Raises `NonFiniteLossError` unless all named values are finite."""
    broken = [n for n, v in values.items() if not np.isfinite(v).all()]
    if broken:
        raise NonFiniteLossError(where, broken)


class Evaluation(NamedTuple):
    """The result of an evaluation."""

    metrics: Mapping[str, float]
    is_best: bool  # a checkpoint of this step is wanted: none was better
    ends_training: bool = False  # no further step is wanted


class TrainingLoop:
    """Runs a model's training step on a strategy's devices."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: step_lib.TrainableModel,
        jit_compile: bool,
    ) -> None:
        self.strategy = strategy
        self.model = model
        with strategy.scope():
            sizes = dict(model.statistic_sizes)
            self.statistics = metrics_lib.Statistics(sizes | _STEP_STATISTICS)
            self.held_out = metrics_lib.Statistics(sizes)
        self._jit_compile = jit_compile
        self._trace_anew()
        self.phase: int | None = None

    def _trace_anew(self) -> None:
        """Forgets what was traced; the next calls trace the model as it is."""
        self.run_steps = tf.function(self._run_steps, autograph=False)
        self.evaluate_batch = tf.function(
            self._evaluate_batch, autograph=False, reduce_retracing=True
        )
        self._training_step = self._compile(self.model.training_step)
        self._evaluation_step = self._compile(self.model.evaluation_step)

    def _compile(self, step_fn: Callable[..., Any]) -> Callable[..., Any]:
        if not self._jit_compile:
            return step_fn
        return tf.function(step_fn, jit_compile=True, autograph=False)

    def enter_phase(self, step: int) -> bool:
        """Makes ready for a step's phase; whether the next call will trace."""
        starts = self.model.phase_starts
        phase = bisect.bisect_right(starts, step) - 1
        if phase == self.phase:
            return False
        self.model.enter_phase(phase, is_beginning=step == starts[phase])
        if self.phase is not None:
            self._trace_anew()
        self.phase = phase
        return True

    def _run_steps(self, iterator: Any, num_steps: tf.Tensor) -> None:
        def replica_step(features: step_lib.Tensors) -> None:
            self.statistics.update_state(self._training_step(features))

        def body(done: tf.Tensor) -> tf.Tensor:
            self.strategy.run(replica_step, args=(next(iterator),))
            return done + 1

        tf.while_loop(
            lambda done: done < num_steps,
            body,
            [tf.constant(0)],
            parallel_iterations=1,
        )

    def _evaluate_batch(self, features: Any, batch: tf.Tensor) -> None:
        def replica_step(features: step_lib.Tensors) -> None:
            self.held_out.update_state(self._evaluation_step(features, batch))

        self.strategy.run(replica_step, args=(features,))

    def evaluate(self, dataset: Any, num_batches: int) -> dict[str, float]:
        """Metrics of the first `num_batches` of a distributed dataset."""
        self.held_out.reset_state()
        iterator = iter(dataset)
        for batch in range(num_batches):
            index = tf.constant(batch, tf.int64)
            self.evaluate_batch(next(iterator), index)
        return self.model.summarize(self.held_out.sums())

    @property
    def step(self) -> int:
        """Updates made so far."""
        return int(self.model.optimizer.iterations.numpy())

    def variables(self) -> dict[str, Any]:
        """Everything that a checkpoint holds, by name."""
        model = self.model
        groups: dict[str, dict[str, Any]] = {
            "model": {v.path: v for v in model.trainable_variables},
            "optimizer": {v.path: v for v in model.optimizer.variables},
            "statistics": {"total": self.statistics.total},
        }
        if model.weight_average is not None:
            groups["average"] = model.weight_average.by_path()
        if model.loss_scale is not None:
            groups["loss_scale"] = model.loss_scale.by_name()
        return {
            f"{group}/{name}": variable
            for group, variables in groups.items()
            for name, variable in variables.items()
        }


class TrainingRun(abc.ABC):
    """One training in a folder, resumable at any time to the bit.

    The model was built in the strategy's scope, with its optimizer.

    Attributes:
        start_step: updates that were made before this process.
        best_step: step of the best evaluation so far; None before the first.
        is_finished: whether no further step is wanted.
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
        self.loop = TrainingLoop(
            strategy, model, distribution.compiles_with_xla(settings)
        )
        self.start_step = 0
        self.best_step: int | None = None
        self.is_finished = False
        self._training = settings
        self._eval_steps = settings.eval_steps if evaluates else 0
        # Until it is known, one step at a time.
        self._seconds_per_step = _MAX_LOOP_SECONDS
        # Since the last log, without tracing: seconds and steps.
        self._timed = 0.0, 0
        # Steps skipped in a row before the present period of the log.
        self._num_skipped_before = 0

    def run(self, stop: stopping.StopRequest) -> bool:
        """Trains from the newest checkpoint to the last step.

        Returns False if `stop` asked to end before; all is saved then. Raises
        `NonFiniteLossError` if the loss stops being a number.
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
            return self._take_steps(iter(dataset), stop)
        except tf.errors.ResourceExhaustedError as error:
            number = self._training.num_micro_batches
            raise MemoryError(
                "The device has too little memory for train_batch_size="
                f"{self._training.train_batch_size} in num_micro_batches="
                f"{number}. Set --config.training.num_micro_batches="
                f"{2 * number}: the result is that of the whole batch, with "
                "other dropout bits."
            ) from error

    def _take_steps(self, iterator: Any, stop: stopping.StopRequest) -> bool:
        """Trains and acts on the host; False if `stop` ended it."""
        step = self.loop.step
        while step < self.num_steps:
            step = self._advance(iterator, step)
            found = Evaluation({}, is_best=False)
            if self._is_due(step, self._eval_steps):
                found = self.evaluate(step)
                where = f"on held-out data at step {step}"
                require_finite(found.metrics, where)
                metrics = {**found.metrics, **self.cost(step)}
                self.report.write("validation", step, metrics)
            # If any worker was asked to stop, all must leave together.
            asked = 1.0 if stop.signal_name else 0.0
            is_stopping = self._mean_over_workers(asked) > 0
            is_due = self._is_due(step, self._training.save_checkpoints_steps)
            if is_due or found.is_best or found.ends_training or is_stopping:
                self.save(step)
            if found.ends_training:
                return True
            if is_stopping and step < self.num_steps:
                self.report.say(
                    f"Stopped by {stop.signal_name or 'another worker'} after "
                    f"step {step}; saved. The same command goes on from there."
                )
                return False
        return True

    def _advance(self, iterator: Any, first: int) -> int:
        """Calls the compiled loop once and logs; returns the step reached."""
        is_tracing = self.loop.enter_phase(first)
        count = self._num_next_steps(first)
        step = first + count
        start = time.monotonic()
        self.loop.run_steps(iterator, tf.constant(count))
        statistics = self.loop.statistics.sums()
        if not is_tracing:  # which takes long, but once
            seconds = time.monotonic() - start
            self._timed = self._timed[0] + seconds, self._timed[1] + count
            self._seconds_per_step = seconds / count
        require_finite(statistics, f"between steps {first + 1} and {step}")
        num_skipped = int(statistics["num_skipped_steps"][0])
        all_are = num_skipped == int(statistics["num_steps"][0])
        num_skipped = self._num_skipped_before + num_skipped if all_are else 0
        if num_skipped >= _MAX_SKIPPED_STEPS:
            raise NonFiniteLossError(
                f"in the {num_skipped} steps up to {step}",
                ["the gradient of every step"],
            )
        is_due = self._is_due(step, self._training.log_steps)
        if is_due or step in self.model.phase_starts:
            self._log(step, statistics)
            self._num_skipped_before = num_skipped
        return step

    def _mean_over_workers(self, value: float) -> float:
        return distribution.mean_over_workers(self.strategy, value)

    def _is_due(self, step: int, every: int) -> bool:
        """Whether what happens `every` so many steps (0: never) happens now."""
        return every > 0 and (step % every == 0 or step == self.num_steps)

    def _num_next_steps(self, step: int) -> int:
        """Steps from `step` until the host must act again."""
        training = self._training
        intervals = (
            training.log_steps,
            self._eval_steps,
            training.save_checkpoints_steps,
        )
        until = [every - step % every for every in intervals if every > 0]
        until += [s - step for s in self.model.phase_starts if s > step]
        # After these, a request to stop is still answered in time.
        seconds = self._mean_over_workers(self._seconds_per_step)
        in_time = max(1, int(_MAX_LOOP_SECONDS / max(seconds, 1e-6)))
        left = self.num_steps - step
        return min(training.steps_per_loop, left, in_time, *until)

    def _log(self, step: int, statistics: Mapping[str, np.ndarray]) -> None:
        num_skipped = int(statistics["num_skipped_steps"][0])
        num_taken = max(1, int(statistics["num_steps"][0]) - num_skipped)
        rate = self.model.optimizer._learning_rate
        if callable(rate):
            rate = rate(tf.constant(step - 1))
        metrics = self.model.summarize(statistics) | {
            "learning_rate": float(tf.convert_to_tensor(rate)),
            "gradient_norm": float(statistics["gradient_norm"][0]) / num_taken,
            **self.cost(step),
        }
        if self.model.loss_scale is not None:
            metrics["skipped_steps"] = num_skipped
            metrics["loss_scale"] = float(self.model.loss_scale.value.numpy())
        timing = self.timing(*self._timed) if self._timed[1] else {}
        self.report.write("train", step, metrics, timing)
        self._timed = 0.0, 0
        self.loop.statistics.reset_state()

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
        """The part of a checkpoint that is not variables, as JSON takes it."""

    @abc.abstractmethod
    def describe(self, origin: str) -> str:
        """Describes the run for people; printed before the first step."""

    @abc.abstractmethod
    def build_dataset(self, context: tf.distribute.InputContext) -> Any:
        """The endless batches of one input pipeline, from `start_step` on."""

    @abc.abstractmethod
    def evaluate(self, step: int) -> Evaluation:
        """Evaluates the model of a step on held-out data."""

    @abc.abstractmethod
    def timing(self, seconds: float, steps: int) -> Mapping[str, float]:
        """The numbers to log about the speed of some steps."""

    def cost(self, step: int) -> Mapping[str, float]:
        """The numbers to log about the cost of all steps so far."""
        del step
        return {}
