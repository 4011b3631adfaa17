"""The training of a trial: with early stopping, resumable at any step."""

import functools
import math
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import adaptation
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import task_data
from electra_tf.finetuning import trial as trial_lib
from electra_tf.modeling import flops
from electra_tf.modeling import networks
from electra_tf.processes import stopping
from electra_tf.tasks import files
from electra_tf.training import checkpoints
from electra_tf.training import distribution
from electra_tf.training import training_run


class _Training(training_run.TrainingRun):
    """The training of a trial."""

    title = "Fine-tuning"
    training: finetuning_config.FinetuningTrainingConfig

    def __init__(self, trial: trial_lib.Trial) -> None:
        self.trial = trial
        settings, training = trial.settings, trial.settings.training
        prepared, model = trial.prepared, trial.model
        columns = {name: head.columns for name, head in model.heads.items()}
        self.table = task_data.RowTable(prepared.training_rows, columns)
        adaptation.freeze(model.encoder, training.frozen_layers)
        with trial.strategy.scope():
            if settings.lora.rank:
                model.lora.adapt(model.encoder, settings.lora, training.seed)
            model.optimizer = model_lib.build_optimizer(
                settings.optimizer,
                prepared.num_steps,
                trial.loaded.settings.num_hidden_layers,
            )
            model.optimizer.build(model.trained_variables)
        super().__init__(
            training, trial.strategy, model, trial.folder, prepared.num_steps
        )
        self.best_score: float | None = None
        # Scores of the current weights.
        self.scores: trial_lib.Scores | None = None
        if trial.place:
            self.title, self.is_brief = trial.place, True
            self.has_introduction = trial.place.startswith("Trial 1 ")
        if not self.eval_steps:
            tasks = prepared.tasks.items()
            dev = [(n, split) for n, task in tasks for split in task.dev_splits]
            num_dev = sum(prepared.rows(*place).num_rows for place in dev)
            # Scoring a row takes a third of the time of training on it:
            # evaluation gets at most a tenth of the time.
            num_rows = len(self.table.row_lengths)
            rows = num_rows * math.ceil(3 * num_dev / num_rows)
            self.eval_steps = math.ceil(rows / self.units_per_step)

    def run(self, stop: stopping.StopRequest) -> bool:
        """Trains; with early stopping the weights are then the best ones."""
        is_done = super().run(stop)
        if is_done and self.training.early_stopping_patience:
            best, self.scores = checkpoints.best(self.folder), None
            if best is not None:
                self.trial.load_weights(best)
        return is_done

    def saved_variables(self) -> dict[str, Any]:
        adapters = self.trial.model.lora.variables.items()
        return super().saved_variables() | {f"lora/{n}": v for n, v in adapters}

    def save(self, step: int) -> None:
        """Writes kernels with their adapters: readers see a plain model."""
        self.trial.model.lora.merge()
        super().save(step)

    def begin(self) -> str:
        return self.trial.loaded.origin

    def resume(
        self, state: Mapping[str, Any], checkpoint: pathlib.Path
    ) -> None:
        _require_same_rows(state, checkpoint, self.trial.prepared)
        self.best_score = state["best_score"]
        self.is_finished = state["is_finished"]

    def state(self, step: int) -> dict[str, Any]:
        return {
            "rows": self.trial.prepared.training_checksum,
            "best_score": self.best_score,
            "is_finished": self.is_finished or step == self.num_steps,
        }

    @functools.cached_property
    def order(self) -> task_data.BatchOrder:
        """The rows of every update."""
        return task_data.order_for_training(
            self.table.row_lengths,
            self.training.train_batch_size,
            self.num_steps,
            self.training.seed,
            self.training.group_by_length,
        )

    def build_dataset(self, context: tf.distribute.InputContext) -> Any:
        length = self.trial.static_length
        return task_data.build_training_dataset(
            self.table, self.order, self.start_step, context, length
        )

    def count_flops(self, num_steps: int) -> float:
        """Counts the encoder's operations in the first updates, with padding.

        Returns 0 if a part of the encoder is not trained.
        """
        trial = self.trial
        if self.training.frozen_layers or trial.settings.lora.rank:
            return 0.0
        num_rows = self.order.rows.shape[1] * self.table.group_size
        lengths = self.order.lengths[:num_steps]
        if trial.static_length:
            lengths = np.full_like(lengths, trial.static_length)
        pairs = zip(*np.unique(lengths, return_counts=True), strict=True)
        total = 0.0
        for length, count in pairs:
            # No config has shorter rows.
            data = config.DataConfig(max_seq_length=max(int(length), 8))
            rows = config.ExperimentConfig(trial.loaded.settings, data=data)
            a_row = flops.Convention("exact", rows).encoder().total
            total += a_row * num_rows * float(count)
        return total

    def evaluate(self, step: int) -> tuple[dict[str, float], bool]:
        scores = self.trial.evaluate(before_batch=self.check_stop)
        self.scores = scores
        metrics = {
            f"{name}/{split}/{key}": number
            for name, splits in scores.items()
            for split, score in splits.items()
            for key, number in score.metrics.items()
        }
        score = trial_lib.mean_merit(scores, self.trial.deciding_metrics)
        is_best = self.best_score is None or score > self.best_score
        patience = self.training.early_stopping_patience
        if is_best and patience:
            self.best_score, self.best_step = score, step
        waited = (step - (self.best_step or 0)) / self.eval_steps
        self.is_finished = bool(patience) and waited >= patience
        if self.is_finished:
            best = f"step {self.best_step}, score {self.best_score:.2f}"
            self.report.say(f"Stopped early: takes the weights of {best}.")
        return {"score": score, **metrics}, is_best and bool(patience)

    def describe(self) -> str:
        paths = [v.path for v in self.model.weights]
        encoder = f"{networks.MAIN_ENCODER}/"
        new = [path for path in paths if not path.startswith(encoder)]
        trained = sum(math.prod(v.shape) for v in self.model.trained_variables)
        total = self.model.count_params()
        batch, num_rows = self.units_per_step, len(self.table.row_lengths)
        size = self.table.group_size
        what = f"groups of {size} rows" if size > 1 else "rows"
        notes = ""
        if self.num_steps < trial_lib.FEW_STEPS:
            notes = (
                "\nWarning: so few steps teach little. Raise "
                "training.num_train_epochs, or lower "
                "training.train_batch_size."
            )
        for task in self.trial.prepared.tasks.values():
            notes += f"\n{task.storage_note}" * bool(task.storage_note)
        return (
            f"{len(new)} new variables: {files.list_some(new)}. {trained:,} of "
            f"{total:,} weights are trained. {num_rows:,} {what}, "
            f"{self.num_steps:,} steps of {batch}, "
            f"{self.num_steps * batch / num_rows:.2f} epochs.{notes}"
        )


def _require_same_rows(
    state: Mapping[str, Any],
    checkpoint: pathlib.Path,
    prepared: task_data.PreparedTasks,
) -> None:
    present = prepared.training_checksum
    if state.get("rows", present) != present:
        raise errors.ModelError(
            f"{checkpoint} was trained on other rows than those of the "
            "present files. Restore the training data, or start anew with "
            "another --output_dir."
        )


def run_trial(
    trial: trial_lib.Trial, stop: stopping.StopRequest
) -> trial_lib.TrialResult | None:
    """Trains and evaluates a trial, unless it is done; None if stopped."""
    done = trial_lib.read_result(trial.folder)
    if done is not None:
        newest = checkpoints.latest(trial.folder)
        if newest and trial_lib.read_description(trial.folder).data is None:
            state = checkpoints.load_state(newest)
            _require_same_rows(state, newest, trial.prepared)
        return done
    start = time.monotonic()
    training = _Training(trial)
    if not training.run(stop):
        return None
    num_steps = int(trial.model.optimizer.iterations.numpy())
    result = trial_lib.TrialResult(
        seed=trial.settings.training.seed,
        scores=training.scores or trial.evaluate(),
        metrics=trial.deciding_metrics,
        num_steps=num_steps,
        origin=trial.loaded.origin,
        seconds=round(time.monotonic() - start, 1),
        device=distribution.device_description(trial.strategy),
        versions={"tensorflow": tf.__version__, "keras": keras.__version__},
        share_cut=round(trial.prepared.share_cut, 4),
        num_weights=trial.model.count_params(),
        flops=training.count_flops(num_steps),
    )
    if distribution.is_chief(trial.strategy):
        trial_lib.write_result(trial.folder, result)
    return result
