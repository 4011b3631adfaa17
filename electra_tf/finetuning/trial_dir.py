"""The folder of a trial: what it is of, and what came of it.

`config.json` holds what a process needs to load the model without the training
data: settings, sizes of the encoder, labels of the tasks. A later start with
other settings is refused unless only safe fields differ.
"""

import pathlib
import statistics
from collections.abc import Mapping
from typing import Literal

import pydantic

from electra_tf import config
from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.processes import atomic
from electra_tf.tasks.sentences import scores as sentence_scores
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import model_dir as model_dir_lib

CONFIG_FILE = model_dir_lib.CONFIG_FILE
RESULT_FILE = "results.json"

# Fields that may differ when a trial is trained further: they change neither
# the model nor what it learns from and is scored on.
SAFE_TO_RESUME = frozenset(
    {
        "own.test_file",
        "training.eval_batch_size",
        "training.strategy",
        "training.tpu",
        "training.steps_per_loop",
        "training.log_steps",
        "training.save_checkpoints_steps",
        "training.keep_checkpoints",
        "training.num_micro_batches",
        "training.jit_compile",
    }
)
# Fields that may differ when a trained trial is scored anew or predicts.
SAFE_TO_LOAD = SAFE_TO_RESUME | {
    "task.data_dir",
    "own.train_file",
    "own.dev_file",
    "own.file_format",
    "qa.n_best_size",
    "qa.max_answer_length",
    "qa.qa_na_threshold",
}


@schema.frozen
class TrialDescription:
    """What a trial is of, the content of `config.json`."""

    settings: finetuning_config.FinetuningConfig  # with this trial's seed
    encoder: config.EncoderConfig
    labels: Mapping[str, tuple[str, ...]]  # by task, in the outputs' order
    source: str  # where the encoder's first weights came from
    format: Literal[1] = 1  # version of the file


@schema.frozen
class Score:
    """How a task went on one split."""

    metrics: Mapping[str, pydantic.FiniteFloat]  # shares in percent
    is_degenerate: bool  # the model says the same of everything
    # Files of earlier versions do not tell; their only error was this one.
    lower_is_better: tuple[str, ...] = sentence_scores.LOWER_IS_BETTER

    def merit(self, metric: str) -> float:
        """Returns the metric, negative where less is better."""
        value = self.metrics[metric]
        return -value if metric in self.lower_is_better else value


@schema.frozen
class TrialResult:
    """What came of a trial, the content of `results.json`."""

    seed: int
    scores: Mapping[str, Mapping[str, Score]]  # by task and split
    metrics: Mapping[str, str]  # task name to the metric that decides
    num_steps: int  # updates made
    origin: str  # where the weights came from, and how many
    seconds: float  # of the session that finished it, evaluation included
    device: str
    versions: Mapping[str, str]  # of packages

    def __post_init__(self) -> None:
        for task, splits in self.scores.items():
            metric = self.metrics.get(task, "")
            for split, score in splits.items():
                if metric not in score.metrics:
                    raise ValueError(
                        f"`scores.{task}.{split}` must hold the metric that "
                        f"decides, {metric!r}. Received: "
                        f"{', '.join(score.metrics)}."
                    )


def mean_merit(
    scores: Mapping[str, Mapping[str, Score]], metrics: Mapping[str, str]
) -> float:
    """Returns what decides between trials: larger is better.

    It is the mean over tasks of their deciding metric's merit on their first
    split; 0 if there is no score at all.
    """
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
    """Makes the folder this trial's; `ModelError` if it is another's."""
    if model_dir_lib.has_config(folder, "trial", "--output_dir"):
        if (folder / RESULT_FILE).exists() or checkpoints.latest(folder):
            require_same(folder, load(folder), description, SAFE_TO_RESUME)
        else:
            # A start that failed leaves no claim.
            (folder / CONFIG_FILE).unlink()
        model_dir_lib.require_same_vocabulary(folder, vocabulary)
    model_dir_lib.claim(folder, description, vocabulary)


def load(folder: pathlib.Path) -> TrialDescription:
    """Reads what the trial in a folder is of; raises `ModelError` if none."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise errors.ModelError(
            f"No trial in {folder}: expected {CONFIG_FILE} there. Give the "
            "--output_dir of a fine-tuning."
        )
    return schema.read(TrialDescription, path, errors.ModelError)


def write_result(folder: pathlib.Path, result: TrialResult) -> None:
    """Writes a trial's result; it is done when the file is there."""
    with atomic.replacing_file(folder / RESULT_FILE) as partial:
        partial.write_text(schema.to_json(result), "utf-8")


def read_result(folder: pathlib.Path) -> TrialResult | None:
    """Reads a trial's result; returns None if it has not finished."""
    path = folder / RESULT_FILE
    if not path.is_file():
        return None
    return schema.read(TrialResult, path, errors.ModelError)


def final_checkpoint(
    folder: pathlib.Path, settings: finetuning_config.FinetuningConfig
) -> pathlib.Path:
    """Returns the checkpoint of the scores: with early stopping the best."""
    is_early = settings.training.early_stopping_patience > 0
    best = checkpoints.best(folder) if is_early else None
    return best or checkpoints.find(folder, "latest")


def require_same(
    folder: pathlib.Path,
    old: TrialDescription,
    new: TrialDescription,
    safe_to_change: frozenset[str] = SAFE_TO_LOAD,
) -> None:
    """Raises `ModelError` unless two descriptions are of one trial."""
    safe = {f"settings.{name}" for name in safe_to_change}
    model_dir_lib.require_same(folder, old, new, safe, "--output_dir")
