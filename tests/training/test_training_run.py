"""The host acts when it should, in order, and stops when it must."""

import os
import signal
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from electra_tf import config
from electra_tf.processes import stopping
from electra_tf.training import optimizers
from electra_tf.training import step as step_lib
from electra_tf.training import step_state
from electra_tf.training import training_run


class Line(step_lib.TrainableModel):
    """Learns `y = slope * x` from x; the slope should be 2."""

    loss_coefficients = {"error": 1.0}

    def __init__(self, rate: Any) -> None:
        super().__init__(clip_norm=1e9)
        self.slope = self.add_weight(
            shape=(1,), initializer="ones", name="slope"
        )
        self.built = True
        self.optimizer = optimizers.AdamWeightDecay(rate, weight_decay=0.0)
        self.optimizer.build(self.trainable_variables)

    def prepare(self, features, step, is_training):
        return features["x"]

    def loss_normalizers(self, prepared):
        return {"error": tf.cast(tf.size(prepared), tf.float32)}

    def compute_losses(self, prepared, dropout_seed):
        error = tf.reduce_sum(((self.slope.value - 2.0) * prepared) ** 2)
        return step_lib.LossSums({"error": error}, {})

    def derive_metrics(self, statistics):
        total, count = statistics["error"], statistics["error_normalizer"]
        return {"loss": total[0] / count[0]}


def _rows(values):
    rows = np.array(values, np.float32).reshape(-1, 1, 1)
    return tf.data.Dataset.from_tensor_slices({"x": rows})


class Run(training_run.TrainingRun):
    """A run that keeps a diary, of its report too, instead of a folder."""

    def __init__(
        self, total, log=10**6, evaluate=0, save=10**6, rate=0.01,
        strategy=None, held_out=(), steps_per_loop=100,
    ):  # fmt: skip
        strategy = strategy or tf.distribute.get_strategy()
        settings = config.TrainingConfig(
            log_steps=log, eval_steps=evaluate, save_checkpoints_steps=save,
            steps_per_loop=steps_per_loop,
        )  # fmt: skip
        with strategy.scope():
            model = Line(rate)
        super().__init__(settings, strategy, model, None, total)
        self.report = self
        self.held_out, self.early = dict(held_out), ()
        self.diary, self.written, self.said, self.hooks = [], [], [], {}

    def go(self, values=(1.0,), stop=None):
        """Trains on rows of one number; the last one is repeated."""
        last = _rows(values[-1:]).repeat()
        iterator = iter(
            self.strategy.distribute_datasets_from_function(
                lambda _: _rows(values).concatenate(last)
            )
        )
        return self._take_steps(iterator, stop or stopping.StopRequest())

    def _note(self, what, step):
        self.diary.append((what, step))
        self.hooks.get((what, step), lambda: None)()

    def evaluate(self, step):
        self._note("evaluate", step)
        metrics, is_best, *ends = self.held_out.get(step, ({}, False))
        self.is_finished = bool(ends)
        return metrics, is_best

    def save(self, step):
        assert self.step == step
        self._note("save", step)

    def write(self, split, step, metrics, timing=None):
        self.written.append((split, step, metrics, timing))
        self._note(f"write {split}", step)

    def say(self, text):
        self.said.append(text)

    def advance(self, step):
        return step in self.early

    def print(self, split, step, values):
        self.written.append((split, step, values, None))
        self._note(f"print {split}", step)

    def cost(self, step):
        return {"cost": 3.0 * step}

    def timing(self, seconds, steps):
        return {"seconds": seconds, "steps": steps}

    begin = resume = state = describe = build_dataset = None


def test_the_host_acts_in_time_and_saves_last():
    run = Run(10, log=2, evaluate=4, save=6)
    assert run.go()
    # The last step is always logged, evaluated and saved.
    log, held_out = "write train", ["evaluate", "write validation"]
    expected = {2: [log], 4: [log, *held_out], 6: [log, "save"],
                8: [log, *held_out], 10: [log, *held_out, "save"]}  # fmt: skip
    assert run.diary == [(w, step) for step in expected for w in expected[step]]
    assert run.written[2][2] == {"cost": 12.0}
    assert run.step == 10
    run.diary.clear()
    assert run.go()
    assert run.diary == []


def test_an_evaluation_may_ask_for_a_save_or_end_the_training():
    held_out = {2: ({}, True), 4: ({}, False), 6: ({}, True, True)}
    run = Run(9, evaluate=2, save=3, held_out=held_out)
    assert run.go()
    # Once where it is due anyway.
    saves = [step for what, step in run.diary if what == "save"]
    assert saves == [2, 3, 6]
    assert run.diary[-2:] == [("write validation", 6), ("save", 6)]


def test_chunks_of_every_length_share_one_trace(two_devices):
    for strategy in (None, two_devices):
        run = Run(20, log=7, save=4, steps_per_loop=3, strategy=strategy)
        run.go()
        assert run.step == 20
        assert run.run_steps.experimental_get_tracing_count() == 1


def test_a_log_covers_the_steps_since_the_last_one():
    class Tiny(tf.keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            return 1e-20 * tf.cast(step, tf.float32)

    run = Run(4, log=2, rate=Tiny())
    run.go([1, 2, 3, 4])
    (_, _, first, _), (_, _, second, _) = run.written
    # The slope stays 1, so a row's loss is x ** 2, its gradient -2 * x ** 2.
    assert first["loss"] == pytest.approx((1 + 4) / 2)
    assert first["gradient_norm"] == pytest.approx(2 * (1 + 4) / 2)
    assert second["loss"] == pytest.approx((9 + 16) / 2)
    assert second["gradient_norm"] == pytest.approx(2 * (9 + 16) / 2)
    # Those of the updates 1 and 3, counted from 0.
    assert first["learning_rate"] == pytest.approx(1e-20)
    assert second["learning_rate"] == pytest.approx(3e-20)


def test_an_early_line_leaves_the_log_as_it_is():
    run = Run(4, log=4, steps_per_loop=1, rate=1e-20)
    run.early = (2,)
    run.go([1, 2, 3, 4])
    assert run.diary == [("print train", 2), ("write train", 4), ("save", 4)]
    losses = [metrics["loss"] for _, _, metrics, _ in run.written]
    assert losses == pytest.approx([(1 + 4) / 2, (1 + 4 + 9 + 16) / 4])


def test_a_stage_begins_at_its_step_and_has_a_log_of_its_own(monkeypatch):
    entered = []

    def enter(model, *given):
        entered.append((run.step, *given))

    monkeypatch.setattr(Line, "stage_starts", (0, 4))
    monkeypatch.setattr(Line, "enter_stage", enter)
    run = Run(9, log=9)
    run.go([1, 2, 3, 4, 5])
    assert entered == [(0, 0, True), (4, 1, True)]
    assert run.diary == [("write train", 4), ("write train", 9), ("save", 9)]


@pytest.mark.parametrize("means_per_replica", [False, True])
def test_replicas_have_the_mean_of_their_gradients(
    two_devices, means_per_replica
):
    with two_devices.scope():
        line = Line(0.1)
        # An optimizer of Keras must not add up the replicas again.
        line.optimizer = tf.keras.optimizers.SGD(0.1)
        line.optimizer.build(line.trainable_variables)
    line.means_per_replica = means_per_replica
    # Rows of 1 and 3, whose gradients are -2 and -18.
    rows = two_devices.experimental_distribute_values_from_function(
        lambda own: tf.constant([[1.0 + 2 * own.replica_id_in_sync_group]])
    )
    step = tf.function(line.training_step, autograph=False)
    found = two_devices.run(step, args=({"x": rows},))
    for norm in two_devices.experimental_local_results(found["gradient_norm"]):
        assert float(norm[0]) == pytest.approx(10.0)
    assert float(line.slope.numpy()[0]) == pytest.approx(1 + 0.1 * 10)


def test_only_traced_training_is_timed(monkeypatch):
    run, clock, counts = Run(9, log=3, save=2), [0.0], []
    run_steps = run.run_steps
    monkeypatch.setattr(training_run.time, "monotonic", lambda: clock[0])

    def run_slowly(iterator, num_steps):
        run_steps(iterator, num_steps)
        counts.append(int(num_steps))
        clock[0] += counts[-1]

    run.run_steps = run_slowly
    run.hooks["save", 2] = lambda: clock.__setitem__(0, clock[0] + 60.0)
    run.go()
    # The first call was traced, and until a step has been timed they are
    # taken one by one.
    assert counts == [1, 1, 1, 1, 2, 2, 1]
    times = [own for split, *_, own in run.written if split == "train"]
    found = [(own["seconds"], own["steps"]) for own in times]
    assert found == [(2.0, 2), (3.0, 3), (3.0, 3)]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_loss_that_is_no_number_stops_before_anything_is_saved(wrong):
    held_out = {16: ({"auc": 0.5, "loss": wrong}, True)}
    for values, message, last in (
        ([1.0] * 10 + [wrong, 1.0], "between steps 9 and 12: error", "save"),
        ([1.0], "held-out data at step 16: loss", "evaluate"),
    ):
        run = Run(20, log=4, evaluate=8, save=4, held_out=held_out)
        with pytest.raises(training_run.NonFiniteLossError, match=message):
            run.go(values)
        assert run.diary[-1][0] == last


def test_weights_that_an_update_broke_are_not_saved():
    run = Run(20, log=4, save=4)
    run.hooks["write train", 8] = lambda: run.model.slope.assign([np.nan])
    message = "after step 8: model/.*slope"
    with pytest.raises(training_run.NonFiniteLossError, match=message):
        run.go()
    assert [step for what, step in run.diary if what == "save"] == [4]


def test_a_run_whose_every_step_is_skipped_stops_whatever_it_logs():
    run = Run(1000, log=5, rate=1e-20)
    run.model.loss_scale = step_state.LossScale()
    # The gradient of 1 is -2; that of 3e18 is not finite, though the loss is.
    message = "50 steps up to 55"
    with pytest.raises(training_run.NonFiniteLossError, match=message):
        run.go([1.0] * 4 + [3e18])
    logged = {step: metrics for _, step, metrics, _ in run.written}
    skipped = [logged[step]["skipped_steps"] for step in (5, 10)]
    norms = [logged[step]["gradient_norm"] for step in (5, 10)]
    # The mean is that of the steps that were taken.
    assert (skipped, norms) == ([1, 5], [pytest.approx(2.0), 0.0])
    assert logged[50]["loss_scale"] == 1.0


@pytest.mark.parametrize("num_steps", [20, 3])
def test_a_signal_saves_and_ends_the_run_unless_it_is_over(num_steps):
    run = Run(num_steps, log=3, save=5)
    run.hooks["write train", 3] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    with stopping.StopRequest() as stop:
        assert run.go(stop=stop) == (num_steps == 3)
    assert run.diary == [("write train", 3), ("save", 3)]
    expected = "Stopped by SIGTERM after step 3; saved."
    assert [text[:39] for text in run.said] == [expected] * (num_steps > 3)


@pytest.mark.parametrize("is_amid", [False, True])
def test_a_signal_cuts_an_evaluation_that_the_next_start_makes_up_for(is_amid):
    run = Run(8, log=4, evaluate=4, held_out={4: ({}, True)})

    def terminate():
        os.kill(os.getpid(), signal.SIGTERM)
        if is_amid:
            run.measure(_rows([1.0]), 1)

    run.hooks["evaluate" if is_amid else "write train", 4] = terminate
    with stopping.StopRequest() as stop:
        assert not run.go(stop=stop)
    evaluation = [("evaluate", 4)]
    begin = [("write train", 4), *evaluation * is_amid, ("save", 4)]
    assert run.diary == begin
    run.hooks.clear(), run.diary.clear()
    assert run.go()
    late = [*evaluation, ("write validation", 4), ("save", 4)]
    assert run.diary[:4] == [*late, ("write train", 8)]


def test_evaluation_adds_up_batches_and_begins_at_zero():
    run = Run(1)
    for count, loss in ((3, (1 + 4 + 9) / 3), (2, 2.5)):
        found = run.measure(_rows([1.0, 2.0, 3.0]), count)
        assert found == {"loss": pytest.approx(loss)}
    assert run.evaluate_batch.experimental_get_tracing_count() == 1
    assert run.step == 0
