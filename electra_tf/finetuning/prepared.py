"""The tasks of a fine-tuning with their examples and rows, made once.

All trials of a process learn from the same rows, and tokenizing a large task
takes longer than a trial of a small one takes to start.
"""

import dataclasses
import functools
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.finetuning import batches
from electra_tf.tasks import catalog
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib


class PreparedTasks:
    """Tasks, and what their files hold.

    Args:
        settings: of the fine-tuning.
        vocabulary: of the encoder.
        num_positions: most tokens of a row that the encoder can take.
        labels: task name to the labels of a trained model; None takes those
            of the files.

    Raises:
        ValueError: for an unknown task, or rows longer than the encoder's.
    """

    def __init__(
        self,
        settings: finetuning_config.FinetuningConfig,
        vocabulary: vocabulary_lib.Vocabulary,
        num_positions: int,
        labels: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.settings = settings
        self._examples: dict[tuple[str, str], Sequence[Any]] = {}
        self._rows: dict[tuple[str, str], rows_lib.Rows] = {}
        self._tokenizer = tokenizer_lib.Tokenizer(vocabulary)
        wanted = settings.task.max_seq_length
        if wanted > num_positions:
            raise errors.ConfigError(
                "`task.max_seq_length` must not exceed the encoder's "
                f"{num_positions} positions. Received: {wanted}. Lower it, or "
                "set it to 0 to take as many as the task wants and the "
                "encoder has."
            )
        self.tasks = {
            task.name: task
            for task in catalog.build_tasks(with_labels(settings, labels or {}))
        }
        for name, known in (labels or {}).items():
            self.tasks[name].use_labels(known)
        self.lengths = {
            name: wanted or min(task.max_seq_length, num_positions)
            for name, task in self.tasks.items()
        }

    @functools.cached_property
    def num_epochs(self) -> float:
        """Passes over the training rows: the config's, or the tasks' most."""
        return self.settings.training.num_train_epochs or max(
            task.num_train_epochs for task in self.tasks.values()
        )

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        """Task name to labels; empty for tasks that have none."""
        return {name: tuple(task.labels) for name, task in self.tasks.items()}

    def examples(self, name: str, split: str) -> Sequence[Any]:
        """The examples of a task's split."""
        if (name, split) not in self._examples:
            self._examples[name, split] = self.tasks[name].read(split)
        return self._examples[name, split]

    def labelled_test_splits(self) -> dict[str, list[str]]:
        """Task name to its test splits that can be scored, if it has any."""
        found = {
            name: [
                split
                for split in task.test_splits
                if task.has_labels(self.examples(name, split))
            ]
            for name, task in self.tasks.items()
        }
        return {name: splits for name, splits in found.items() if splits}

    def rows(self, name: str, split: str) -> rows_lib.Rows:
        """Its rows; those of `train` are made to be learned from."""
        if (name, split) not in self._rows:
            self._rows[name, split] = self.tasks[name].build_rows(
                self.examples(name, split),
                self._tokenizer,
                self.lengths[name],
                is_training=split == "train",
            )
        return self._rows[name, split]

    @functools.cached_property
    def training_rows(self) -> Mapping[str, rows_lib.Rows]:
        """Task name to training rows.

        Raises:
            DataError: if a task has none.
        """
        found = {name: self.rows(name, "train") for name in self.tasks}
        for name, rows in found.items():
            if not rows.num_rows:
                raise errors.DataError(
                    f"The task {name} must have training rows. Received: "
                    "none. Give a training file with examples."
                )
        return found

    @property
    def num_steps(self) -> int:
        """Updates of a trial."""
        return batches.num_steps(
            sum(rows.num_rows for rows in self.training_rows.values()),
            self.settings.training.train_batch_size,
            self.num_epochs,
        )


def with_labels(
    settings: finetuning_config.FinetuningConfig,
    labels: Mapping[str, tuple[str, ...]],
) -> finetuning_config.FinetuningConfig:
    """The settings, with the labels of a trained model for one's own task.

    Its training file then need not be there (unless a label holds a comma).

    Args:
        settings: of the fine-tuning.
        labels: task name to labels; empty for a model that is yet untrained.
    """
    known = labels.get("own", ())
    if not known or any("," in label for label in known):
        return settings
    own = dataclasses.replace(settings.own, labels=",".join(known))
    return dataclasses.replace(settings, own=own)
