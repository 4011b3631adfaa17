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
import pathlib
import time
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import encoders
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import task_data
from electra_tf.finetuning import trial_dir as trial_dir_lib
from electra_tf.processes import stopping
from electra_tf.training import checkpoints
from electra_tf.training import distribution
from electra_tf.training import training_run


@dataclasses.dataclass(eq=False)
class Trial:
    """One trial: its model, its data and its folder."""

    settings: finetuning_config.FinetuningConfig  # with this trial's seed
    loaded: encoders.LoadedEncoder  # where it starts; its weights are changed
    prepared: task_data.PreparedTasks  # shared by all trials of a process
    strategy: tf.distribute.Strategy  # in whose scope `loaded` was built
    folder: pathlib.Path

    def __post_init__(self) -> None:
        with self.strategy.scope():
            self.model = build_model(self.settings, self.loaded, self.prepared)
        is_tpu = isinstance(self.strategy, tf.distribute.TPUStrategy)
        # A TPU compiles for every length: there is to be one.
        longest = max(self.prepared.lengths.values())
        self.static_length = longest if is_tpu else 0
        self._predictor = model_lib.Predictor(
            self.strategy,
            self.model,
            self.settings.training.eval_batch_size,
            self.static_length,
        )

    @property
    def deciding_metrics(self) -> dict[str, str]:
        """Task name to the metric that decides which trial is the best."""
        return {name: task.metric for name, task in self.prepared.tasks.items()}

    def load_weights(self, checkpoint: pathlib.Path) -> None:
        """Takes the encoder's and heads' weights of a checkpoint."""
        variables = {v.path: v for v in self.model.trainable_variables}
        checkpoints.load_weights(checkpoint, variables)

    def predict(self, name: str, split: str) -> Any:
        """Returns the task's predictions as `Task.decode` gives them."""
        rows = self.prepared.rows(name, split)
        return self.prepared.tasks[name].decode(
            self.prepared.examples(name, split),
            rows,
            self._predictor.predict(name, rows),
        )

    def evaluate(
        self, splits: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, dict[str, trial_dir_lib.Score]]:
        """Returns scores by task and split, by default of the dev splits."""
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
    prepared: task_data.PreparedTasks,
) -> model_lib.FinetuningModel:
    """Builds the model: the encoder with a fresh head for each task."""
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
        self.table = task_data.RowTable(
            prepared.training_rows,
            {name: head.columns for name, head in trial.model.heads.items()},
        )
        with trial.strategy.scope():
            trial.model.optimizer = model_lib.build_optimizer(
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
        if state["rows"] != self.trial.prepared.training_checksum:
            raise errors.ModelError(
                f"{checkpoint} was trained on other rows than those of the "
                "present files. Restore the training data, or start anew "
                "with another --output_dir."
            )
        self.best_score = state["best_score"]
        self.is_finished = state["is_finished"]

    def state(self, step: int) -> dict[str, Any]:
        return {
            "rows": self.trial.prepared.training_checksum,
            "best_score": self.best_score,
            "is_finished": self.is_finished or step == self.num_steps,
        }

    def build_dataset(self, context: tf.distribute.InputContext) -> Any:
        order = task_data.order_for_training(
            self.table.row_lengths,
            self.settings.train_batch_size,
            self.num_steps,
            self.settings.seed,
            self.settings.group_by_length,
        )
        return task_data.build_training_dataset(
            self.table,
            order,
            self.start_step,
            context,
            self.trial.static_length,
        )

    def evaluate(self, step: int) -> training_run.Evaluation:
        found = self.trial.evaluate()
        metrics = {
            f"{name}/{split}/{key}": number
            for name, splits in found.items()
            for split, score in splits.items()
            for key, number in score.metrics.items()
        }
        score = trial_dir_lib.mean_merit(found, self.trial.deciding_metrics)
        is_best = self.best_score is None or score > self.best_score
        if is_best:
            self.best_score, self.best_step = score, step
        patience = self.settings.early_stopping_patience
        waited = (step - (self.best_step or 0)) / self.settings.eval_steps
        self.is_finished = bool(patience) and waited >= patience
        return training_run.Evaluation(
            {"score": score, **metrics},
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
        num_rows = len(self.table.row_lengths)
        return (
            f"Fine-tuning in {self.folder} on {self.device}, "
            f"{self.settings.precision}, seed {self.settings.seed}: {origin}; "
            f"{len(new)} new: {shown}.\n"
            f"{num_rows:,} rows, {self.num_steps:,} steps of "
            f"{self.settings.train_batch_size}, {taken / num_rows:.2f} epochs. "
            "The first step is being traced ..."
        )


def _look_ahead(prepared: task_data.PreparedTasks, needs_dev: bool) -> None:
    """Reads what will be scored, so that a mistake shows before training."""
    for name, task in prepared.tasks.items():
        schema.require(
            bool(task.dev_splits) or not needs_dev,
            f"`training.eval_steps` needs dev data of {name}. Received: none. "
            "Name its file, or set --config.training.eval_steps=0.",
        )
        for split in (*task.dev_splits, *task.test_splits):
            prepared.examples(name, split)


def run_trial(
    trial: Trial, stop: stopping.StopRequest
) -> trial_dir_lib.TrialResult | None:
    """Trains and evaluates a trial, unless it is done; None if stopped."""
    done = trial_dir_lib.read_result(trial.folder)
    if done is not None:
        return done
    start = time.monotonic()
    if not _Training(trial).run(stop):
        return None
    result = trial_dir_lib.TrialResult(
        seed=trial.settings.training.seed,
        scores=trial.evaluate(),
        metrics=trial.deciding_metrics,
        num_steps=int(trial.model.optimizer.iterations.numpy()),
        origin=trial.loaded.origin,
        seconds=round(time.monotonic() - start, 1),
        device=distribution.device_description(trial.strategy),
        versions={"tensorflow": tf.__version__, "keras": keras.__version__},
    )
    if distribution.is_chief(trial.strategy):
        trial_dir_lib.write_result(trial.folder, result)
    return result


def with_seed(
    settings: finetuning_config.FinetuningConfig, number: int
) -> finetuning_config.FinetuningConfig:
    """Returns the settings of trial `number`: its seed is seed + number - 1."""
    training = settings.training
    seed = training.seed + number - 1
    return dataclasses.replace(
        settings, training=dataclasses.replace(training, seed=seed)
    )
