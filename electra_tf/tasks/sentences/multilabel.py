"""Multi-label classification: any number of labels for a text."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pydantic
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences import text_task
from electra_tf.tasks.sentences.text_task import Examples
from electra_tf.tasks.sentences.text_task import OwnSettings


@dataclasses.dataclass(frozen=True)
class LabelsPrediction:
    """All labels of a text, or of a pair of texts."""

    labels: tuple[str, ...]  # as probable as the threshold, or more
    probabilities: Mapping[str, float]  # of each by itself, highest first
    num_truncated: int  # as in `LabelPrediction`


@schema.frozen
class MultilabelOptions:
    """Options of such a model that other formats keep."""

    label_threshold: Annotated[float, pydantic.Field(gt=0, lt=1)] = 0.5


class MultilabelTask(classification.ClassificationTask):
    """Any number of labels for a text: those above a probability."""

    kind = "multilabel"
    signature = "label"
    decision = "has_label"
    head_class = task_heads.MultilabelHead
    problem_type = "multi_label_classification"
    options_class = MultilabelOptions
    draws_confusion = False
    known_metrics = {
        "micro_f1": text_task.in_percent(
            sklearn_metrics.f1_score, average="micro", zero_division=0
        ),
        # A label that is neither right nor predicted anywhere counts 0.
        "macro_f1": text_task.in_percent(
            sklearn_metrics.f1_score, average="macro", zero_division=0
        ),
        # Of examples with all labels right and no other.
        "exact_match": text_task.in_percent(sklearn_metrics.accuracy_score),
    }
    threshold = 0.5  # the least probability of a label that is predicted
    separator = "|"  # stands between labels in files

    @classmethod
    def build_own(cls, settings: base.Settings, labels: Any = ()) -> Any:
        """Builds the task of a user's own files."""
        task: Any = super().build_own(settings, labels)
        task.threshold = settings.own.threshold
        task.separator = settings.own.label_separator
        return task

    @staticmethod
    def list_labels(record: files.Record, own: OwnSettings) -> tuple[str, ...]:
        """Reads the labels of a row of an own file."""
        separator = own.label_separator
        return cells.read_labels(record, own.label_column, separator)

    def parse_label(self, record: files.Record, own: OwnSettings) -> Any:
        """Reads the labels of a row, which must be known."""
        return self.list_known_labels(record, own)

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

    def targets(self, examples: Examples) -> np.ndarray:
        """Returns which labels hold, `[N, C]` int32."""
        told: list[Any] = [example.label or () for example in examples]
        rows = [[name in own for name in self.labels] for own in told]
        return np.array(rows, np.int32).reshape(-1, len(self.labels))

    def name_classes(self, classes: np.ndarray) -> list[str]:
        """Names the labels of each text."""
        names = np.array(self.labels)
        return [self.separator.join(names[row > 0]) for row in classes]

    def describe_export(self) -> dict[str, float]:
        """Returns the threshold."""
        return {"threshold": self.threshold}

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> LabelsPrediction:
        """Reads the labels above the threshold and all probabilities."""
        ranked = classification.rank_labels(metadata, row)
        least = metadata.threshold or 0.0
        labels = tuple(name for name, share in ranked.items() if share >= least)
        return LabelsPrediction(labels, ranked, int(row["num_truncated"]))

    @classmethod
    def show_prediction(
        cls, prediction: LabelsPrediction, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Shows the likeliest labels with bars, and marks the predicted."""
        held = prediction.labels
        count = max(classification.MAX_SHOWN, len(held))
        shown = dict(list(prediction.probabilities.items())[:count])
        lines = classification.show_probabilities(shown)
        bound = f"{metadata.threshold:g} or more"
        lines = [
            f"{line} <-- {bound}" if label in held else line
            for label, line in zip(shown, lines, strict=True)
        ]
        return lines if held else [*lines, f"(none of {bound})"]

    def options(self, conventions: Any = None) -> MultilabelOptions:
        """Returns the threshold."""
        return MultilabelOptions(self.threshold)

    @classmethod
    def restore_settings(cls, options: MultilabelOptions, layers: Any) -> dict:
        """Returns the threshold."""
        return {"own": {"threshold": options.label_threshold}}
