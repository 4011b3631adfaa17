"""Classification: one of several labels for a text, or any number of them."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
import pydantic
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from electra_tf import errors
from electra_tf import figures
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.sentences import text_task
from electra_tf.tasks.sentences.text_task import Examples
from electra_tf.tasks.sentences.text_task import OwnSettings
from electra_tf.text import terminal

MAX_SHOWN = 5
"""The most probable labels of a text that are shown."""
# Classes of which a confusion matrix can show the numbers, and the names.
_MAX_NUMBERED = 15
_MAX_NAMED = 60
_MAX_LABEL = 24

_ACCURACY = text_task.in_percent(sklearn_metrics.accuracy_score)
_MACRO_F1 = text_task.in_percent(
    sklearn_metrics.f1_score, average="macro", zero_division=0
)
METRICS: Mapping[str, text_task.Metric] = {
    "accuracy": _ACCURACY,
    # 0 for equal predictions.
    "mcc": text_task.in_percent(sklearn_metrics.matthews_corrcoef),
    # Of class 1 of two; 0 without a true positive. The original's F1 leaves out
    # gold positives that were not predicted, and so equals its precision.
    "f1": text_task.in_percent(sklearn_metrics.f1_score, zero_division=0),
    # Without classes that are neither among the labels nor predicted.
    "macro_f1": _MACRO_F1,
}
"""Name to function of labels and predictions, `[N]` integers."""


class ClassPredictions(NamedTuple):
    """Predicted classes, `[N]` int32, and probabilities, `[N, C]` float64.

    Where there may be several, classes are `[N, C]`, zeros and ones.
    """

    classes: np.ndarray
    probabilities: np.ndarray


@dataclasses.dataclass(frozen=True)
class LabelPrediction:
    """The label of a text, or of a pair of texts."""

    label: str  # the most probable one
    probabilities: Mapping[str, float]  # of all labels, most probable first
    num_truncated: int  # pieces of text that did not fit, and were not seen


class ClassificationTask(text_task.TextTask):
    """One class for a text or a pair of texts: an index of `labels`.

    Labels are in the order of the outputs; the first of the metrics decides.
    """

    kind = "classification"
    signature = "classify"
    decision = "label_index"  # the key of `answer` with the classes
    head_class = task_heads.ClassificationHead
    outputs_are_labels = True
    head_output = "logits"
    takes_pairs = True
    problem_type = "single_label_classification"
    known_metrics = METRICS
    has_several = False  # whether a text may have several labels, or none

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
        labels = labels or cls._find_labels(own)
        task = cls(base.OWN, {}, labels, list(cls.known_metrics))
        task.use_own(own)
        task.use_labels(labels)
        return task

    @classmethod
    def _find_labels(cls, own: OwnSettings) -> tuple[str, ...]:
        """Returns the labels of the config, or those of the training file."""
        labels = own.label_names
        if own.labels and (len(labels) < 2 or len(set(labels)) < len(labels)):
            raise errors.DataError(
                "`own.labels` must list two or more different labels between "
                f"commas. Received: {own.labels!r}."
            )
        if labels or not own.train_file:
            return labels
        path, column = storage.path(own.train_file), own.label_column
        records = files.read_table(path, own.file_format, [column])
        names = {name for row in records for name in cls._list_labels(row, own)}
        if len(names) < 2:
            expected = f"at least two labels in column {column!r}"
            raise files.unexpected(path, expected, sorted(names))
        return tuple(sorted(names))

    @classmethod
    def _list_labels(
        cls, record: files.Record, own: OwnSettings
    ) -> tuple[str, ...]:
        separator = own.label_separator if cls.has_several else ""
        return cells.read_labels(record, own.label_column, separator)

    def parse_label(self, record: files.Record, own: OwnSettings) -> Any:
        """Reads the label of a row, or all of them; they must be known."""
        names = self._list_labels(record, own)
        for name in (name for name in names if name not in self.labels):
            hint = schema.suggest(name, self.labels)
            remedy = f"{hint} Repair the row, or set --config.own.labels."
            raise files.unexpected(
                record.place, "one of the labels", name, remedy
            )
        return names if self.has_several else names[0]

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a trained model, in its order."""
        if self.own is None and set(labels) != set(self.labels):
            raise ValueError(
                f"Expected a model of {self.name} with the labels "
                f"{', '.join(self.labels)}. Received one with "
                f"{', '.join(labels)}. Name the task that it was trained on."
            )
        self.labels = tuple(labels)
        if self.own is not None:
            known = list(self.known_metrics)
            if len(labels) > 2 and "f1" in known:
                # It is about one class of two.
                known.remove("f1")
            self.use_metrics(text_task.order_metrics(self.own, known))

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head, once the labels are known."""
        if not self.labels:
            raise errors.DataError(
                "Expected the labels of your own task. Received: none. Give "
                "--config.own.train_file=FILE, or --config.own.labels=A,B."
            )
        return super().new_head(**kwargs)

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
        self, examples: Examples, rows: base.Rows, outputs: base.Outputs
    ) -> ClassPredictions:
        """Returns the likeliest class of every example, and probabilities."""
        logits = np.asarray(outputs["logits"], np.float64)
        logits = logits.reshape(-1, len(self.labels))
        answer = self.answer({"logits": tf.constant(logits)})
        names = self.decision, "probabilities"
        return ClassPredictions(*(answer[name].numpy() for name in names))

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Lists the names of the classes."""
        return self.name_classes(predictions.classes)

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: ClassPredictions,
    ) -> list[pathlib.Path]:
        """Writes a table, the file for GLUE, and a picture of known classes."""
        paths = super().write_predictions(folder, split, examples, predictions)
        is_drawn = examples and not self.has_several
        if is_drawn and self.has_labels(examples):
            paths.append(folder / f"{split}_confusion.png")
            sides = self.targets(examples), self.to_targets(predictions)
            title = f"{self.name}, {split}"
            draw_confusion(paths[-1], *sides, self.labels, title)
        return paths

    def targets(self, examples: Examples) -> np.ndarray:
        """Returns the indices of the labels, `[N]` int32."""
        index: dict[Any, int] = {None: 0}
        index |= {label: place for place, label in enumerate(self.labels)}
        return np.array([index[e.label] for e in examples], np.int32)

    def to_targets(self, predictions: ClassPredictions) -> np.ndarray:
        """Returns the predicted indices."""
        return predictions.classes

    def format_predictions(
        self, predictions: ClassPredictions
    ) -> text_task.WrittenPredictions:
        """Formats the labels and all probabilities."""
        names = self.name_classes(predictions.classes)
        columns = {"label": names}
        shares = predictions.probabilities.T
        for label, column in zip(self.labels, shares, strict=True):
            columns[f"probability_{label}"] = [f"{p:.6f}" for p in column]
        return text_task.WrittenPredictions(columns, names)

    def name_classes(self, classes: np.ndarray) -> list[str]:
        """Names the classes."""
        return [self.labels[index] for index in classes]

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> Any:
        """Reads the likeliest label and all probabilities."""
        ranked = rank_labels(metadata, row)
        best, *_ = ranked
        return LabelPrediction(best, ranked, int(row["num_truncated"]))

    @classmethod
    def show_prediction(
        cls, prediction: Any, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Shows the likeliest labels with bars."""
        shown = list(prediction.probabilities.items())[:MAX_SHOWN]
        return show_probabilities(dict(shown))


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


class MultilabelTask(ClassificationTask):
    """Any number of labels for a text: those above a probability."""

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
        "macro_f1": _MACRO_F1,  # a label that is nowhere counts 0
        "exact_match": _ACCURACY,  # examples with all labels right, no other
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
        ranked = rank_labels(metadata, row)
        least = metadata.threshold or 0.0
        labels = tuple(name for name, share in ranked.items() if share >= least)
        return LabelsPrediction(labels, ranked, int(row["num_truncated"]))

    @classmethod
    def show_prediction(
        cls, prediction: LabelsPrediction, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Shows the likeliest labels with bars, and marks the predicted."""
        held = prediction.labels
        count = max(MAX_SHOWN, len(held))
        shown = dict(list(prediction.probabilities.items())[:count])
        lines = show_probabilities(shown)
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


def rank_labels(metadata: Any, row: base.Row) -> dict:
    """Returns label to probability, most probable first."""
    shares = row["probabilities"].tolist()
    pairs = zip(metadata.labels or (), shares, strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def show_probabilities(shares: Mapping[str, float]) -> list[str]:
    """Returns a line with a bar for each label."""
    width = max(map(len, shares))
    return [
        f"{label:{width}}  {share:.3f}  {terminal.draw_bar(share)}".rstrip()
        for label, share in shares.items()
    ]


def draw_confusion(
    path: pathlib.Path,
    labels: np.ndarray,
    predictions: np.ndarray,
    names: Sequence[str],
    title: str,
) -> None:
    """Draws into a PNG file which of `[N]` classes was taken for which."""
    number = len(names)
    counts = sklearn_metrics.confusion_matrix(
        labels, predictions, labels=range(number)
    )
    totals = counts.sum(1)
    shares = counts / np.maximum(totals, 1)[:, np.newaxis]
    shown = [
        n if len(n) <= _MAX_LABEL else f"{n[: _MAX_LABEL - 1]}…"
        # matplotlib sets what stands between dollar signs as mathematics.
        for n in (name.replace("$", r"\$") for name in names)
    ]
    is_numbered = number <= _MAX_NUMBERED
    side = 2.6 + (0.62 if is_numbered else 0.22) * min(number, _MAX_NAMED)
    size = side + 1.8, side + 0.6
    picture = sklearn_metrics.ConfusionMatrixDisplay(
        shares, display_labels=shown
    )
    with figures.saving_figure(path, 1, 1, size) as (figure, (axis,)):
        figure.set_layout_engine("constrained")
        picture.plot(
            ax=axis,
            cmap="Blues",
            include_values=is_numbered,
            xticks_rotation=40 if max(map(len, shown)) > 6 else "horizontal",
            im_kw={"vmin": 0, "vmax": 1},
            text_kw={"fontsize": 9 if number <= 6 else 7},
        )
        for place in np.ndindex(counts.shape) if is_numbered else ():
            text = f"{counts[place]:,}\n{shares[place]:.0%}"
            picture.text_[place].set_text(text)
        picture.im_.colorbar.set_label("share of the row")
        rows = [f"{s} ({n:,})" for s, n in zip(shown, totals, strict=True)]
        axis.set_yticklabels(rows)
        axis.tick_params(labelsize=10 if is_numbered else 6)
        if number > _MAX_NAMED:
            axis.set(xticks=[], yticks=[])
        axis.set(xlabel="predicted", ylabel="right label (its examples)")
        share = counts.trace() / len(labels)
        title = f"{title}: {len(labels):,} examples, {share:.1%} right"
        axis.set_title(title, fontsize=11)
