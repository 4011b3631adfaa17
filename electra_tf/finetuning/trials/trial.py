"""One trial of a fine-tuning: trained, evaluated, resumable at any time.

    trial_dir/
        config.json            settings, encoder, labels: what it takes to load
        vocab.txt, tokenizer_config.json
        checkpoints/, metrics.jsonl, tensorboard/
        results.json           written last: the trial is done

The same command goes on from the newest checkpoint, with the bits of a trial
that was not stopped: the order of the rows is made again from the seed.
"""

import dataclasses
import hashlib
import pathlib
import statistics
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import sections as config_sections
from electra_tf.finetuning import batches
from electra_tf.finetuning import encoders
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import optimizer as optimizer_lib
from electra_tf.finetuning import predictor as predictor_lib
from electra_tf.finetuning import prepared as prepared_lib
from electra_tf.finetuning.trials import trial_dir as trial_dir_lib
from electra_tf.processes import stopping
from electra_tf.training import checkpoints
from electra_tf.training import distribution
from electra_tf.training import training_run


class Trial:
    """The parts of one trial and how they are put together.

    Args:
        settings: of the fine-tuning; `training.seed` is this trial's.
        loaded: where the encoder starts; its weights are changed.
        prepared: the tasks, shared by all trials of a process.
        strategy: where; `loaded` was built in its scope.
        folder: of the trial.
    """

    def __init__(
        self,
        settings: finetuning_config.FinetuningConfig,
        loaded: encoders.LoadedEncoder,
        prepared: prepared_lib.PreparedTasks,
        strategy: tf.distribute.Strategy,
        folder: pathlib.Path,
    ) -> None:
        self.settings = settings
        self.loaded = loaded
        self.prepared = prepared
        self.strategy = strategy
        self.folder = folder
        with strategy.scope():
            self.model = build_model(settings, loaded, prepared)
        is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)
        self.predictor = predictor_lib.Predictor(
            strategy,
            self.model,
            settings.training.eval_batch_size,
            # A TPU compiles for every length: there is to be one.
            max(prepared.lengths.values()) if is_tpu else 0,
        )
        self.is_chief = distribution.is_chief(strategy)

    def load_weights(self, checkpoint: pathlib.Path) -> None:
        """Takes the encoder's and heads' weights of a checkpoint.

        Raises:
            ModelError: unless it holds exactly these variables.
        """
        variables = {v.path: v for v in self.model.trainable_variables}
        checkpoints.load_weights(checkpoint, variables)

    def train(self, stop: stopping.StopRequest) -> bool:
        """Trains to the last step, or until asked to stop.

        Returns:
            True if training is done; the weights are then the final ones, or
            the best of early stopping.
        """
        training = _Training(self)
        return training.run(stop)

    def predict(self, name: str, split: str) -> Any:
        """The task's predictions for a split, as `Task.decode` gives them."""
        rows = self.prepared.rows(name, split)
        return self.prepared.tasks[name].decode(
            self.prepared.examples(name, split),
            rows,
            self.predictor.predict(name, rows),
        )

    def evaluate(
        self, splits: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, dict[str, trial_dir_lib.Score]]:
        """Scores, by task and split.

        Args:
            splits: task name to splits with labels; None for the dev splits of
                all tasks, the deciding one first.
        """
        if splits is None:
            tasks = self.prepared.tasks
            splits = {name: task.dev_splits for name, task in tasks.items()}
        return {
            name: {split: self._score(name, split) for split in chosen}
            for name, chosen in splits.items()
        }

    def _score(self, name: str, split: str) -> trial_dir_lib.Score:
        task = self.prepared.tasks[name]
        examples = self.prepared.examples(name, split)
        predictions = self.predict(name, split)
        return trial_dir_lib.Score(
            task.score(examples, predictions),
            bool(task.is_degenerate(examples, predictions)),
            task.lower_is_better,
        )


def build_model(
    settings: finetuning_config.FinetuningConfig,
    loaded: encoders.LoadedEncoder,
    prepared: prepared_lib.PreparedTasks,
) -> model_lib.FinetuningModel:
    """The encoder with a fresh head for each task.

    Args:
        settings: of the fine-tuning.
        loaded: the encoder.
        prepared: the tasks.
    """
    seed = settings.training.seed
    dtype = loaded.encoder.dtype_policy
    heads = {
        name: task.build_head(loaded.settings.hidden_size, seed, dtype)
        for name, task in prepared.tasks.items()
    }
    return model_lib.FinetuningModel(
        loaded.encoder,
        heads,
        seed=seed,
        num_micro_batches=settings.training.num_micro_batches,
        clip_norm=settings.optimizer.clip_norm,
    )


class _Training(training_run.TrainingRun):
    """The training of a trial."""

    late_metrics = ("score", "rows_per_second")

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.settings = trial.settings.training
        prepared = trial.prepared
        _look_ahead(prepared, self.settings.eval_steps > 0)
        self.table = batches.RowTable(
            prepared.training_rows,
            {name: head.columns for name, head in trial.model.heads.items()},
        )
        self.order = batches.order_for_training(
            self.table.row_lengths,
            self.settings.train_batch_size,
            prepared.num_steps,
            self.settings.seed,
            self.settings.group_by_length,
        )
        with trial.strategy.scope():
            trial.model.optimizer = optimizer_lib.build_optimizer(
                trial.settings.optimizer,
                prepared.num_steps,
                trial.loaded.settings.num_hidden_layers,
            )
            trial.model.optimizer.build(trial.model.trainable_variables)
        super().__init__(
            self.settings,
            trial.strategy,
            trial.model,
            trial.folder,
            prepared.num_steps,
        )
        self.best_score: float | None = None

    def run(self, stop: stopping.StopRequest) -> bool:
        """Trains; with early stopping the weights are then the best ones."""
        is_done = super().run(stop)
        if is_done and self.settings.early_stopping_patience:
            best = checkpoints.best(self.folder)
            if best is not None:
                self.trial.load_weights(best)
        return is_done

    def begin(self) -> str:
        return self.trial.loaded.origin

    def resume(
        self, state: Mapping[str, Any], checkpoint: pathlib.Path
    ) -> None:
        if state["rows"] != self._identity():
            raise errors.ModelError(
                f"{checkpoint} was trained on other rows than those of the "
                "present files. Restore the training data, or start anew "
                "with another --output_dir."
            )
        self.best_score = state["best_score"]
        self.is_finished = state["is_finished"]

    def state(self, step: int) -> dict[str, Any]:
        return {
            "rows": self._identity(),
            "best_score": self.best_score,
            "is_finished": self.is_finished or step == self.num_steps,
        }

    def _identity(self) -> str:
        """A checksum of the rows, so that a resume notices other data."""
        digest = hashlib.sha256()
        for rows in self.trial.prepared.training_rows.values():
            digest.update(rows.segment_starts.tobytes())
            for ragged in (rows.ids, *rows.ragged.values()):
                digest.update(ragged.values.tobytes())
                digest.update(ragged.splits.tobytes())
            for column in rows.columns.values():
                digest.update(column.tobytes())
        return digest.hexdigest()

    def build_dataset(self, context: tf.distribute.InputContext) -> Any:
        is_tpu = isinstance(self.strategy, tf.distribute.TPUStrategy)
        static_length = max(self.trial.prepared.lengths.values())
        return batches.build_training_dataset(
            self.table,
            self.order,
            self.start_step,
            context,
            static_length if is_tpu else 0,
        )

    def evaluate(self, step: int) -> training_run.Evaluation:
        found = self.trial.evaluate()
        metrics = {
            f"{name}/{split}/{key}": number
            for name, splits in found.items()
            for split, score in splits.items()
            for key, number in score.metrics.items()
        }
        decisive = statistics.fmean(
            found[name][task.dev_splits[0]].merit(task.metric)
            for name, task in self.trial.prepared.tasks.items()
        )
        is_best = self.best_score is None or decisive > self.best_score
        if is_best:
            self.best_score, self.best_step = decisive, step
        patience = self.settings.early_stopping_patience
        waited = (step - (self.best_step or 0)) / self.settings.eval_steps
        self.is_finished = bool(patience) and waited >= patience
        return training_run.Evaluation(
            {"score": decisive, **metrics},
            is_best and bool(patience),
            self.is_finished,
        )

    def timing(self, seconds: float, steps: int) -> Mapping[str, float]:
        rows = self.settings.train_batch_size * steps
        return {
            "rows_per_second": rows / seconds,
            "seconds_per_step": seconds / steps,
        }

    def describe(self, origin: str) -> str:
        encoder = {id(v) for v in self.trial.model.encoder.variables}
        new = [
            v.path
            for v in self.model.trainable_variables
            if id(v) not in encoder
        ]
        shown = ", ".join(new[:6]) + (" ..." if len(new) > 6 else "")
        taken = self.num_steps * self.settings.train_batch_size
        epochs = taken / self.table.num_rows
        return (
            f"Fine-tuning in {self.folder} on {self.device}, "
            f"{self.settings.precision}, seed {self.settings.seed}: {origin}; "
            f"{len(new)} new: {shown}.\n"
            f"{self.table.num_rows:,} rows, {self.num_steps:,} steps of "
            f"{self.settings.train_batch_size}, {epochs:.2f} epochs. The first "
            "step is being traced ..."
        )


def _look_ahead(prepared: prepared_lib.PreparedTasks, needs_dev: bool) -> None:
    """Reads what will be scored, so that a mistake shows before training."""
    for name, task in prepared.tasks.items():
        config_sections.require(
            bool(task.dev_splits) or not needs_dev,
            f"`training.eval_steps` needs dev data of {name}. Received: none. "
            "Name its file, or set --config.training.eval_steps=0.",
        )
        for split in (*task.dev_splits, *task.test_splits):
            prepared.examples(name, split)


def run_trial(
    trial: Trial, stop: stopping.StopRequest
) -> trial_dir_lib.TrialResult | None:
    """Trains and evaluates a trial, unless that has been done.

    Args:
        trial: its folder holds what an earlier process left, or nothing.
        stop: a signal that asks to stop.

    Returns:
        The result, or None if it was asked to stop; all is saved then.
    """
    done = trial_dir_lib.read_result(trial.folder)
    if done is not None:
        return done
    start = time.monotonic()
    if not trial.train(stop):
        return None
    scores = trial.evaluate()
    result = trial_dir_lib.TrialResult(
        seed=trial.settings.training.seed,
        scores=scores,
        metrics={
            name: task.metric for name, task in trial.prepared.tasks.items()
        },
        num_steps=int(trial.model.optimizer.iterations.numpy()),
        origin=trial.loaded.origin,
        seconds=round(time.monotonic() - start, 1),
        device=distribution.device_description(trial.strategy),
        versions={"tensorflow": tf.__version__, "keras": keras.__version__},
    )
    if trial.is_chief:
        trial_dir_lib.write_result(trial.folder, result)
    return result


def with_seed(
    settings: finetuning_config.FinetuningConfig, number: int
) -> finetuning_config.FinetuningConfig:
    """The settings of trial `number`, from 1; it uses seed + number - 1."""
    training = settings.training
    seed = training.seed + number - 1
    return dataclasses.replace(
        settings, training=dataclasses.replace(training, seed=seed)
    )
