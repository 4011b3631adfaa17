"""What a downstream task is: everything about it that is not training.

A task reads its files, turns examples into rows, builds its head, reads
predictions off the head's outputs, scores them and writes them. Adding one is
an entry in a table (`sentences/glue.py`) or a class with these methods.
"""

import abc
import pathlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from electra_tf.modeling import task_heads
from electra_tf.processes import atomic
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib

Examples = Sequence[Any]
"""What a task reads of a split, in the order of the file."""
Readers = Mapping[str, Callable[[], Examples]]
"""Split to the function that reads its examples."""
Outputs = Mapping[str, Sequence[np.ndarray]]
"""What a head predicts: name to one array (or scalar) for every row.

Arrays with a padded axis (`TaskHead.padded_outputs`) are cut to the row's own
tokens or words.
"""


class Task(abc.ABC):
    """A downstream task, with a function that reads each of its splits.

    Attributes:
        name: of the catalog; variable scope of the head.
        kind: one of `finetuning_config.OWN_KINDS`; empty for another kind,
            which cannot be exported or converted.
        has_pairs: whether its texts come in pairs.
        metric: the key of `score` that decides which trial is the best.
        lower_is_better: keys of `score` of which less is better.
        max_seq_length: tokens of a row unless a config says otherwise.
        num_train_epochs: likewise.
        splits: those there are, for example `train`, `dev`, `test`. Training
            needs `train`, evaluation the `dev_splits`, prediction all others.
        dev_splits: those with labels to score on, the deciding one first.
        test_splits: those on which the best trial is scored if they turn out
            to have labels (`has_labels`).
        labels: names of what the head's outputs stand for, by their index;
            empty where they have none.
    """

    kind: str = ""
    has_pairs: bool = False
    metric: str
    lower_is_better: tuple[str, ...] = ()
    max_seq_length: int = 128
    num_train_epochs: float = 3.0
    test_splits: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()

    def __init__(self, name: str, readers: Readers) -> None:
        self.name = name
        self._readers = readers
        self.splits = tuple(readers)
        self.dev_splits = tuple(s for s in readers if s.startswith("dev"))

    def read(self, split: str) -> Examples:
        """Reads the examples of a split; `DataError` names a bad line."""
        if split not in self._readers:
            raise ValueError(
                f"The task {self.name} has the splits "
                f"{', '.join(self.splits) or '(none)'}. Received: {split!r}. "
                f"For your own data, set --config.own.{split}_file."
            )
        return self._readers[split]()

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a trained model instead of those of the files."""
        self.labels = tuple(labels)

    def describe_export(self) -> dict[str, Any]:
        """Returns facts for an export's JSON, beside the labels."""
        return {}

    def has_labels(self, examples: Examples) -> bool:
        """Whether examples of a test split can be scored."""
        return True

    @abc.abstractmethod
    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> rows_lib.Rows:
        """Makes the rows of examples, at most `max_seq_length` tokens long.

        To learn from there may be more of them, or fewer, than to predict from.
        Where examples have no labels, rows have zeros instead.
        """

    @abc.abstractmethod
    def build_head(
        self, hidden_size: int, seed: int, dtype: Any = None
    ) -> task_heads.TaskHead:
        """Builds the task's head, with weights drawn from `seed`."""

    @abc.abstractmethod
    def decode(
        self, examples: Examples, rows: rows_lib.Rows, outputs: Outputs
    ) -> Any:
        """Reads the predictions for examples, in the task's own form.

        `rows` are made of them with `is_training=False`, `outputs` are those of
        `TaskHead.predict` for each row.
        """

    @abc.abstractmethod
    def score(self, examples: Examples, predictions: Any) -> dict:
        """Computes the official metrics of labelled examples, in percent."""

    @abc.abstractmethod
    def is_degenerate(self, examples: Examples, predictions: Any) -> bool:
        """Whether the model says the same of everything: it learned nothing."""

    @abc.abstractmethod
    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: Any,
    ) -> list[pathlib.Path]:
        """Writes predictions in the task's official form; returns the files."""


def build_in_scope(
    head: task_heads.TaskHead, hidden_size: int
) -> task_heads.TaskHead:
    """Builds a head under the name that checkpoints have for it."""
    with keras.name_scope("task_specific"):
        head.build((None, None, hidden_size))
    return head


def write_file(path: pathlib.Path, lines: Iterable[str]) -> pathlib.Path:
    """Writes lines, all of them or no file; returns the path."""
    with (
        atomic.replacing_file(path) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(f"{line}\n" for line in lines)
    return path
