"""The predictions of a trained trial, written for those who score them."""

import pathlib
from collections.abc import Sequence

from electra_tf.finetuning import trial as trial_lib


def write(
    trial: trial_lib.Trial, folder: pathlib.Path, splits: Sequence[str] = ()
) -> list[pathlib.Path]:
    """Predicts splits of all tasks; labels are not needed.

    Args:
        trial: with trained weights.
        folder: gets one folder for each task; made if absent.
        splits: which; empty: all but `train` for which there is a file, and
            what is left out is said.

    Returns:
        The files written.

    Raises:
        FileNotFoundError: if a split that was asked for has no file, or none
            has.
        ValueError: if a task has no such split.
    """
    written: list[pathlib.Path] = []
    for name, task in trial.prepared.tasks.items():
        _require_known(name, task.splits, splits)
        own_folder = folder / name
        for split in splits or task.splits:
            if split == "train" and not splits:
                continue
            try:
                examples = trial.prepared.examples(name, split)
            except FileNotFoundError as error:
                if splits:
                    raise
                print(f"Not predicted, {name} {split}: {error}", flush=True)
                continue
            own_folder.mkdir(parents=True, exist_ok=True)
            predictions = trial.predict(name, split)
            paths = task.write_predictions(
                own_folder, split, examples, predictions
            )
            for path in paths:
                print(f"Wrote {path}", flush=True)
            written += paths
    if not written:
        raise FileNotFoundError(
            "There must be a file to predict. Received: none for any split of "
            f"{', '.join(trial.prepared.tasks)}. Name one, for example by "
            "--config.own.test_file or --config.task.data_dir."
        )
    return written


def _require_known(
    task: str, known: Sequence[str], asked: Sequence[str]
) -> None:
    unknown = [split for split in asked if split not in known]
    if unknown:
        raise ValueError(
            f"The splits of {task} are {', '.join(known)}. Received: "
            f"{', '.join(unknown)}. Correct --splits."
        )
