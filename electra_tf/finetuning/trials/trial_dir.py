"""The folder of a trial: what it is of, and what came of it.

`config.json` holds what a process needs to load the model without the training
data: settings, sizes of the encoder, labels of the tasks. A later start with
other settings is refused unless only safe fields differ.
"""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf import config
from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.records import atomic
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.training import checkpoints
from electra_tf.training import model_dir as model_dir_lib

CONFIG_FILE = "config.json"
RESULT_FILE = "results.json"
_FORMAT = 1

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


@dataclasses.dataclass(frozen=True)
class TrialDescription:
    """What a trial is of.

    Attributes:
        settings: of the fine-tuning, with this trial's seed.
        encoder: sizes.
        labels: task name to labels, in the order of the head's outputs.
        source: where the encoder's first weights came from.
    """

    settings: finetuning_config.FinetuningConfig
    encoder: config.EncoderConfig
    labels: Mapping[str, tuple[str, ...]]
    source: str


@dataclasses.dataclass(frozen=True)
class Score:
    """How a task went on one split.

    Attributes:
        metrics: name to number, shares in percent.
        is_degenerate: whether the model says the same of everything.
        lower_is_better: the metrics of which less is better.
    """

    metrics: Mapping[str, float]
    is_degenerate: bool
    lower_is_better: tuple[str, ...] = ()

    def merit(self, metric: str) -> float:
        """How well it went by a metric: of two scores the larger is better.

        It is the metric itself, or minus it where less is better.
        """
        value = self.metrics[metric]
        return -value if metric in self.lower_is_better else value


@dataclasses.dataclass(frozen=True)
class TrialResult:
    """What came of a trial.

    Attributes:
        seed: of the trial.
        scores: task name to split to score.
        metrics: task name to the metric that decides.
        num_steps: updates made.
        origin: where the weights came from, and how many.
        seconds: of the session that finished it, training and evaluation.
        device: in words.
        versions: package to version.
    """

    seed: int
    scores: Mapping[str, Mapping[str, Score]]
    metrics: Mapping[str, str]
    num_steps: int
    origin: str
    seconds: float
    device: str
    versions: Mapping[str, str]


def claim(
    folder: pathlib.Path,
    description: TrialDescription,
    vocabulary: vocabulary_lib.Vocabulary,
) -> None:
    """Makes the folder this trial's, or checks that it is.

    Args:
        folder: made if absent.
        description: of the trial.
        vocabulary: of the encoder; it is copied there.

    Raises:
        ModelError: if the folder holds another trial (names the
            differences), or no trial but files.
    """
    path = folder / CONFIG_FILE
    if path.exists():
        if _has_begun(folder):
            require_same(folder, load(folder), description, SAFE_TO_RESUME)
        else:
            # A start that failed leaves no claim.
            path.unlink()
        model_dir_lib.require_same_vocabulary(folder, vocabulary)
    elif folder.is_dir() and any(
        atomic.PARTIAL_MARK not in child.name for child in folder.iterdir()
    ):
        raise errors.ModelError(
            f"{folder} is not empty and holds no {CONFIG_FILE} of a trial. "
            "Choose a new or empty --output_dir."
        )
    folder.mkdir(parents=True, exist_ok=True)
    atomic.remove_partial(folder)
    vocabulary.save(folder)
    if not path.exists():
        content = {"format": _FORMAT, **dataclasses.asdict(description)}
        write_json(path, content)


def _has_begun(folder: pathlib.Path) -> bool:
    return (folder / RESULT_FILE).exists() or bool(
        checkpoints.all_checkpoints(folder)
    )


def load(folder: pathlib.Path) -> TrialDescription:
    """What the trial in a folder is of.

    Raises:
        ModelError: if there is no trial.
    """
    path = folder / CONFIG_FILE
    if not path.is_file():
        raise errors.ModelError(
            f"No trial in {folder}: expected {CONFIG_FILE} there. Give the "
            "--output_dir of a fine-tuning."
        )
    content = schema.read_object(path, errors.ModelError)
    if content.get("format") != _FORMAT:
        raise errors.ModelError(
            f"{path} must be a trial's, of format {_FORMAT}. Received: format "
            f"{content.get('format')!r}. Use the version that wrote it."
        )
    try:
        return _description_of(content)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise errors.ModelError(
            f"{path} must describe a trial. Received: "
            f"{type(error).__name__}: {error} It was changed or damaged: "
            "restore it."
        ) from error


def _description_of(content: Mapping[str, Any]) -> TrialDescription:
    """What `claim` wrote; errors of any kind if it is not that."""
    labels = {name: tuple(of) for name, of in content["labels"].items()}
    for label in itertools.chain(*labels.values(), [content["source"]]):
        if not isinstance(label, str):
            raise TypeError(f"labels and source must be texts, not {label!r}.")
    return TrialDescription(
        config.freeze_as(
            content["settings"], finetuning_config.FinetuningConfig
        ),
        config.build_section(
            "encoder", config.EncoderConfig, content["encoder"]
        ),
        labels,
        content["source"],
    )


def write_result(folder: pathlib.Path, result: TrialResult) -> None:
    """Writes a trial's result; it is done when the file is there."""
    write_json(folder / RESULT_FILE, dataclasses.asdict(result))


def read_result(folder: pathlib.Path) -> TrialResult | None:
    """A trial's result, or None if it has not finished.

    Raises:
        ModelError: if the file is not what `write_result` writes.
    """
    path = folder / RESULT_FILE
    if not path.is_file():
        return None
    content = schema.read_object(path, errors.ModelError)
    try:
        result = TrialResult(**content | {"scores": _scores_of(content)})
        for task, splits in result.scores.items():
            for score in splits.values():
                float(score.metrics[result.metrics[task]])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise errors.ModelError(
            f"{path} must be a trial's result, as this version writes it. "
            f"Received: {type(error).__name__}: {error}. Use the version that "
            "wrote it, or remove the file to finish the trial again."
        ) from error
    return result


def _scores_of(content: Mapping[str, Any]) -> dict[str, dict[str, Score]]:
    return {
        task: {
            split: Score(
                # Results of earlier versions do not tell.
                **score
                | {"lower_is_better": tuple(score.get("lower_is_better", ()))}
            )
            for split, score in splits.items()
        }
        for task, splits in content["scores"].items()
    }


def final_checkpoint(
    folder: pathlib.Path, settings: finetuning_config.FinetuningConfig
) -> pathlib.Path:
    """The checkpoint that a trial's scores are of.

    Args:
        folder: of the trial.
        settings: its config; with early stopping the best one counts.

    Raises:
        FileNotFoundError: if there is none.
    """
    is_early = settings.training.early_stopping_patience > 0
    best = checkpoints.best(folder) if is_early else None
    return best or checkpoints.find(folder, "latest")


def differences(
    old: TrialDescription,
    new: TrialDescription,
    safe_to_change: frozenset[str],
) -> dict[str, tuple[Any, Any]]:
    """What differs and may not: name to (old, new).

    Args:
        old, new: what a trial is of, and what is asked for.
        safe_to_change: fields of the settings that may differ.
    """
    found = model_dir_lib.differences(
        old.settings, new.settings, safe_to_change
    )
    for name in ("encoder", "labels", "source"):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            found[name] = (before, after)
    return found


def require_same(
    folder: pathlib.Path,
    old: TrialDescription,
    new: TrialDescription,
    safe_to_change: frozenset[str] = SAFE_TO_LOAD,
) -> None:
    """Raises `ModelError` unless two descriptions are of one trial.

    Args:
        folder: of the trial, for the message.
        old, new: what it is of, and what is asked for.
        safe_to_change: fields of the settings that may differ.
    """
    changed = differences(old, new, safe_to_change)
    if changed:
        listed = "; ".join(
            f"{name} was {was!r}, now {now!r}"
            for name, (was, now) in changed.items()
        )
        raise errors.ModelError(
            f"{folder} holds a trial with other settings: {listed}. Choose "
            "another --output_dir, or restore these settings."
        )


def write_json(path: pathlib.Path, content: Any) -> None:
    """Writes indented JSON; the file appears complete or not at all."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    with atomic.replacing_file(path) as partial:
        partial.write_text(text, "utf-8")
