"""The outer loop: run steps on the devices, act on the host, repeat.

The inner loop is one compiled function that takes `steps_per_loop` steps
without returning to Python; it is traced once. Between its calls the host
does, in this order: check that the losses are finite, log, evaluate, save,
stop if it was asked to. A checkpoint comes last, so that whatever a run has
told about its step is on disk by then. Nothing here knows of ELECTRA; a model
is a `TrainableModel`, everything else are callables.
"""

import bisect
import contextlib
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training import distribution
from electra_tf.training import finite
from electra_tf.training import intervals as intervals_lib
from electra_tf.training import replica_variables
from electra_tf.training import reporting
from electra_tf.training import step as step_lib
from electra_tf.training import stopping

if TYPE_CHECKING:
    from electra_tf.training.training_run import TrainingRun

# Longest stay in the compiled loop: who sends SIGTERM often waits 30 seconds
# before SIGKILL, and a checkpoint must be written in them.
_MAX_LOOP_SECONDS = 10.0
_STEP_STATISTICS = {"num_steps": 1, "gradient_norm": 1, "num_skipped_steps": 1}


class Statistics:
    """Added-up statistics on the devices, read and cleared by the host.

    Args:
        sizes: statistic name to the length of its vector.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sorted(sizes.items()))
        self.total = tf.Variable(
            tf.zeros([sum(self.sizes.values())]), trainable=False
        )

    def add(self, statistics: step_lib.Tensors) -> None:
        """Adds one step's vectors, on each replica for itself."""
        flat = tf.concat([statistics[name] for name in self.sizes], 0)
        replica_variables.assign_add(self.total, flat)

    def read(self) -> dict[str, np.ndarray]:
        """The sums so far, by name."""
        ends = np.cumsum(list(self.sizes.values()))[:-1]
        total = tf.convert_to_tensor(self.total).numpy()
        parts = np.split(total, ends)
        return dict(zip(self.sizes, parts, strict=True))

    def clear(self) -> None:
        """Starts anew from zero."""
        self.total.assign(tf.zeros_like(self.total))


class Evaluation(NamedTuple):
    """What an evaluation found.

    Attributes:
        metrics: name to value.
        is_best: whether a checkpoint of this step is wanted, because none
            was better.
        ends_training: whether no further step is wanted.
    """

    metrics: Mapping[str, float]
    is_best: bool
    ends_training: bool = False


class TrainingLoop:
    """Runs a model's training step on a strategy's devices.

    Args:
        strategy: where; the model was built in its scope.
        model: what, with its optimizer built.
        jit_compile: whether XLA compiles the step of a replica.
    """

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
            self.statistics = Statistics(sizes | _STEP_STATISTICS)
            self.held_out = Statistics(sizes)
        self._compile_fn = _compiler(jit_compile)
        self._trace_anew()
        self.phase: int | None = None
        # Steps skipped in a row before the present period of the log.
        self._num_skipped_before = 0

    def _trace_anew(self) -> None:
        """Forgets what was traced; the next calls trace the model as it is."""
        self.run_steps = tf.function(self._run_steps, autograph=False)
        self.evaluate_batch = tf.function(
            self._evaluate_batch, autograph=False, reduce_retracing=True
        )
        self._training_step = self._compile_fn(self.model.training_step)
        self._evaluation_step = self._compile_fn(self.model.evaluation_step)

    def _enter_phase(self, step: int) -> bool:
        """Makes ready for the phase of a step; returns whether it is new."""
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
            self.statistics.add(self._training_step(features))

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
            self.held_out.add(self._evaluation_step(features, batch))

        self.strategy.run(replica_step, args=(features,))

    def evaluate(self, dataset: Any, num_batches: int) -> dict[str, float]:
        """Metrics of the first `num_batches` of a distributed dataset."""
        self.held_out.clear()
        iterator = iter(dataset)
        for batch in range(num_batches):
            index = tf.constant(batch, tf.int64)
            self.evaluate_batch(next(iterator), index)
        return self.model.summarize(self.held_out.read())

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

    def run(
        self,
        iterator: Any,
        intervals: intervals_lib.Intervals,
        actions: "TrainingRun",
        report: reporting.RunReport,
        stop: stopping.StopRequest,
    ) -> bool:
        """Trains from the model's step to the last one.

        Returns:
            True when the last step was reached, or an evaluation said that no
            more is wanted; False when `stop` asked to end before. A checkpoint
            has been saved in all cases.

        Raises:
            NonFiniteLossError: naming the steps; nothing is saved.
        """
        step = self.step
        clock = _Clock()
        while step < intervals.total:
            if self._enter_phase(step):
                clock.expect_tracing()
            count = intervals.num_next_steps(step)
            first, step = step, step + min(count, self._num_prompt_steps(clock))
            with clock.measure(step - first):
                self.run_steps(iterator, tf.constant(step - first))
                statistics = self.statistics.read()
            finite.check_statistics(
                statistics, first, step, self._num_skipped_before
            )
            if intervals.logs_at(step):
                self._log(step, statistics, actions, report, clock)
            found = Evaluation({}, is_best=False)
            if intervals_lib.is_due(step, intervals.evaluate, intervals.total):
                found = self._evaluate(step, actions, report)
            is_stopping = self._is_stopping(stop)
            saves = intervals_lib.is_due(step, intervals.save, intervals.total)
            if saves or found.is_best or found.ends_training or is_stopping:
                actions.save(step)
            if found.ends_training:
                return True
            if is_stopping and step < intervals.total:
                report.say(
                    f"Stopped by {stop.signal_name or 'another worker'} after "
                    f"step {step}; saved. The same command goes on from there."
                )
                return False
        return True

    def _num_prompt_steps(self, clock: "_Clock") -> int:
        """Steps after which a request to stop is still answered in time."""
        rate = distribution.mean_over_workers(
            self.strategy, clock.seconds_per_step
        )
        return max(1, int(_MAX_LOOP_SECONDS / max(rate, 1e-6)))

    def _is_stopping(self, stop: stopping.StopRequest) -> bool:
        """Whether any worker was asked to stop: all must leave together."""
        asked = 1.0 if stop.signal_name else 0.0
        return distribution.mean_over_workers(self.strategy, asked) > 0

    def _evaluate(
        self, step: int, actions: "TrainingRun", report: reporting.RunReport
    ) -> Evaluation:
        """Reports what held-out data say, and returns it."""
        evaluation = actions.evaluate(step)
        finite.check_held_out(evaluation.metrics, step)
        metrics = {**evaluation.metrics, **actions.cost(step)}
        report.write("validation", step, metrics)
        return evaluation

    def _log(
        self,
        step: int,
        statistics: Mapping[str, np.ndarray],
        actions: "TrainingRun",
        report: reporting.RunReport,
        clock: "_Clock",
    ) -> None:
        num_steps = int(statistics["num_steps"][0])
        num_skipped = int(statistics["num_skipped_steps"][0])
        num_taken = max(1, num_steps - num_skipped)
        metrics = self.model.summarize(statistics) | {
            "learning_rate": self._learning_rate(step - 1),
            "gradient_norm": float(statistics["gradient_norm"][0]) / num_taken,
        }
        metrics |= actions.cost(step)
        if self.model.loss_scale is not None:
            metrics["skipped_steps"] = num_skipped
            metrics["loss_scale"] = float(self.model.loss_scale.value.numpy())
        seconds, timed_steps = clock.lap()
        timing = actions.timing(seconds, timed_steps) if timed_steps else {}
        report.write("train", step, metrics, timing)
        self.statistics.clear()
        self._num_skipped_before = (
            self._num_skipped_before + num_skipped
            if num_skipped == num_steps
            else 0
        )

    def _learning_rate(self, step: int) -> float:
        rate = self.model.optimizer._learning_rate
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            rate = rate(tf.constant(step))
        return float(tf.convert_to_tensor(rate))


class _Clock:
    """Seconds and steps of training since the last log.

    Evaluating and saving do not count, nor does the first call of the
    compiled loop, which is traced and compiled.
    """

    def __init__(self) -> None:
        self._is_traced = False
        # Until it is known, one step at a time.
        self.seconds_per_step = _MAX_LOOP_SECONDS
        self._seconds = 0.0
        self._steps = 0

    @contextlib.contextmanager
    def measure(self, num_steps: int) -> Iterator[None]:
        start = time.monotonic()
        yield
        if self._is_traced:
            seconds = time.monotonic() - start
            self._seconds += seconds
            self._steps += num_steps
            self.seconds_per_step = seconds / num_steps
        self._is_traced = True

    def expect_tracing(self) -> None:
        """The next call will trace and compile again."""
        self._is_traced = False

    def lap(self) -> tuple[float, int]:
        lap = self._seconds, self._steps
        self._seconds, self._steps = 0.0, 0
        return lap


def _compiler(jit_compile: bool) -> Callable[[Any], Any]:
    if not jit_compile:
        return lambda function: function
    return lambda function: tf.function(
        function, jit_compile=True, autograph=False
    )
