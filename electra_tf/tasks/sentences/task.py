"""Tasks with one answer, a class or a number, for a text or a pair of texts.

Where the examples come from is not their affair: `glue` and `own` give them
functions that read.
"""

import abc
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.modeling import task_heads
from electra_tf.processes import atomic
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import packing
from electra_tf.tasks.sentences import scores
from electra_tf.text import tokenizer as tokenizer_lib

# Numbers that differ by less, as a share of the range, say nothing: rounding
# in batches of other lengths moves them too.
_LEAST_SPREAD = 1e-3


class Example(NamedTuple):
    """One text or pair of texts."""

    # Its number in the file, from 0; or the user's own name for it
    eid: int | str
    text: str  # the first text
    pair: str | None = None  # the second one, or None
    # The class's name, or the number; None where it is not told
    label: str | float | None = None


class ClassPredictions(NamedTuple):
    """Predicted classes, `[N]` int32, and probabilities, `[N, C]` float64."""

    classes: np.ndarray
    probabilities: np.ndarray


class TextTask(task_lib.FileTask):
    """What classification and regression have in common.

    Args:
        name: of the catalog.
        readers: split to the function that reads its `Example`s.
        metrics: what `score` computes, names in `scores`; the first decides.
        is_unordered: whether pairs are learned in both orders.
        num_train_epochs: unless a config says otherwise.
        has_pairs: whether texts come in pairs.
        submissions: split to the file in which the GLUE site expects its
            predictions.
    """

    head_output: str
    """The output of the head that `answer` reads."""
    has_hidden_layer = False
    """Whether the head has one, as those of Hugging Face's models."""

    def __init__(
        self,
        name: str,
        readers: task_lib.Readers,
        metrics: Sequence[str],
        is_unordered: bool = False,
        num_train_epochs: float = 3.0,
        has_pairs: bool = False,
        submissions: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, readers)
        self.metrics = tuple(metrics)
        self.metric = self.metrics[0]
        self.is_unordered = is_unordered
        self.num_train_epochs = num_train_epochs
        self.has_pairs = has_pairs
        self.submissions = submissions or {}

    def build_rows(
        self,
        examples: Sequence[Example],
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> rows_lib.Rows:
        """Makes a row of each example; two to learn from unordered pairs."""
        numbers = np.arange(len(examples), dtype=np.int32)
        if is_training and self.is_unordered:
            examples = add_swapped(examples)
            numbers = np.repeat(numbers, 2)
        ids, starts = packing.pack(
            [example.text for example in examples],
            [example.pair for example in examples],
            tokenizer,
            max_seq_length,
        )
        return rows_lib.Rows(ids, starts, numbers, self._columns(examples))

    def build_head(
        self, hidden_size: int, seed: int, dtype: Any = None
    ) -> task_heads.TaskHead:
        """Builds the task's head, with weights drawn from `seed`."""
        head = self._new_head(
            seed,
            has_hidden_layer=self.has_hidden_layer,
            name=self.name,
            dtype=dtype,
        )
        return task_lib.build_in_scope(head, hidden_size)

    @abc.abstractmethod
    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Reads answers off the head's `[B, ...]` outputs, also in a graph."""

    def has_labels(self, examples: Sequence[Example]) -> bool:
        """Whether all examples have labels."""
        return all(example.label is not None for example in examples)

    def _require_labels(self, examples: Sequence[Example]) -> None:
        for example in examples:
            if example.label is None:
                raise ValueError(
                    f"Expected examples of {self.name} with labels to score. "
                    f"Received: number {example.eid!r} without one. Score "
                    f"{' or '.join(self.dev_splits) or 'labelled data'}."
                )

    def _write_submission(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Sequence[Example],
        predictions: Sequence[str],
    ) -> list[pathlib.Path]:
        """Writes the file that the GLUE site scores, if it takes this split."""
        if split not in self.submissions:
            return []
        numbers = [int(example.eid) for example in examples]
        rows = sorted(zip(numbers, predictions, strict=True))
        path = folder / self.submissions[split]
        return [write_table(path, ("index", "prediction"), rows)]

    @abc.abstractmethod
    def _new_head(self, seed: int, **kwargs: Any) -> task_heads.TaskHead:
        """The head, without weights."""

    @abc.abstractmethod
    def _columns(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        """Returns the labels of rows as columns, zeros if unknown."""


class ClassificationTask(TextTask):
    """One class for a text or a pair of texts.

    What is predicted is an index of `labels`; other arguments as of `TextTask`.
    """

    kind = "classification"
    head_output = "logits"

    def __init__(
        self,
        name: str,
        readers: task_lib.Readers,
        labels: Sequence[str],
        metrics: Sequence[str] = ("accuracy",),
        **kwargs: Any,
    ) -> None:
        super().__init__(name, readers, metrics, **kwargs)
        self.labels = tuple(labels)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a trained model, in its order."""
        if set(labels) != set(self.labels):
            raise ValueError(
                f"Expected a model of {self.name} with the labels "
                f"{', '.join(self.labels)}. Received one with "
                f"{', '.join(labels)}. Name the task that it was trained on."
            )
        self.labels = tuple(labels)

    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the likeliest label of each text, and all probabilities."""
        logits = outputs["logits"]
        best = tf.argmax(logits, axis=1, output_type=tf.int32)
        return {
            "label": tf.gather(tf.constant(self.labels), best),
            "label_index": best,
            "probabilities": tf.nn.softmax(logits),
            "logits": logits,
        }

    def decode(
        self,
        examples: Sequence[Example],
        rows: rows_lib.Rows,
        outputs: task_lib.Outputs,
    ) -> ClassPredictions:
        """Returns the likeliest class of every example, and probabilities."""
        del examples, rows
        logits = np.asarray(outputs["logits"], np.float64)
        logits = logits.reshape(-1, len(self.labels))
        answer = self.answer({"logits": tf.constant(logits)})
        return ClassPredictions(
            answer["label_index"].numpy(), answer["probabilities"].numpy()
        )

    def score(
        self, examples: Sequence[Example], predictions: ClassPredictions
    ) -> dict:
        """Computes the task's metrics, in percent."""
        self._require_labels(examples)
        return scores.compute_scores(
            scores.CLASSIFICATION_METRICS,
            self.metrics,
            self._classes(examples),
            predictions.classes,
        )

    def is_degenerate(
        self, examples: Sequence[Example], predictions: ClassPredictions
    ) -> bool:
        """Whether all examples were given one class, and there are several."""
        return len(examples) > 1 and np.ptp(predictions.classes) == 0

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Sequence[Example],
        predictions: ClassPredictions,
    ) -> list[pathlib.Path]:
        """Writes a table, what GLUE takes, and a picture if labels are told."""
        names = [self.labels[index] for index in predictions.classes]
        columns = [f"probability_{label}" for label in self.labels]
        rows = (
            (example.eid, name, *(f"{share:.6f}" for share in shares))
            for example, name, shares in zip(
                examples, names, predictions.probabilities, strict=True
            )
        )
        path = folder / f"{split}_predictions.tsv"
        paths = [write_table(path, ("index", "label", *columns), rows)]
        paths += self._write_submission(folder, split, examples, names)
        if examples and self.has_labels(examples):
            picture = folder / f"{split}_confusion.png"
            scores.draw_confusion(
                picture,
                self._classes(examples),
                predictions.classes,
                self.labels,
                f"{self.name}, {split}",
            )
            paths.append(picture)
        return paths

    def _new_head(self, seed: int, **kwargs: Any) -> task_heads.TaskHead:
        return task_heads.ClassificationHead(len(self.labels), seed, **kwargs)

    def _columns(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        return {"label": self._classes(examples)}

    def _classes(self, examples: Sequence[Example]) -> np.ndarray:
        """Indices of the labels, `[N]` int32; 0 where there is none."""
        index: dict[Any, int] = {None: 0}
        index |= {label: place for place, label in enumerate(self.labels)}
        return np.array([index[e.label] for e in examples], np.int32)


class RegressionTask(TextTask):
    """One number for a text or a pair of texts; arguments as of `TextTask`.

    The head learns the place in a range, 0 to 1. Predictions are in the task's
    own unit, and not cut to the range. The mean squared error is that of the
    places, as in the original.
    """

    kind = "regression"
    head_output = "prediction"
    lower_is_better = scores.LOWER_IS_BETTER

    def __init__(
        self,
        name: str,
        readers: task_lib.Readers,
        min_value: float,
        max_value: float,
        metrics: Sequence[str] = tuple(scores.REGRESSION_METRICS),
        **kwargs: Any,
    ) -> None:
        super().__init__(name, readers, metrics, **kwargs)
        self.min_value = min_value
        self.max_value = max_value

    def describe_export(self) -> dict[str, float]:
        """Returns the range that the head learned."""
        return {"min_value": self.min_value, "max_value": self.max_value}

    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the number of each text, in the task's own range."""
        scale = self.max_value - self.min_value
        return {"score": self.min_value + outputs["prediction"] * scale}

    def decode(
        self,
        examples: Sequence[Example],
        rows: rows_lib.Rows,
        outputs: task_lib.Outputs,
    ) -> np.ndarray:
        """Returns the number of every example, `[N]` float64."""
        del examples, rows
        places = np.asarray(outputs["prediction"], np.float64).reshape(-1)
        return self.answer({"prediction": tf.constant(places)})["score"].numpy()

    def score(
        self, examples: Sequence[Example], predictions: np.ndarray
    ) -> dict:
        """Computes correlations in percent, and the error of the places."""
        self._require_labels(examples)
        return scores.compute_scores(
            scores.REGRESSION_METRICS,
            self.metrics,
            self._places([float(e.label or 0) for e in examples]),
            self._places(predictions),
        )

    def is_degenerate(
        self, examples: Sequence[Example], predictions: np.ndarray
    ) -> bool:
        """Whether all examples were given one number, and there are several."""
        spread = np.ptp(self._places(predictions)) if len(examples) else 0.0
        return len(examples) > 1 and bool(spread < _LEAST_SPREAD)

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Sequence[Example],
        predictions: np.ndarray,
    ) -> list[pathlib.Path]:
        """Writes a table, and what GLUE takes: numbers within the range."""
        rows = (
            (example.eid, f"{number:.6f}")
            for example, number in zip(examples, predictions, strict=True)
        )
        path = folder / f"{split}_predictions.tsv"
        write_table(path, ("index", "prediction"), rows)
        inside = np.clip(predictions, self.min_value, self.max_value)
        shown = [f"{number:.3f}" for number in inside]
        return [path, *self._write_submission(folder, split, examples, shown)]

    def _new_head(self, seed: int, **kwargs: Any) -> task_heads.TaskHead:
        return task_heads.RegressionHead(seed, **kwargs)

    def _columns(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        numbers = [
            self.min_value if e.label is None else float(e.label)
            for e in examples
        ]
        return {"target": self._places(numbers).astype(np.float32)}

    def _places(self, numbers: Sequence[float] | np.ndarray) -> np.ndarray:
        """Numbers scaled to the range, `[N]` float64."""
        scale = self.max_value - self.min_value
        return (np.asarray(numbers, np.float64) - self.min_value) / scale


def add_swapped(examples: Sequence[Example]) -> list[Example]:
    """Returns every pair, followed by it swapped, with another number."""
    doubled = []
    for example in examples:
        eid = example.eid
        if isinstance(eid, int):
            eid += len(examples)
        doubled.append(example)
        doubled.append(
            Example(eid, example.pair or "", example.text, example.label)
        )
    return doubled


def write_table(
    path: pathlib.Path,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
) -> pathlib.Path:
    """Writes tab-separated rows under a header, all of them or no file."""
    with (
        atomic.replacing_file(path) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for row in (columns, *rows):
            file.write("\t".join(map(str, row)) + "\n")
    return path
