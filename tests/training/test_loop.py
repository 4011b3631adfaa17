"""The outer loop acts when it should, in order, and stops when it must.

The model is a line through the origin, which traces in no time.
"""

import os
import signal
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from electra_tf.training import finite
from electra_tf.training import intervals as intervals_lib
from electra_tf.training import loop as loop_lib
from electra_tf.training import loss_scaling
from electra_tf.training import optimizers
from electra_tf.training import step as step_lib
from electra_tf.training import stopping


class Line(step_lib.TrainableModel):
    """Learns `y = slope * x` from x; the slope should be 2, or `target`."""

    loss_coefficients = {"error": 1.0}

    def __init__(self, rate: Any = 0.01) -> None:
        super().__init__(clip_norm=1e9)
        self.slope = self.add_weight(
            shape=(1,), initializer="ones", name="slope"
        )
        self.built = True
        self.optimizer = optimizers.AdamWeightDecay(rate, weight_decay=0.0)
        self.optimizer.build(self.trainable_variables)

    def prepare(self, features, step, is_training):
        del step, is_training
        return features["x"]

    def loss_normalizers(self, prepared):
        return {"error": tf.cast(tf.size(prepared), tf.float32)}

    def compute_losses(self, prepared, dropout_seed):
        del dropout_seed
        error = tf.reduce_sum(((self.slope.value - 2.0) * prepared) ** 2)
        return step_lib.LossSums({"error": error}, {})

    def derive_metrics(self, statistics):
        total, count = statistics["error"], statistics["error_normalizer"]
        return {"loss": total[0] / count[0]}


class Recorder:
    """Stands for the host's actions and for the report; keeps a diary."""

    def __init__(self, loop, held_out=()):
        self.loop = loop
        self.diary = []
        self.written = []
        self.said = []
        self.hooks = {}
        self.held_out = dict(held_out)

    def cost(self, step):
        return {"cost": 3.0 * step}

    def _note(self, what, step):
        self.diary.append((what, step))
        self.hooks.get((what, step), lambda: None)()

    def evaluate(self, step):
        self._note("evaluate", step)
        return loop_lib.Evaluation(*self.held_out.get(step, ({}, False)))

    def save(self, step):
        assert self.loop.step == step
        self._note("save", step)

    def timing(self, seconds, steps):
        return {"seconds": seconds, "steps": steps}

    def write(self, split, step, metrics, timing=None):
        self.written.append((split, step, metrics, timing))
        self._note(f"write {split}", step)

    def say(self, text):
        self.said.append(text)


def _loop(strategy=None, rate=0.01):
    strategy = strategy or tf.distribute.get_strategy()
    with strategy.scope():
        model = Line(rate)
    return loop_lib.TrainingLoop(strategy, model, jit_compile=False)


def _batches(values):
    """An endless iterator; the last batch is repeated."""
    rows = np.array(values, np.float32).reshape(-1, 1, 1)
    dataset = tf.data.Dataset.from_tensor_slices({"x": rows})
    last = tf.data.Dataset.from_tensors({"x": rows[-1]}).repeat()
    return iter(dataset.concatenate(last))


def _intervals(total, log=0, evaluate=0, save=0, steps_per_loop=100):
    return intervals_lib.Intervals(total, steps_per_loop, log, evaluate, save)


def _run(loop, recorder, intervals, values=(1.0,), stop=None):
    stop = stop or stopping.StopRequest()
    iterator = _batches(values)
    return loop.run(iterator, intervals, recorder, recorder, stop)


def test_the_host_acts_in_time_and_saves_last():
    loop = _loop()
    recorder = Recorder(loop)
    intervals = _intervals(10, log=2, evaluate=4, save=6)
    assert _run(loop, recorder, intervals)
    assert recorder.diary == [
        ("write train", 2),
        ("write train", 4),
        ("evaluate", 4),
        ("write validation", 4),
        ("write train", 6),
        ("save", 6),
        ("write train", 8),
        ("evaluate", 8),
        ("write validation", 8),
        ("write train", 10),
        ("evaluate", 10),
        ("write validation", 10),
        ("save", 10),
    ]
    assert loop.step == 10


def test_the_best_is_saved_between_two_regular_saves():
    loop = _loop()
    recorder = Recorder(loop, {2: ({}, True), 4: ({}, False), 6: ({}, True)})
    _run(loop, recorder, _intervals(6, evaluate=2, save=3))
    # After its line is written, and once where it is due anyway.
    assert recorder.diary == [
        ("evaluate", 2),
        ("write validation", 2),
        ("save", 2),
        ("save", 3),
        ("evaluate", 4),
        ("write validation", 4),
        ("evaluate", 6),
        ("write validation", 6),
        ("save", 6),
    ]


def test_chunks_of_every_length_share_one_trace(two_devices):
    for strategy in (None, two_devices):
        loop = _loop(strategy)
        if strategy is None:
            iterator = _batches([1.0])
        else:
            one = tf.data.Dataset.from_tensors({"x": [1.0]}).repeat()
            iterator = iter(
                strategy.distribute_datasets_from_function(lambda _, d=one: d)
            )
        recorder = Recorder(loop)
        intervals = _intervals(20, log=7, save=4, steps_per_loop=3)
        loop.run(
            iterator,
            intervals,
            recorder,
            recorder,
            stopping.StopRequest(),
        )
        assert loop.step == 20
        assert loop.run_steps.experimental_get_tracing_count() == 1


def test_a_log_covers_the_steps_since_the_last_one():
    loop = _loop(rate=0.0)
    recorder = Recorder(loop)
    _run(loop, recorder, _intervals(4, log=2), values=[1, 2, 3, 4])
    (_, _, first, _), (_, _, second, _) = recorder.written
    # The slope stays 1, so a row's loss is x ** 2, its gradient -2 * x ** 2.
    assert first["loss"] == pytest.approx((1 + 4) / 2)
    assert first["gradient_norm"] == pytest.approx(2 * (1 + 4) / 2)
    assert second["loss"] == pytest.approx((9 + 16) / 2)
    assert second["gradient_norm"] == pytest.approx(2 * (9 + 16) / 2)


def test_the_learning_rate_of_the_last_step_is_logged():
    class HalfOfStep(tf.keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 0.5 * tf.cast(step, tf.float32)

    loop = _loop(rate=HalfOfStep())
    recorder = Recorder(loop)
    _run(loop, recorder, _intervals(3, log=1))
    rates = [metrics["learning_rate"] for _, _, metrics, _ in recorder.written]
    assert rates == [0.0, 0.5, 1.0]


def test_only_traced_training_is_timed(monkeypatch):
    loop = _loop()
    recorder = Recorder(loop)
    clock = [0.0]
    monkeypatch.setattr(loop_lib.time, "monotonic", lambda: clock[0])
    run_steps = loop.run_steps

    def take_a_second_each(iterator, num_steps):
        run_steps(iterator, num_steps)
        clock[0] += float(num_steps)

    def take_a_minute(step):
        clock[0] += 60.0

    loop.run_steps = take_a_second_each
    recorder.save = take_a_minute
    _run(loop, recorder, _intervals(9, log=3, save=2))
    # Calls: 1, 1, 1 | 1, 2 | 2, 1. The first of all was traced, and until a
    # step has been timed they are taken one by one.
    timings = [timing for _, _, _, timing in recorder.written]
    assert timings == [
        {"seconds": 2.0, "steps": 2},
        {"seconds": 3.0, "steps": 3},
        {"seconds": 3.0, "steps": 3},
    ]


def test_slow_steps_are_taken_few_at_a_time(monkeypatch):
    loop = _loop()
    clock, counts = [0.0], []
    monkeypatch.setattr(loop_lib.time, "monotonic", lambda: clock[0])
    run_steps = loop.run_steps

    def take_four_seconds_each(iterator, num_steps):
        run_steps(iterator, num_steps)
        counts.append(int(num_steps))
        clock[0] += 4.0 * float(num_steps)

    loop.run_steps = take_four_seconds_each
    _run(loop, Recorder(loop), _intervals(9, log=9))
    # Ten seconds at most, so that a request to stop is answered soon.
    assert counts == [1, 1, 2, 2, 2, 1]


def test_a_loss_that_is_no_number_stops_before_anything_is_saved():
    loop = _loop()
    recorder = Recorder(loop)
    intervals = _intervals(20, log=4, evaluate=4, save=4)
    message = "between steps 9 and 12: error, gradient_norm. Nothing was saved"
    with pytest.raises(finite.NonFiniteLossError, match=message):
        _run(loop, recorder, intervals, values=[1.0] * 10 + [np.nan, 1.0])
    assert recorder.diary[-1] == ("save", 8)
    assert max(step for _, step in recorder.diary) == 8


def test_held_out_data_that_give_no_number_stop_the_run():
    loop = _loop()
    recorder = Recorder(loop, {4: ({"loss": np.inf}, True)})
    with pytest.raises(finite.NonFiniteLossError, match="step 4: loss"):
        _run(loop, recorder, _intervals(8, log=2, evaluate=4, save=4))
    assert ("save", 4) not in recorder.diary
    assert ("write validation", 4) not in recorder.diary


def test_a_run_whose_every_step_is_skipped_stops_whatever_it_logs():
    loop = _loop()
    loop.model.loss_scale = loss_scaling.LossScale()
    # The loss is finite, its gradient is not.
    values = [1.0] * 5 + [3e18]
    recorder = Recorder(loop)
    with pytest.raises(finite.NonFiniteLossError, match="50 steps up to 55"):
        _run(loop, recorder, _intervals(1000, log=5), values)
    logged = {step: metrics for _, step, metrics, _ in recorder.written}
    assert logged[5]["skipped_steps"] == 0
    assert logged[10]["skipped_steps"] == 5
    assert logged[10]["gradient_norm"] == 0.0
    assert logged[50]["loss_scale"] == 1.0


def _send(number):
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_ends_the_run(number):
    loop = _loop()
    recorder = Recorder(loop)
    recorder.hooks["write train", 3] = _send(number)
    with stopping.StopRequest() as stop:
        is_finished = _run(
            loop, recorder, _intervals(20, log=3, save=5), stop=stop
        )
    assert not is_finished
    assert recorder.diary == [("write train", 3), ("save", 3)]
    name = signal.Signals(number).name
    assert recorder.said == [
        f"Stopped by {name} after step 3; saved. The same command goes on "
        "from there."
    ]


def test_a_signal_at_the_last_step_changes_nothing():
    loop = _loop()
    recorder = Recorder(loop)
    recorder.hooks["write train", 6] = _send(signal.SIGTERM)
    with stopping.StopRequest() as stop:
        assert _run(loop, recorder, _intervals(6, log=3, save=6), stop=stop)
    assert recorder.diary[-1] == ("save", 6)
    assert recorder.said == []


def test_a_finished_run_takes_no_step():
    loop = _loop()
    _run(loop, Recorder(loop), _intervals(4, save=4))
    recorder = Recorder(loop)
    assert _run(loop, recorder, _intervals(4, log=1, evaluate=1, save=1))
    assert recorder.diary == []


def test_evaluation_adds_up_batches_and_begins_at_zero():
    loop = _loop()
    rows = np.array([1.0, 2.0, 3.0], np.float32).reshape(-1, 1, 1)
    dataset = tf.data.Dataset.from_tensor_slices({"x": rows})
    for _ in range(2):
        metrics = loop.evaluate(dataset, 3)
        assert metrics == {"loss": pytest.approx((1 + 4 + 9) / 3)}
    assert loop.evaluate(dataset, 2) == {"loss": pytest.approx(2.5)}
    assert loop.evaluate_batch.experimental_get_tracing_count() == 1
    assert loop.step == 0
