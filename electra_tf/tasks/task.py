"""What a downstream task is: everything about it that is not training.

A task reads its files, builds rows and a head, decodes, scores and writes
predictions. Adding one is an entry in a table, or a class with these methods.
"""

import abc
import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
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

    `name` is that of the catalog, and the variable scope of the head. Training
    needs the split `train`, evaluation the `dev_splits`, which have labels to
    score on, the deciding one first, prediction all others.
    """

    # One of `finetuning_config.OWN_KINDS`; empty for another kind, which cannot
    # be exported or converted
    kind: str = ""
    has_pairs: bool = False  # whether its texts come in pairs
    metric: str  # the key of `score` that decides which trial is the best
    lower_is_better: tuple[str, ...] = ()  # keys of `score`
    max_seq_length: int = 128  # tokens of a row unless a config says otherwise
    num_train_epochs: float = 3.0  # likewise
    # Splits on which the best trial is scored if they have labels
    test_splits: tuple[str, ...] = ()
    # Names of what the head's outputs stand for, by their index, if any
    labels: tuple[str, ...] = ()
    # What else a trained model keeps of its training file; `None`: nothing
    conventions: Any = None

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
        """Makes rows of at most `max_seq_length` tokens; labels may be missing.

        To learn from there may be more of them, or fewer, than to predict from.
        """

    def build_head(
        self, hidden_size: int, seed: int, dtype: Any = None
    ) -> task_heads.TaskHead:
        """Builds the task's head, with weights drawn from `seed`."""
        head = self.new_head(seed=seed, name=self.name, dtype=dtype)
        # The scope that checkpoints have for it.
        with keras.name_scope("task_specific"):
            head.build((None, None, hidden_size))
        return head

    @abc.abstractmethod
    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head, without weights, from `seed`, `name`, `dtype`."""

    @abc.abstractmethod
    def decode(
        self, examples: Examples, rows: rows_lib.Rows, outputs: Outputs
    ) -> Any:
        """Reads predictions off `TaskHead.predict` of the rows of examples."""

    @abc.abstractmethod
    def score(self, examples: Examples, predictions: Any) -> dict:
        """Computes the official metrics of labelled examples, in percent."""

    @abc.abstractmethod
    def is_degenerate(self, examples: Examples, predictions: Any) -> bool:
        """Whether the model says the same of everything: it learned nothing."""

    def write_examples(
        self, path: pathlib.Path, examples: Examples, predictions: Any
    ) -> None:
        """Writes JSON lines: each example, with its gold, and `prediction`."""
        lines = []
        found = self.list_predictions(examples, predictions)
        for example, predicted in zip(examples, found, strict=True):
            as_dict = getattr(example, "_asdict", None)
            own = as_dict() if as_dict else dataclasses.asdict(example)
            own["prediction"] = predicted
            lines.append(json.dumps(own, ensure_ascii=False, default=float))
        path.parent.mkdir(exist_ok=True)
        write_file(path, lines)

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists what is predicted of each example."""
        return predictions

    @abc.abstractmethod
    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: Any,
    ) -> list[pathlib.Path]:
        """Writes predictions in the task's official form; returns the files."""


def write_file(path: pathlib.Path, lines: Iterable[str]) -> pathlib.Path:
    """Writes lines, all of them or no file; returns the path."""
    atomic.write_text(path, "".join(f"{line}\n" for line in lines))
    return path
