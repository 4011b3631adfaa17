"""The training loop of pre-training and of fine-tuning.

Devices take many steps in one compiled call. Between two calls the host checks
the losses, logs, evaluates, saves and stops. It saves last, so that a
checkpoint's logs and evaluation are on disk before it.
"""

import abc
import bisect
import contextlib
import pathlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf import fusion
from electra_tf.processes import stopping
from electra_tf.training import checkpoints
from electra_tf.training import distribution
from electra_tf.training import reporting
from electra_tf.training import step as step_lib
from electra_tf.training import step_state

# The longest compiled call: schedulers often send SIGKILL 30 seconds after
# SIGTERM, and a checkpoint must be written before that.
_MAX_LOOP_SECONDS = 10.0
# A float16 run that skips this many steps in a row has diverged.
_MAX_SKIPPED_STEPS = 50
_STEP_STATISTICS = {"num_steps": 1, "gradient_norm": 1, "num_skipped_steps": 1}


class NonFiniteLossError(ArithmeticError):
    """A loss or a variable is not finite; the last checkpoint is good."""

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


class TrainingRun(abc.ABC):
    """Trains a model in a folder; a resumed training ends with the same bits.

    The model was built in the strategy's scope, with its optimizer.

    Attributes:
        num_steps: the last step of this object, such as the end of a phase.
        total_steps: the last step of the whole training.
        start_step: the step of the checkpoint that it resumed from, or 0.
        best_step: the step of the best evaluation so far, or None.
        is_finished: whether training ends before `num_steps`.
        owes_evaluation: whether the last saved step must still be evaluated.
    """

    title = "Training"  # begins the first printed line
    unit = "rows"  # the unit of speed; a step has `units_per_step`
    is_brief = False  # True prints no table, as for one of several trials
    has_introduction = True  # whether to print model, data and device first
    report: reporting.RunReport
    _is_traced: bool  # whether `run_steps` has been called since its tracing

    def __init__(
        self,
        training: distribution.Settings,
        strategy: tf.distribute.Strategy,
        model: step_lib.TrainableModel,
        folder: pathlib.Path,
        num_steps: int,
    ) -> None:
        self.training, self.strategy = training, strategy
        self.model, self.folder = model, folder
        self.num_steps = self.total_steps = num_steps
        self.units_per_step: float = training.train_batch_size
        self.is_chief = distribution.is_chief(strategy)
        self.device = distribution.device_description(strategy)
        self.eval_steps = training.eval_steps
        self.start_step = 0
        self.best_step: int | None = None
        self.is_finished = self.owes_evaluation = False
        self._stop = stopping.StopRequest()
        with strategy.scope():
            sizes = dict(model.statistic_sizes)
            self.statistics = step_state.Statistics(sizes | _STEP_STATISTICS)
            self._held_out = step_state.Statistics(sizes)
        scope = distribution.xla_scope(training)
        # On a TPU steps are compiled without `jit_compile`.
        is_tpu = training.strategy == "tpu"
        self._uses_xla = scope is fusion.Scope.STEP and not is_tpu
        if self._uses_xla or model.xla_scope is fusion.Scope.LOOPS:
            fusion.start_compiler()
        self.stage: int | None = None
        self._trace_anew()
        # So that the first call takes one step.
        self._seconds_per_step = _MAX_LOOP_SECONDS
        self._timed = 0.0, 0  # seconds and steps since the last log
        self._num_skipped_before = 0  # in a row, before the last log

    @property
    def step(self) -> int:
        """The number of updates so far."""
        return int(self.model.optimizer.iterations.numpy())

    def run(self, stop: stopping.StopRequest) -> bool:
        """Trains from the newest checkpoint to the last step.

        Returns False if `stop` ended the training earlier, after a checkpoint.
        Raises `NonFiniteLossError` if a loss is not finite.
        """
        origin = self._restore()
        distribution.require_same_weights(self.strategy, self.model.weights)
        self.report = reporting.RunReport(
            self.folder if self.is_chief else None,
            self.start_step,
            self.total_steps,
            title=self.title,
            is_brief=self.is_brief,
            work_until=lambda step: self.cost(step).get("train_flops", step),
            owes_evaluation=self.owes_evaluation,
        )
        with self.report:
            if self.has_introduction:
                self.report.say(
                    f"{self.title} in {self.folder} on {self.device}, "
                    f"{self.training.precision}, seed {self.training.seed}: "
                    f"{origin}.\n{self.describe()}"
                )
            if self.is_finished:
                return True
            self.report.begin()
            dataset = distribution.distribute_endless(
                self.strategy, self.build_dataset
            )
            try:
                return self._take_steps(iter(dataset), stop)
            except tf.errors.ResourceExhaustedError as error:
                used = remedy = self.model.num_micro_batches
                # Micro-batches run side by side only by default: naming their
                # number in the config saves memory.
                if min(used, self.model.num_parallel) == 1:
                    remedy *= 2
                raise MemoryError(
                    "The device has too little memory for train_batch_size="
                    f"{self.training.train_batch_size} in num_micro_batches="
                    f"{used}. Set --config.training.num_micro_batches="
                    f"{remedy}, which does not change the result."
                ) from error

    def _restore(self) -> str:
        """Restores the newest checkpoint, or begins; describes the origin."""
        newest = checkpoints.latest(self.folder)
        step = checkpoints.step_of(newest) if newest else 0
        distribution.require_same(self.strategy, {"checkpoint": step})
        if newest is None:
            return self.begin()
        state = checkpoints.load_state(newest)
        self.resume(state, newest)
        checkpoints.restore(newest, self.saved_variables())
        if broken := self._find_broken():
            raise errors.ModelError(
                f"{newest} must hold finite numbers. Received others in: "
                f"{', '.join(broken)}. Remove this folder to go on from the "
                "checkpoint before it."
            )
        self.start_step, self.best_step = state["step"], state.get("best_step")
        self.owes_evaluation = state.get("owes_evaluation", False)
        self.is_finished &= not self.owes_evaluation
        if self.is_chief:
            # A run that was killed after its last save may have left others.
            keep = self.training.keep_checkpoints
            checkpoints.remove_old(self.folder, keep, self.best_step)
        return f"resumed from {newest}"

    def _take_steps(self, iterator: Any, stop: stopping.StopRequest) -> bool:
        """Trains, evaluates and saves; returns False if `stop` ended it."""
        self._stop, step = stop, self.step
        while step < self.num_steps or self.owes_evaluation:
            if is_due := self.owes_evaluation:
                self._enter_stage(step - 1)
            else:
                step = self._advance(iterator, step)
                every = self.training.save_checkpoints_steps
                is_due = self._is_due(step, every)
                self.owes_evaluation = self._is_due(step, self.eval_steps)
            if self.owes_evaluation and not self._is_stopping():
                with contextlib.suppress(InterruptedError):
                    metrics, is_best = self.evaluate(step)
                    self.owes_evaluation = False
                    where = f"on held-out data at step {step}"
                    require_finite(metrics, where)
                    metrics |= self.cost(step)
                    self.report.write("validation", step, metrics)
                    is_due |= is_best or self.is_finished
            is_stopping = self._is_stopping()
            if is_due or is_stopping:
                # The losses do not show what the last update did.
                if broken := self._find_broken():
                    raise NonFiniteLossError(f"after step {step}", broken)
                self.save(step)
            if self.is_finished:
                return True
            is_done = step >= self.total_steps and not self.owes_evaluation
            if is_stopping and not is_done:
                self.report.say(
                    f"Stopped by {stop.signal_name or 'another worker'} after "
                    f"step {step}; saved. The same command goes on from there."
                )
                return False
        return True

    def _is_stopping(self) -> bool:
        """Whether any host was asked to stop; all hosts stop together."""
        is_asked = float(bool(self._stop.signal_name))
        return distribution.mean_over_workers(self.strategy, is_asked) > 0

    def check_stop(self) -> None:
        """Raises `InterruptedError` if any host was asked to stop."""
        if self._is_stopping():
            raise InterruptedError

    def _advance(self, iterator: Any, first: int) -> int:
        """Calls the compiled loop once and logs; returns the new step."""
        self._enter_stage(first)
        count = self._num_next_steps(first)
        step = first + count
        start = time.monotonic()
        self.run_steps(iterator, tf.constant(count))
        statistics = self.statistics.sums()
        if self._is_traced:  # the time of tracing does not count
            seconds = time.monotonic() - start
            self._timed = self._timed[0] + seconds, self._timed[1] + count
            self._seconds_per_step = seconds / count
        self._is_traced = True
        require_finite(statistics, f"between steps {first + 1} and {step}")
        num_skipped = int(statistics["num_skipped_steps"][0])
        all_are = num_skipped == int(statistics["num_steps"][0])
        num_skipped = self._num_skipped_before + num_skipped if all_are else 0
        if num_skipped >= _MAX_SKIPPED_STEPS:
            where = f"in the {num_skipped} steps up to {step}"
            raise NonFiniteLossError(where, ["the gradient of every step"])
        is_early = self.report.advance(step)
        is_due = self._is_due(step, self.training.log_steps)
        is_due |= step in self.model.stage_starts
        if is_due or is_early:
            self._log(step, statistics, is_due)
        if is_due:
            self._num_skipped_before = num_skipped
        self.check_input()
        return step

    def _is_due(self, step: int, every: int) -> bool:
        """Whether a step is a multiple of `every` (0: never), or the last."""
        return every > 0 and (step % every == 0 or step == self.num_steps)

    def _num_next_steps(self, step: int) -> int:
        training = self.training
        saving = training.save_checkpoints_steps
        intervals = training.log_steps, self.eval_steps, saving
        until = [every - step % every for every in intervals if every > 0]
        ends = *self.model.stage_starts, self.num_steps
        until += [end - step for end in ends if end > step]
        # A request to stop is answered after the call.
        seconds = distribution.mean_over_workers(
            self.strategy, self._seconds_per_step
        )
        in_time = max(1, int(_MAX_LOOP_SECONDS / max(seconds, 1e-6)))
        return min(training.steps_per_loop, in_time, *until)

    def _log(
        self, step: int, statistics: Mapping[str, np.ndarray], is_due: bool
    ) -> None:
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
        if (scale := self.model.loss_scale) is not None:
            metrics["skipped_steps"] = num_skipped
            metrics["loss_scale"] = float(scale.value.numpy())
        timing = self.timing(*self._timed) if self._timed[1] else {}
        if is_due:
            self.report.write("train", step, metrics, timing)
            self._timed = 0.0, 0
            self.statistics.reset_state()
        else:
            self.report.print("train", step, metrics | timing)

    def _trace_anew(self) -> None:
        options: dict[str, Any] = {"autograph": False}
        self.run_steps = tf.function(self._run_steps, **options)
        self.evaluate_batch = tf.function(
            self._evaluate_batch, reduce_retracing=True, **options
        )
        steps = self.model.training_step, self.model.evaluation_step
        if self._uses_xla:
            options["jit_compile"] = True
            steps = tuple(tf.function(step, **options) for step in steps)
        self._training_step, self._evaluation_step = steps
        self._is_traced = False

    def _enter_stage(self, step: int) -> None:
        starts = self.model.stage_starts
        stage = bisect.bisect_right(starts, step) - 1
        if stage != self.stage:
            is_first = step == starts[stage] and not self.owes_evaluation
            self.model.enter_stage(stage, is_first)
            if self.stage is not None:
                self._trace_anew()
            self.stage = stage

    def _run_steps(self, iterator: Any, num_steps: tf.Tensor) -> None:
        def replica_step(features: step_lib.Tensors) -> None:
            self.statistics.update_state(self._training_step(features))

        def body(done: tf.Tensor) -> tf.Tensor:
            self.strategy.run(replica_step, args=(next(iterator),))
            return (done + 1,)

        tf.while_loop(
            lambda done: done < num_steps,
            body,
            [tf.constant(0)],
            parallel_iterations=1,
        )

    def _evaluate_batch(self, features: Any, batch: tf.Tensor) -> None:
        def replica_step(features: step_lib.Tensors) -> None:
            self._held_out.update_state(self._evaluation_step(features, batch))

        self.strategy.run(replica_step, args=(features,))

    def measure(self, dataset: Any, num_batches: int) -> dict[str, float]:
        """Computes metrics of the first `num_batches` batches."""
        self._held_out.reset_state()
        for batch, features in zip(range(num_batches), dataset, strict=False):
            self.check_stop()
            self.evaluate_batch(features, tf.constant(batch, tf.int64))
        return self.model.summarize(self._held_out.sums())

    def save(self, step: int) -> None:
        """Writes the checkpoint of a step."""
        if self.is_chief:
            state = self.state(step) | {
                "seed": self.training.seed,
                "best_step": self.best_step,
                "owes_evaluation": self.owes_evaluation,
            }
            is_old, variables = step == self.start_step, self.saved_variables()
            keep = self.training.keep_checkpoints
            checkpoints.save(self.folder, step, variables, state, keep, is_old)

    def _find_broken(self) -> list[str]:
        return [
            name
            for name, variable in self.saved_variables().items()
            if (value := tf.convert_to_tensor(variable)).dtype.is_floating
            and not tf.reduce_all(tf.math.is_finite(value))
        ][:8]

    def saved_variables(self) -> dict[str, Any]:
        """Returns all variables of a checkpoint by name."""
        model = self.model
        average, scale = model.weight_average, model.loss_scale
        groups: dict[str, dict[str, Any]] = {
            "model": {v.path: v for v in model.weights},
            "optimizer": {v.path: v for v in model.optimizer.variables},
            "statistics": {"total": self.statistics.total},
            "average": average.by_path() if average is not None else {},
            "loss_scale": scale.by_name() if scale is not None else {},
        }
        return {
            f"{group}/{name}": variable
            for group, variables in groups.items()
            for name, variable in variables.items()
        }

    @abc.abstractmethod
    def begin(self) -> str:
        """Sets the weights of a new training; describes their origin."""

    @abc.abstractmethod
    def resume(
        self, state: Mapping[str, Any], checkpoint: pathlib.Path
    ) -> None:
        """Takes up a saved `state`; refuses one that does not fit."""

    @abc.abstractmethod
    def state(self, step: int) -> dict[str, Any]:
        """Returns the content of a checkpoint's `state.json`."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Describes model and data, in lines to print."""

    @abc.abstractmethod
    def build_dataset(self, context: tf.distribute.InputContext) -> Any:
        """Builds one pipeline's endless batches, from `start_step` on."""

    @abc.abstractmethod
    def evaluate(self, step: int) -> tuple[dict[str, float], bool]:
        """Returns held-out metrics, and whether they are the best so far.

        It may set `is_finished` to end the training.
        """

    def check_input(self) -> None:  # noqa: B027
        """Raises an error if the data is damaged; called after each loop."""

    def timing(self, seconds: float, steps: int) -> dict[str, float]:
        """Returns the speeds of some steps, to be logged."""
        return {
            f"{self.unit}_per_second": self.units_per_step * steps / seconds,
            "seconds_per_step": seconds / steps,
        }

    def cost(self, step: int) -> Mapping[str, float]:
        """Returns the costs of all steps so far, to be logged."""
        return {}
