"""One trial of a fine-tuning: its folder, its model, its predictions.

Its folder has config.json, the vocabulary, checkpoints, metrics.jsonl and, once
it is done, results.json. The same command goes on from the newest checkpoint.
"""

import dataclasses
import pathlib
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import pydantic
import tensorflow as tf

from electra_tf import config
from electra_tf import errors
from electra_tf import fusion
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.finetuning import model as model_lib
from electra_tf.finetuning import task_data
from electra_tf.processes import atomic
from electra_tf.processes import progress
from electra_tf.tasks import base
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import distribution
from electra_tf.training import reporting

CONFIG_FILE = checkpoints.CONFIG_FILE
RESULT_FILE = "results.json"
FEW_STEPS = 50
"""Fewer updates than this hardly move a new head."""

Digests = Mapping[str, Mapping[str, str]]
"""By task and split, what tells data apart."""

# Fields that may differ when a trial is trained further: they change neither
# the model nor what it learns from and is scored on.
SAFE_TO_RESUME = {f"settings.{n}" for n in checkpoints.SAFE_TO_CHANGE} | {
    "settings.own.test_file",
    "settings.training.eval_batch_size",
}
# Fields that say where data lie: what lies there is told apart by digests.
PLACES = {
    "settings.task.data_dir",
    "settings.own.train_file",
    "settings.own.dev_file",
    "settings.own.file_format",
}
DECODING = ("n_best_size", "max_answer_length", "qa_na_threshold")
"""Fields of the section `qa` that a head does not depend on."""
# Fields that may differ when a trained trial is scored anew or predicts.
SAFE_TO_LOAD = (
    SAFE_TO_RESUME
    | PLACES
    | {
        "settings.own.threshold",
        "settings.qa.n_best_size",
        "settings.qa.max_answer_length",
        "settings.qa.qa_na_threshold",
    }
)
CONVERTED = "converted from"
"""Prefix of a trial's source if the trial was trained elsewhere."""


@schema.frozen
class TrialDescription:
    """Settings and labels of a trial: the content of `config.json`."""

    settings: finetuning_config.FinetuningConfig  # with this trial's seed
    encoder: config.EncoderConfig
    labels: Mapping[str, tuple[str, ...]]  # by task, in the outputs' order
    source: str  # where the encoder's first weights came from
    # By task, what else it keeps of its training file: `Task.conventions`
    conventions: Mapping[str, Mapping[str, Any]] | None = None
    # Digests of training and evaluation data; older trials have none.
    data: Digests | None = None
    format: Literal[1] = 1  # version of the file

    @property
    def is_converted(self) -> bool:
        """Whether it was trained elsewhere, by settings that are not known."""
        return self.source.startswith(CONVERTED)


@schema.frozen
class Score:
    """Scores of a task on one split."""

    metrics: Mapping[str, pydantic.FiniteFloat]  # shares in percent
    is_degenerate: bool  # the model gives every example the same answer
    # Files of earlier versions lack it; they had one such metric.
    lower_is_better: tuple[str, ...] = ("mse",)

    def merit(self, metric: str) -> float:
        """Returns the metric, negative where less is better."""
        value = self.metrics[metric]
        return -value if metric in self.lower_is_better else value


Scores = Mapping[str, Mapping[str, Score]]
"""By task and split."""


@schema.frozen
class TrialResult:
    """Scores of a trial: the content of `results.json`."""

    seed: int
    scores: Scores
    metrics: Mapping[str, str]  # task name to the metric that decides
    num_steps: int  # updates made
    origin: str  # where the weights came from, and how many
    seconds: float  # of the session that finished it, evaluation included
    device: str
    versions: Mapping[str, str]  # of packages
    share_cut: float = 0.0  # of the training rows, those that lost their end
    num_weights: int = 0  # of encoder and heads; 0 in files of earlier versions
    # Products of the encoder in all updates; 0 if not all of it was trained.
    flops: float = 0.0

    @property
    def merit(self) -> float:
        """The number that trials are compared by; larger is better."""
        return mean_merit(self.scores, self.metrics)


def mean_merit(scores: Scores, metrics: Mapping[str, str]) -> float:
    """Returns the mean over tasks of the deciding metric on the first split."""
    merits = [
        next(iter(splits.values())).merit(metrics[task])
        for task, splits in scores.items()
        if splits
    ]
    return statistics.fmean(merits) if merits else 0.0


def claim(
    folder: pathlib.Path,
    description: TrialDescription,
    vocabulary: vocabulary_lib.Vocabulary,
) -> None:
    """Claims the folder; raises `ModelError` if it holds another trial."""
    has_begun = checkpoints.has_config(folder, "trial", "--output_dir") and (
        (folder / RESULT_FILE).exists() or checkpoints.latest(folder)
    )
    if has_begun:
        safe, old = SAFE_TO_RESUME, read_description(folder)
        if old.data is not None:
            safe = safe | PLACES
            # Labels depend only on data and settings.
            description = dataclasses.replace(description, labels=old.labels)
        require_same(folder, description, safe)
        if old.data is not None:
            _require_same_data(folder, description, old.data)
        checkpoints.require_same_vocabulary(folder, vocabulary)
    # A start that failed leaves no claim.
    checkpoints.claim_folder(folder, description, vocabulary, not has_begun)


def read_description(folder: pathlib.Path) -> TrialDescription:
    """Reads the description of the trial in a folder, or `ModelError`."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise errors.ModelError(
            f"No trial in {folder}: expected {CONFIG_FILE} there. Give the "
            "--output_dir of a fine-tuning."
        )
    return schema.read_file(TrialDescription, path, errors.ModelError)


def require_same(
    folder: pathlib.Path,
    description: TrialDescription,
    safe_to_change: Collection[str] = SAFE_TO_LOAD,
) -> set[str]:
    """Returns the fields that differ; raises `ModelError` if one may not."""
    old = read_description(folder)
    # Conventions follow from the training rows; older trials have none. Data
    # are compared before, or may differ.
    description = dataclasses.replace(
        description, conventions=old.conventions, data=old.data
    )
    differences = checkpoints.require_same_settings(
        folder, old, description, safe_to_change, "--output_dir"
    )
    return {line.partition(":")[0] for line in differences}


def _require_same_data(
    folder: pathlib.Path, description: TrialDescription, old: Digests
) -> None:
    settings, new = description.settings, description.data or {}
    changed = [
        f"{split} of {task} ({settings.own.files[split]})"
        if task == base.OWN
        else f"{split} of {task} in {settings.task.data_dir}"
        for task, splits in new.items()
        for split, digest in splits.items()
        if old.get(task, {}).get(split) != digest
    ]
    if changed:
        raise errors.ModelError(
            f"{folder} must go on with the data that it was trained with. "
            f"Received other data: {', '.join(changed)}. Restore the file, or "
            "train anew in another --output_dir; --do=eval scores the model on "
            "another dev file as it is."
        )


def write_result(folder: pathlib.Path, result: TrialResult) -> None:
    """Writes a trial's result, which makes the trial a finished one."""
    atomic.write_text(folder / RESULT_FILE, schema.to_json(result))


def read_result(folder: pathlib.Path) -> TrialResult | None:
    """Reads a trial's result; returns None if it has not finished."""
    path = folder / RESULT_FILE
    if not path.is_file():
        return None
    return schema.read_file(TrialResult, path, errors.ModelError)


def final_checkpoint(
    folder: pathlib.Path, settings: finetuning_config.FinetuningConfig
) -> pathlib.Path:
    """Returns the checkpoint of the scores: with early stopping the best."""
    is_early = settings.training.early_stopping_patience > 0
    best = checkpoints.best(folder) if is_early else None
    return best or checkpoints.find(folder, "latest")


def load_encoder(path: pathlib.Path, precision: str) -> model_lib.LoadedEncoder:
    """Loads the encoder of a trial as its training left it."""
    own = read_description(path)
    vocabulary = vocabulary_lib.Vocabulary.load(path)
    encoder = model_lib.build_encoder(own.encoder, precision)
    checkpoint = final_checkpoint(path, own.settings)
    variables = {v.path: v for v in encoder.variables}
    checkpoints.load_weights(checkpoint, variables)
    origin = f"all {len(variables)} encoder variables are those of {checkpoint}"
    return model_lib.LoadedEncoder(encoder, vocabulary, own.encoder, origin)


@dataclasses.dataclass(eq=False)
class Trial:
    """One trial: its model, its data and its folder."""

    settings: finetuning_config.FinetuningConfig  # with this trial's seed
    loaded: model_lib.LoadedEncoder  # the encoder, which training changes
    prepared: task_data.PreparedTasks  # shared by all trials of a process
    strategy: tf.distribute.Strategy  # in whose scope `loaded` was built
    folder: pathlib.Path
    place: str = ""  # `Trial 2 of 5`, if several are reported in brief
    # Whether data or thresholds differ from those of its training.
    is_rescored: bool = False

    def __post_init__(self) -> None:
        with self.strategy.scope():
            self.model = build_model(self.settings, self.loaded, self.prepared)
        # A TPU compiles for every length: there is to be one.
        is_tpu = isinstance(self.strategy, tf.distribute.TPUStrategy)
        self.static_length = is_tpu * max(self.prepared.lengths.values())
        if is_tpu:
            self.model.xla_scope = fusion.Scope.STEP
        batch_size = self.settings.training.eval_batch_size
        self._predictor = model_lib.Predictor(
            self.strategy, self.model, batch_size, self.static_length
        )
        tasks = self.prepared.tasks.items()
        self.deciding_metrics = {name: task.metric for name, task in tasks}

    def check(self) -> list[str]:
        """Checks settings and makes all rows, before anything is written.

        Returns lines that say what was understood of the data.
        """
        training = self.settings.training
        depth = self.loaded.settings.num_hidden_layers
        schema.require(
            training.frozen_layers <= depth,
            f"`training.frozen_layers` must be at most the encoder's {depth} "
            f"layers. Received: {training.frozen_layers}. -1 freezes all.",
        )
        wanted = training.eval_steps or training.early_stopping_patience
        for name, task in self.prepared.tasks.items():
            schema.require(
                bool(task.dev_splits) or not wanted,
                "`training.eval_steps` and `early_stopping_patience` need dev "
                f"data of {name}. Received: none. Name its file, or set 0.",
            )
        return self.prepared.describe()

    def load_weights(self, checkpoint: pathlib.Path) -> None:
        """Takes the encoder's and heads' weights of a checkpoint."""
        weights = {v.path: v for v in self.model.weights}
        checkpoints.load_weights(checkpoint, weights)
        checkpoints.load_weights(checkpoint, self.model.lora.variables, "lora")

    def predict(
        self,
        name: str,
        split: str,
        before_batch: Callable[[], None] = lambda: None,
    ) -> Any:
        """Returns the task's predictions as `Task.decode` gives them."""
        rows = self.prepared.rows(name, split)
        outputs = self._predictor.predict(name, rows, before_batch)
        examples = self.prepared.examples(name, split)
        return self.prepared.tasks[name].decode(examples, rows, outputs)

    def evaluate(
        self,
        splits: Mapping[str, Sequence[str]] | None = None,
        before_batch: Callable[[], None] = lambda: None,
    ) -> dict[str, dict[str, Score]]:
        """Writes predictions and returns scores, by default of dev splits."""
        tasks, scores = self.prepared.tasks, dict[str, dict[str, Score]]()
        if splits is None:
            splits = {name: task.dev_splits for name, task in tasks.items()}
        for name, chosen in splits.items():
            task, scores[name] = tasks[name], {}
            for split in chosen:
                examples = self.prepared.examples(name, split)
                pair = examples, self.predict(name, split, before_batch)
                if distribution.is_chief(self.strategy):
                    path = self.folder / "predictions" / f"{name}_{split}.jsonl"
                    atomic.remove_partial(path.parent)
                    task.write_examples(path, *pair)
                is_degenerate = bool(task.is_degenerate(*pair))
                scores[name][split] = Score(
                    task.score(*pair), is_degenerate, task.lower_is_better
                )
        return scores


def build_model(
    settings: finetuning_config.FinetuningConfig,
    loaded: model_lib.LoadedEncoder,
    prepared: task_data.PreparedTasks,
) -> model_lib.FinetuningModel:
    """Builds the model: the encoder with a fresh head for each task."""
    training, width = settings.training, loaded.settings.hidden_size
    seed, dtype = training.seed, loaded.encoder.dtype_policy
    heads = {
        name: task.build_head(width, seed, dtype)
        for name, task in prepared.tasks.items()
    }
    parts, norm = training.num_micro_batches, settings.optimizer.clip_norm
    return model_lib.FinetuningModel(loaded.encoder, heads, seed, parts, norm)


def write_predictions(
    trial: Trial, output_dir: pathlib.Path, splits: Sequence[str] = ()
) -> None:
    """Predicts splits of all tasks, by default all but `train` with a file."""
    written: list[pathlib.Path] = []
    for name, task in trial.prepared.tasks.items():
        if not set(splits) <= set(task.splits):
            raise ValueError(
                f"The splits of {name} are {', '.join(task.splits)}. Received: "
                f"{', '.join(splits)}. Correct --splits."
            )
        for split in splits or [s for s in task.splits if s != "train"]:
            try:
                examples = trial.prepared.examples(name, split)
            except FileNotFoundError as error:
                if splits:
                    raise
                print(f"Not predicted, {name} {split}: {error}", flush=True)
                continue
            folder = output_dir / "predictions" / name
            folder.mkdir(parents=True, exist_ok=True)
            atomic.remove_partial(folder)
            written += task.write_predictions(
                folder, split, examples, trial.predict(name, split)
            )
    if not written:
        raise FileNotFoundError(
            "There must be a file to predict. Received: none for any split of "
            f"{', '.join(trial.prepared.tasks)}. Name one, for example by "
            "own.test_file or task.data_dir."
        )
    for path in written:
        print(f"Wrote {path}", flush=True)


def describe_result(folder: pathlib.Path) -> str:
    """Returns a line about a finished trial, with its latest dev scores."""
    result = schema.read_file(
        TrialResult, folder / RESULT_FILE, errors.ModelError
    )
    lines = reporting.read_lines(folder / "metrics.jsonl")
    scores = [f"{line['score']:.2f}" for line in lines if "score" in line]
    seconds = progress.format_time(result.seconds)
    return f"{seconds}, dev score {' '.join(scores[-8:])}".strip()
