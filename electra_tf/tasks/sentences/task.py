"""Tasks with classes or a number for a text or a pair of texts.

`glue` and `own` give them functions that read their examples.
"""

import abc
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import scores
from electra_tf.text import tokenizer as tokenizer_lib

LEAST_SPREAD = 1e-3
"""Numbers that differ by less, as a share of the range, say nothing: rounding
in batches of other lengths moves them too."""


class Example(NamedTuple):
    """One text or pair of texts."""

    # Its number in the file, from 0; or the user's name for it. Texts that are
    # compared have the name of their question or query.
    eid: int | str
    text: str  # the first text
    pair: str | None = None  # the second one, if any
    # The class's name, the number, or the names of all labels, if told
    label: str | float | tuple[str, ...] | None = None


Examples = Sequence[Example]


class ClassPredictions(NamedTuple):
    """Predicted classes, `[N]` int32, and probabilities, `[N, C]` float64.

    Where there may be several, classes are `[N, C]`, zeros and ones.
    """

    classes: np.ndarray
    probabilities: np.ndarray


# The columns of a table of predictions, and the answers to submit.
_Written = tuple[dict[str, list[str]], list[str]]


class TextTask(task_lib.Task):
    """What these kinds have in common."""

    signature: str  # what signatures of an export begin with
    head_class: Any  # of `task_heads`; it learns from one column
    head_output = "prediction"  # the output of the head that `answer` reads
    known_metrics: Mapping[str, Any]  # a table of `scores`
    is_unordered = False  # whether pairs are learned in both orders
    # Split to the file in which the GLUE site expects its predictions
    submissions: Mapping[str, str] = {}
    # Whether the head has a hidden layer, as those of Hugging Face's models
    has_hidden_layer = False

    def use_metrics(self, metrics: Sequence[str]) -> None:
        """Sets what is scored, the deciding metric first."""
        self.metrics = tuple(metrics)
        self.metric = self.metrics[0]

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> rows_lib.Rows:
        """Makes a row of each example; two to learn from unordered pairs."""
        numbers = np.arange(len(examples), dtype=np.int32)
        if is_training and self.is_unordered:
            examples = add_swapped(examples)
            numbers = np.repeat(numbers, 2)
        texts = [example.text for example in examples]
        pairs = [example.pair for example in examples]
        ids, starts = rows_lib.pack_split(
            texts, pairs, tokenizer, max_seq_length
        )
        ((name, column),) = self.head_class.columns.items()
        columns = {name: self._targets(examples).astype(column.dtype)}
        return rows_lib.Rows(ids, starts, numbers, columns)

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head, without weights, for the labels if there are."""
        sizes = [len(self.labels)] if self.labels else []
        kwargs["has_hidden_layer"] = self.has_hidden_layer
        head: task_heads.TaskHead = self.head_class(*sizes, **kwargs)
        return head

    @abc.abstractmethod
    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Reads answers off the head's `[B, ...]` outputs, also in a graph."""

    def has_labels(self, examples: Examples) -> bool:
        """Whether all examples have labels."""
        return all(example.label is not None for example in examples)

    def score(self, examples: Examples, predictions: Any) -> dict:
        """Computes the task's metrics."""
        pair = self._targets(examples), self._to_targets(predictions)
        return {name: self.known_metrics[name](*pair) for name in self.metrics}

    def is_degenerate(self, examples: Examples, predictions: Any) -> bool:
        """Whether there are several examples, and all have one prediction."""
        if len(examples) < 2:
            return False
        spreads = np.ptp(self._to_targets(predictions), axis=0)
        return bool(np.max(spreads) < LEAST_SPREAD)

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: Any,
    ) -> list[pathlib.Path]:
        """Writes a table, what GLUE takes, and a picture of known classes."""
        columns, answers = self._format(predictions)
        columns = {"index": [str(e.eid) for e in examples]} | columns
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        path = folder / f"{split}_predictions.tsv"
        paths = [task_lib.write_file(path, map("\t".join, rows))]
        if split in self.submissions:
            eids = [int(example.eid) for example in examples]
            ordered = sorted(zip(eids, answers, strict=True))
            lines = [f"{eid}\t{answer}" for eid, answer in ordered]
            path = folder / self.submissions[split]
            lines.insert(0, "index\tprediction")
            paths.append(task_lib.write_file(path, lines))
        is_classified = self.kind == ClassificationTask.kind
        if is_classified and examples and self.has_labels(examples):
            paths.append(folder / f"{split}_confusion.png")
            scores.draw_confusion(
                paths[-1],
                self._targets(examples),
                self._to_targets(predictions),
                self.labels,
                f"{self.name}, {split}",
            )
        return paths

    @abc.abstractmethod
    def _targets(self, examples: Examples) -> np.ndarray:
        """What is learned and scored, `[N, ...]`; 0 without a label."""

    @abc.abstractmethod
    def _to_targets(self, predictions: Any) -> np.ndarray:
        """Predictions in the unit of `_targets`."""

    @abc.abstractmethod
    def _format(self, predictions: Any) -> _Written:
        """What is written of predictions."""


class ClassificationTask(TextTask):
    """One class for a text or a pair of texts.

    What is predicted is an index of `labels`.
    """

    kind = "classification"
    signature = "classify"
    decision = "label_index"  # the key of `answer` with the classes
    head_class = task_heads.ClassificationHead
    head_output = "logits"
    known_metrics = scores.CLASSIFICATION_METRICS

    def __init__(
        self,
        name: str,
        readers: task_lib.Readers,
        labels: Sequence[str],
        metrics: Sequence[str] = ("accuracy",),
    ) -> None:
        super().__init__(name, readers)
        self.labels = tuple(labels)
        self.use_metrics(metrics)

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
        self, examples: Examples, rows: rows_lib.Rows, outputs: task_lib.Outputs
    ) -> ClassPredictions:
        """Returns the likeliest class of every example, and probabilities."""
        logits = np.asarray(outputs["logits"], np.float64)
        logits = logits.reshape(-1, len(self.labels))
        answer = self.answer({"logits": tf.constant(logits)})
        return ClassPredictions(
            answer[self.decision].numpy(), answer["probabilities"].numpy()
        )

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists the names of the classes."""
        return self._name(predictions.classes)

    def _targets(self, examples: Examples) -> np.ndarray:
        index: dict[Any, int] = {None: 0}
        index |= {label: place for place, label in enumerate(self.labels)}
        return np.array([index[e.label] for e in examples], np.int32)

    def _to_targets(self, predictions: ClassPredictions) -> np.ndarray:
        return predictions.classes

    def _format(self, predictions: ClassPredictions) -> _Written:
        names = self._name(predictions.classes)
        columns = {"label": names}
        shares = predictions.probabilities.T
        for label, column in zip(self.labels, shares, strict=True):
            columns[f"probability_{label}"] = [f"{p:.6f}" for p in column]
        return columns, names

    def _name(self, classes: np.ndarray) -> list[str]:
        return [self.labels[index] for index in classes]


class MultilabelTask(ClassificationTask):
    """Any number of labels for a text, each from a probability on."""

    kind = "multilabel"
    signature = "label"
    decision = "has_label"
    head_class = task_heads.MultilabelHead
    known_metrics = scores.MULTILABEL_METRICS
    threshold = 0.5  # the least probability of a label that is predicted
    separator = "|"  # stands between labels in files

    def describe_export(self) -> dict[str, float]:
        """Returns the threshold."""
        return {"threshold": self.threshold}

    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the labels of each text, and all probabilities."""
        logits = outputs["logits"]
        probabilities = tf.nn.sigmoid(logits)
        is_label = probabilities >= self.threshold
        return {
            "labels": tf.where(is_label, tf.constant(self.labels), ""),
            "has_label": tf.cast(is_label, tf.int32),
            "probabilities": probabilities,
            "logits": logits,
        }

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists the names of the labels of each text."""
        names = np.array(self.labels)
        return [names[row > 0].tolist() for row in predictions.classes]

    def _targets(self, examples: Examples) -> np.ndarray:
        told: list[Any] = [example.label or () for example in examples]
        rows = [[name in own for name in self.labels] for own in told]
        return np.array(rows, np.int32).reshape(-1, len(self.labels))

    def _name(self, classes: np.ndarray) -> list[str]:
        names = np.array(self.labels)
        return [self.separator.join(names[row > 0]) for row in classes]


class RegressionTask(TextTask):
    """One number for a text or a pair of texts.

    The head learns the place in a range, 0 to 1; errors are of places, as in
    the original. Predictions have the task's own unit, and may be outside.
    """

    kind = "regression"
    signature = "regress"
    head_class = task_heads.RegressionHead
    known_metrics = scores.REGRESSION_METRICS
    lower_is_better = scores.LOWER_IS_BETTER

    def __init__(
        self,
        name: str,
        readers: task_lib.Readers,
        min_value: float,
        max_value: float,
        metrics: Sequence[str] = tuple(scores.REGRESSION_METRICS),
    ) -> None:
        super().__init__(name, readers)
        self.min_value = min_value
        self.max_value = max_value
        self.use_metrics(metrics)

    def describe_export(self) -> dict[str, float]:
        """Returns the range that the head learned."""
        return {"min_value": self.min_value, "max_value": self.max_value}

    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the number of each text, in the task's own range."""
        scale = self.max_value - self.min_value
        return {"score": self.min_value + outputs["prediction"] * scale}

    def decode(
        self, examples: Examples, rows: rows_lib.Rows, outputs: task_lib.Outputs
    ) -> np.ndarray:
        """Returns the number of every example, `[N]` float64."""
        places = np.asarray(outputs["prediction"], np.float64).reshape(-1)
        return self.answer({"prediction": tf.constant(places)})["score"].numpy()

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists the numbers."""
        return predictions.round(6).tolist()

    def _targets(self, examples: Examples) -> np.ndarray:
        numbers: list[Any] = [
            self.min_value if e.label is None else e.label for e in examples
        ]
        return self._to_targets(np.asarray(numbers, np.float64))

    def _to_targets(self, predictions: np.ndarray) -> np.ndarray:
        return (predictions - self.min_value) / (
            self.max_value - self.min_value
        )

    def _format(self, predictions: np.ndarray) -> _Written:
        inside = np.clip(predictions, self.min_value, self.max_value)
        columns = {"prediction": [f"{number:.6f}" for number in predictions]}
        return columns, [f"{number:.3f}" for number in inside]


def add_swapped(examples: Sequence[Example]) -> list[Example]:
    """Returns every pair, followed by it swapped, with another number."""
    doubled = []
    for eid, text, pair, label in examples:
        doubled.append(Example(eid, text, pair, label))
        other = eid + len(examples) if isinstance(eid, int) else eid
        doubled.append(Example(other, pair or "", text, label))
    return doubled
