"""Classification: each text has one label, or any number of labels."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import pydantic
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.sentences import confusion
from electra_tf.tasks.sentences import labels as label_lib
from electra_tf.tasks.sentences import text_task
from electra_tf.tasks.sentences.text_task import Examples
from electra_tf.text import terminal

MAX_SHOWN = 5
"""Number of most probable labels that are printed for a text."""
_ACCURACY = text_task.in_percent(sklearn_metrics.accuracy_score)
_F1 = text_task.in_percent(sklearn_metrics.f1_score, zero_division=0)
_MACRO_F1 = text_task.in_percent(
    sklearn_metrics.f1_score, average="macro", zero_division=0
)
METRICS: Mapping[str, text_task.Metric] = {
    "accuracy": _ACCURACY,
    # 0 if all predictions are equal.
    "mcc": text_task.in_percent(sklearn_metrics.matthews_corrcoef),
    # F1 of class 1 of two; 0 without a true positive. The original's F1 ignores
    # false negatives and so equals its precision.
    "f1": _F1,
    # Leaves out classes that are neither among the labels nor predicted.
    "macro_f1": _MACRO_F1,
}
"""Maps a metric to a function of labels and predictions, `[N]` integers."""


class ClassPredictions(NamedTuple):
    """Predictions for N texts and C labels."""

    classes: np.ndarray  # `[N]` int32; of several labels `[N, C]`, 0 or 1
    probabilities: np.ndarray  # `[N, C]` float64


@dataclasses.dataclass(frozen=True)
class LabelPrediction:
    """The label of a text, or of a pair of texts."""

    label: str  # the most probable label
    probabilities: Mapping[str, float]  # of all labels, most probable first
    num_truncated: int  # pieces that were cut off and not seen by the model


@schema.frozen
class LabelConventions:
    """Conventions of a model that was trained on a user's two labels."""

    positive_label: str  # the label that F1 is computed for


class ClassificationTask(text_task.TextTask):
    """One label for a text or a pair of texts.

    Output i of the head belongs to `labels[i]`. The first metric ranks trials.
    """

    kind = "classification"
    signature = "classify"
    decision = "label_index"  # the key of `answer` that holds the classes
    head_class = task_heads.ClassificationHead
    outputs_are_labels = True
    head_output = "logits"
    takes_pairs = True
    problem_type = "single_label_classification"
    known_metrics = METRICS
    conventions_class = LabelConventions
    has_several = False  # whether a text may have several labels, or none
    counts: Mapping[str, int] = {}  # examples of each label in a user's file
    _reason = "as in its training"  # why F1 is of `positive_label`

    def __init__(
        self,
        name: str,
        readers: base.Readers,
        labels: Sequence[str],
        metrics: Sequence[str] = ("accuracy",),
    ) -> None:
        super().__init__(name, readers)
        self.labels = tuple(labels)
        self.use_metrics(metrics)

    @classmethod
    def build_own(cls, settings: base.Settings, labels: Any = ()) -> Any:
        """Builds the task of a user's own files."""
        own = settings.own
        set_labels = own.label_names
        schema.require(
            not own.labels or len(set_labels) == len({*set_labels}) > 1,
            "`own.labels` must list two or more different labels between "
            f"commas. Received: {own.labels!r}.",
        )
        task = cls(base.OWN, {}, labels or set_labels)
        task.use_own(own)
        if not labels and own.train_file:
            task.counts = label_lib.count(task.read_split("train"))
        columns = own.label_columns
        names = columns if len(columns) > 1 else sorted(task.counts)
        task.use_labels(task.labels or tuple(names))
        if own.train_file and len(task.labels) < 2:
            expected = f"at least two labels in column {own.label_column!r}"
            raise files.unexpected(own.train_file, expected, list(task.labels))
        return task

    @classmethod
    def recognizes(cls, frame: Any, own: base.OwnSettings) -> str:
        """Returns the reason why a frame's float labels are classes, or ""."""
        numbers = cells.find_numbers(frame.get(own.label_column, ()))
        has_whole = bool(numbers) and all(n.is_integer() for n in numbers)
        has_whole = has_whole and own.question_column not in frame
        if not has_whole or len({*numbers}) > max(20, len(numbers) // 10):
            return ""
        return f"its labels, {len({*numbers})} whole numbers, are classes"

    def parse_labels(
        self, records: Sequence[files.Record], own: base.OwnSettings
    ) -> list[Any]:
        """Reads the label, or the labels, of each row; unknown ones raise."""
        rows = label_lib.read(records, own, self.labels, self.has_several)
        return rows if self.has_several else [names[0] for names in rows]

    def use_labels(self, labels: Sequence[str]) -> None:
        """Replaces the labels by a trained model's, in the model's order."""
        if self.own is None and set(labels) != set(self.labels):
            raise ValueError(
                f"Expected a model of {self.name} with the labels "
                f"{', '.join(self.labels)}. Received one with "
                f"{', '.join(labels)}. Name the task that it was trained on."
            )
        self.labels = tuple(labels)
        if self.own is not None:
            # F1 is defined for two labels.
            left_out = "f1" if len(labels) > 2 else ""
            self.use_metrics([n for n in self.known_metrics if n != left_out])

    @functools.cached_property
    def conventions(self) -> LabelConventions | None:
        """The positive label of a user's two labels; None for other tasks."""
        positive = self.own.positive_label if self.own else ""
        if self.own is None or len(self.labels) != 2 or self.has_several:
            schema.require(
                not positive,
                "`own.positive_label` is for two labels. Received: "
                f"{len(self.labels)} labels. Leave it out; macro_f1 is of all.",
            )
            return None
        positive, self._reason = label_lib.choose_positive(
            self.labels, positive, self.counts
        )
        return LabelConventions(positive)

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Returns lines about counts of labels, baseline, F1 and weights."""
        labelled = {s: e for s, e in examples.items() if self.has_labels(e)}
        counts = {s: label_lib.count(e) for s, e in labelled.items()}
        lines = label_lib.describe(self.labels, counts)
        dev = next((s for s in self.dev_splits if counts.get(s)), "")
        if "train" in counts and dev and not self.has_several:
            name = max(counts["train"], key=counts["train"].__getitem__)
            share = counts[dev][name] / counts[dev].total()
            lines.append(
                f"Always saying {name!r} has accuracy {100 * share:.2f} on "
                f"{dev}."
            )
        if self.conventions is not None:
            name = self.conventions.positive_label
            lines.append(f"f1 is of {name!r} ({self._reason}).")
        if weights := self._find_weights():
            pairs = zip(self.labels, weights, strict=True)
            shown = files.list_some([f"{n!r} {w:.3g}" for n, w in pairs])
            lines.append(f"Weights in the loss: {shown}.")
        bare = sum(not e.label for split in labelled.values() for e in split)
        return lines + [f"Texts without a label: {bare:,}."] * bool(bare)

    def _find_weights(self) -> tuple[float, ...]:
        own = self.own
        if own is None or not (own.class_weights and self.counts):
            return ()
        total = len(self.read_split("train")) if self.has_several else 0
        return label_lib.parse_weights(
            own.class_weights, self.labels, self.counts, total
        )

    def score(self, examples: Examples, predictions: Any) -> dict:
        """Computes the metrics; F1 is of the positive label, else class 1."""
        scores = super().score(examples, predictions)
        if self.conventions is not None:
            positive = self.labels.index(self.conventions.positive_label)
            pair = self.targets(examples), self.to_targets(predictions)
            scores["f1"] = _F1(*(classes == positive for classes in pair))
        return scores

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head; raises `DataError` if no labels are known."""
        if not self.labels:
            raise errors.DataError(
                "Expected the labels of your own task. Received: none. Give "
                "own.train_file=FILE, or own.labels=A,B."
            )
        weights = self._find_weights()
        return super().new_head(class_weights=weights, **kwargs)

    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the most probable label of each text, and probabilities."""
        logits = outputs["logits"]
        best = tf.argmax(logits, axis=1, output_type=tf.int32)
        return {
            "label": tf.gather(tf.constant(self.labels), best),
            "label_index": best,
            "probabilities": tf.nn.softmax(logits),
            "logits": logits,
        }

    def decode(
        self, examples: Examples, rows: base.Rows, outputs: base.Outputs
    ) -> ClassPredictions:
        """Computes the classes and probabilities of all examples."""
        logits = np.asarray(outputs["logits"], np.float64)
        logits = logits.reshape(-1, len(self.labels))
        answer = self.answer({"logits": tf.constant(logits)})
        names = self.decision, "probabilities"
        return ClassPredictions(*(answer[name].numpy() for name in names))

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Returns the label of each text."""
        return self.name_classes(predictions.classes)

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: ClassPredictions,
    ) -> list[pathlib.Path]:
        """Writes a table, the file for GLUE, and the confusion matrix."""
        paths = super().write_predictions(folder, split, examples, predictions)
        is_drawn = examples and not self.has_several
        if is_drawn and self.has_labels(examples):
            paths.append(folder / f"{split}_confusion.png")
            pair = self.targets(examples), self.to_targets(predictions)
            title = f"{self.name}, {split}"
            confusion.draw(paths[-1], *pair, self.labels, title)
        return paths

    def targets(self, examples: Examples) -> np.ndarray:
        """Returns the indices of the labels, `[N]` int32."""
        index: dict[Any, int] = {None: 0}
        index |= {label: number for number, label in enumerate(self.labels)}
        return np.array([index[e.label] for e in examples], np.int32)

    def to_targets(self, predictions: ClassPredictions) -> np.ndarray:
        """Returns the predicted classes."""
        return predictions.classes

    def format_predictions(
        self, predictions: ClassPredictions
    ) -> text_task.WrittenPredictions:
        """Formats the labels and all probabilities."""
        names = self.name_classes(predictions.classes)
        columns = {"label": names}
        probabilities = predictions.probabilities.T
        for label, column in zip(self.labels, probabilities, strict=True):
            columns[f"probability_{label}"] = [f"{p:.6f}" for p in column]
        return text_task.WrittenPredictions(columns, names)

    def name_classes(self, classes: np.ndarray) -> list[str]:
        """Returns the label of each class."""
        return [self.labels[index] for index in classes]

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> Any:
        """Returns the most probable label and all probabilities."""
        ranked = rank_labels(metadata, row)
        best, *_ = ranked
        return LabelPrediction(best, ranked, int(row["num_truncated"]))

    @classmethod
    def show_prediction(
        cls, prediction: Any, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Returns a line with a bar for each of the most probable labels."""
        best = list(prediction.probabilities.items())[:MAX_SHOWN]
        return show_probabilities(dict(best))


@dataclasses.dataclass(frozen=True)
class LabelsPrediction:
    """All labels of a text, or of a pair of texts."""

    labels: tuple[str, ...]  # those that reach the threshold
    probabilities: Mapping[str, float]  # of each label, highest first
    num_truncated: int  # as in `LabelPrediction`


@schema.frozen
class MultilabelOptions:
    """Options of a multi-label model that other formats store."""

    label_threshold: Annotated[float, pydantic.Field(gt=0, lt=1)] = 0.5


class MultilabelTask(ClassificationTask):
    """All labels of a text whose probability reaches a threshold."""

    kind = "multilabel"
    signature = "label"
    decision = "has_label"
    head_class = task_heads.MultilabelHead
    problem_type = "multi_label_classification"
    options_class = MultilabelOptions
    has_several = True
    known_metrics = {
        "micro_f1": text_task.in_percent(
            sklearn_metrics.f1_score, average="micro", zero_division=0
        ),
        "macro_f1": _MACRO_F1,  # a label without any text counts 0
        "exact_match": _ACCURACY,  # share of texts with exactly their labels
    }
    threshold = 0.5  # least probability of a predicted label
    separator = "|"  # between the labels of a text in files

    @classmethod
    def build_own(cls, settings: base.Settings, labels: Any = ()) -> Any:
        """Builds the task of a user's own files."""
        task: Any = super().build_own(settings, labels)
        task.threshold = settings.own.threshold
        task.separator = settings.own.label_separator
        return task

    @classmethod
    def recognizes(cls, frame: Any, own: base.OwnSettings) -> str:
        """Returns the reason why a frame has lists of labels, or ""."""
        names = [own.label_column, "labels"]
        column = next((name for name in names if name in frame), "")
        if not column or own.text_column not in frame:
            return ""
        values = map(cells.understand, frame[column])
        pairs = zip(frame[own.text_column], values, strict=True)
        rows = [(text, value) for text, value in pairs if value is not None]
        are_lists = all(
            isinstance(text, str)
            and isinstance(value, list | dict)
            and not cells.open_spans(value)
            for text, value in rows
        )
        # A list with an item for each word holds tags.
        if are_lists and any(len(t.split()) != len(v) for t, v in rows):
            return f"{column!r} holds lists of labels"
        return ""

    @classmethod
    def describe_frame(cls, frame: Any, own: Mapping[str, Any]) -> dict:
        """Returns the columns of the labels and of the second text."""
        column = own["label_column"]
        if column == "labels" and column not in frame:
            column = "label"
        own = {**own, "label_column": column}
        return super().describe_frame(frame, own) | {"label_column": column}

    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the labels of each text, "" for others, and probabilities."""
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
        """Returns a list of labels for each text."""
        names = np.array(self.labels)
        return [names[row > 0].tolist() for row in predictions.classes]

    def targets(self, examples: Examples) -> np.ndarray:
        """Returns 1 for each label of a text, else 0: `[N, C]` int32."""
        labels: list[Any] = [example.label or () for example in examples]
        rows = [[name in names for name in self.labels] for names in labels]
        return np.array(rows, np.int32).reshape(-1, len(self.labels))

    def name_classes(self, classes: np.ndarray) -> list[str]:
        """Joins the labels of each text."""
        names = np.array(self.labels)
        return [self.separator.join(names[row > 0]) for row in classes]

    def describe_export(self) -> dict[str, float]:
        """Returns the threshold."""
        return {"threshold": self.threshold}

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> LabelsPrediction:
        """Returns the labels that reach the threshold, and probabilities."""
        ranked = rank_labels(metadata, row)
        threshold = metadata.threshold or 0.0
        labels = tuple(n for n, share in ranked.items() if share >= threshold)
        return LabelsPrediction(labels, ranked, int(row["num_truncated"]))

    @classmethod
    def show_prediction(
        cls, prediction: LabelsPrediction, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Returns a line for each probable label; marks predicted labels."""
        count = max(MAX_SHOWN, len(prediction.labels))
        best = dict(list(prediction.probabilities.items())[:count])
        bound = f"{metadata.threshold:g} or more"
        lines = [
            f"{line} <-- {bound}" if label in prediction.labels else line
            for label, line in zip(best, show_probabilities(best), strict=True)
        ]
        return lines if prediction.labels else [*lines, f"(none of {bound})"]

    def options(self, conventions: Any = None) -> MultilabelOptions:
        """Returns the threshold."""
        return MultilabelOptions(self.threshold)

    @classmethod
    def restore_settings(cls, options: MultilabelOptions, layers: Any) -> dict:
        """Returns the threshold."""
        return {"own": {"threshold": options.label_threshold}}


def rank_labels(metadata: Any, row: base.Row) -> dict:
    """Maps each label to its probability, the most probable label first."""
    probabilities = row["probabilities"].tolist()
    pairs = zip(metadata.labels or (), probabilities, strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def show_probabilities(probabilities: Mapping[str, float]) -> list[str]:
    """Returns a line with a bar for each label."""
    width = max(map(len, probabilities))
    return [
        f"{label:{width}}  {share:.3f}  {terminal.draw_bar(share)}".rstrip()
        for label, share in probabilities.items()
    ]
