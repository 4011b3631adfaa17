"""Regression: each text or pair of texts has a number."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pydantic
import scipy.stats
import tensorflow as tf
from sklearn import metrics as sklearn_metrics

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import base
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.sentences import text_task
from electra_tf.tasks.sentences.text_task import Examples

_Finite = Annotated[float, pydantic.Field(allow_inf_nan=False)]


def _correlate(
    targets: np.ndarray, predictions: np.ndarray, coefficient_fn: Callable
) -> float:
    if np.ptp(targets) == 0 or np.ptp(predictions) == 0:
        return 0.0  # The coefficient is undefined.
    # float32 would lose the differences of close numbers.
    coefficient = coefficient_fn(
        np.asarray(targets, np.float64), np.asarray(predictions, np.float64)
    )[0]
    return 0.0 if math.isnan(coefficient) else coefficient


METRICS: Mapping[str, text_task.Metric] = {
    # 0 if the targets or the predictions are constant.
    "spearman": text_task.in_percent(
        _correlate, coefficient_fn=scipy.stats.spearmanr
    ),
    "pearson": text_task.in_percent(
        _correlate, coefficient_fn=scipy.stats.pearsonr
    ),
    "mse": sklearn_metrics.mean_squared_error,
    "mae": sklearn_metrics.mean_absolute_error,
}
"""Maps a metric to a function of targets and predictions, `[N]` floats."""


@schema.frozen
class NumberConventions:
    """Conventions of a model: the range of its training file."""

    min_value: float  # what an output of 0 means
    max_value: float  # what an output of 1 means


@dataclasses.dataclass(frozen=True)
class NumberPrediction:
    """The number of a text, or of a pair of texts."""

    value: float  # in the unit of the training data, perhaps out of its range
    num_truncated: int  # as in `LabelPrediction`


@schema.frozen
class RegressionOptions:
    """Options of a regression model that other formats store."""

    # The numbers that outputs of 0 and 1 stand for
    regression_value_range: tuple[_Finite, _Finite] = (0.0, 1.0)


class RegressionTask(text_task.TextTask):
    """One number for a text or a pair of texts.

    The head learns numbers scaled from a range to 0..1. Predictions are scaled
    back and may be out of the range. The metrics `mse` and `mae` are in the
    unit of a user's numbers; for GLUE they are of scaled numbers, as in the
    original.
    """

    kind = "regression"
    signature = "regress"
    head_class = task_heads.RegressionHead
    takes_pairs = True
    problem_type = "regression"
    options_class = RegressionOptions
    conventions_class = NumberConventions
    known_metrics = METRICS
    lower_is_better = ("mse", "mae")

    def __init__(
        self,
        name: str,
        readers: base.Readers,
        min_value: float,
        max_value: float,
        metrics: Sequence[str] = tuple(METRICS),
    ) -> None:
        super().__init__(name, readers)
        self.min_value = min_value
        self.max_value = max_value
        self.use_metrics(metrics)

    @classmethod
    def build_own(cls, settings: base.Settings, labels: Any = ()) -> Any:
        """Builds the task of a user's own files."""
        own = settings.own
        task = cls(base.OWN, {}, own.min_value, own.max_value)
        task.use_own(own)
        task.use_metrics(task.metrics)
        return task

    @functools.cached_property
    def conventions(self) -> NumberConventions | None:
        """The range of the user's training file; None if settings give one."""
        own = self.own
        if own is None or own.has_range:
            return None
        flags = "own.min_value and own.max_value"
        if "train" not in self.splits:
            raise errors.DataError(
                "A regression needs the range of its numbers. Received: no "
                f"training file. Give own.train_file, or {flags}."
            )
        numbers = [example.label for example in self.read_split("train")]
        low, high = min(numbers), max(numbers)
        if low == high:
            expected = f"different numbers in column {own.label_column!r}"
            raise files.unexpected(own.train_file, expected, low)
        return NumberConventions(low, high)

    @property
    def bounds(self) -> tuple[float, float]:
        """The numbers that outputs of 0 and of 1 mean."""
        source = self.conventions or self
        return source.min_value, source.max_value

    @classmethod
    def recognizes(cls, frame: Any, own: base.OwnSettings) -> str:
        """Returns the reason why a frame's labels are numbers, or ""."""
        labels = frame.get(own.label_column, ())
        numbers = cells.find_numbers(labels)
        is_whole = all(number.is_integer() for number in numbers)
        if not numbers or own.question_column in frame:
            return ""
        if is_whole and labels.dtype.kind != "f":
            return ""
        return f"{own.label_column!r} holds numbers that are not classes"

    def parse_label(self, record: files.Record, own: base.OwnSettings) -> float:
        """Reads the number of a row."""
        bounds = (own.min_value, own.max_value) if own.has_range else ()
        return cells.read_number(record, own.label_column, *bounds)

    def parse_labels(
        self, records: Sequence[files.Record], own: base.OwnSettings
    ) -> list[float]:
        """Reads the numbers of all rows."""
        if not own.has_range:
            cells.refuse_thousands(records, own.label_column)
        return super().parse_labels(records, own)

    def describe_labels(self, examples: Mapping[str, Examples]) -> list[str]:
        """Returns lines about the range, the unit of errors, a baseline."""
        low, high = self.bounds
        source = "set" if self.conventions is None else "of the training file"
        lines = [
            f"Numbers from {low:g} to {high:g} are learned, the range {source}."
            " mae is in their unit, mse in its square."
        ]
        guess = None  # the mean of the first split, `train`
        for split, rows in examples.items():
            numbers: Any = [e.label for e in rows if e.label is not None]
            if numbers:
                guess = np.mean(numbers) if guess is None else guess
                error = np.abs(np.array(numbers) - guess).mean()
                lines.append(
                    f"{split}: {min(numbers):g} to {max(numbers):g}, "
                    f"{len({*numbers}):,} different; always saying {guess:.4g} "
                    f"has mae {error:.4g}."
                )
        return lines

    def score(self, examples: Examples, predictions: Any) -> dict:
        """Computes the metrics; errors are in the unit of a user's numbers."""
        scores = super().score(examples, predictions)
        if self.own is not None:
            low, high = self.bounds
            units = {"mse": (high - low) ** 2, "mae": high - low}
            scores |= {n: scores[n] * units[n] for n in units if n in scores}
        return scores

    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Scales the outputs to the task's range."""
        low, high = self.bounds
        return {"score": low + outputs["prediction"] * (high - low)}

    def decode(
        self, examples: Examples, rows: base.Rows, outputs: base.Outputs
    ) -> np.ndarray:
        """Returns the number of every example, `[N]` float64."""
        scaled = np.asarray(outputs["prediction"], np.float64).reshape(-1)
        return self.answer({"prediction": tf.constant(scaled)})["score"].numpy()

    def list_predictions(self, examples: Examples, predictions: Any) -> Any:
        """Returns the number of each text."""
        return predictions.round(6).tolist()

    def targets(self, examples: Examples) -> np.ndarray:
        """Scales the labels to 0..1, `[N]`."""
        labels = (example.label for example in examples)
        numbers = [self.bounds[0] if n is None else n for n in labels]
        return self.to_targets(np.asarray(numbers, np.float64))

    def to_targets(self, predictions: np.ndarray) -> np.ndarray:
        """Scales predicted numbers to 0..1."""
        low, high = self.bounds
        return (predictions - low) / (high - low)

    def format_predictions(
        self, predictions: np.ndarray
    ) -> text_task.WrittenPredictions:
        """Formats the numbers; clips those for GLUE to the range."""
        inside = np.clip(predictions, *self.bounds)
        columns = {"prediction": [f"{number:.6f}" for number in predictions]}
        answers = [f"{number:.3f}" for number in inside]
        return text_task.WrittenPredictions(columns, answers)

    def describe_export(self) -> dict[str, float]:
        """Returns the range that the head learned."""
        return dict(zip(("min_value", "max_value"), self.bounds, strict=True))

    @classmethod
    def read_prediction(
        cls, metadata: Any, texts: base.Texts, row: base.Row
    ) -> NumberPrediction:
        """Returns the number of a text."""
        return NumberPrediction(float(row["score"]), int(row["num_truncated"]))

    @classmethod
    def show_prediction(
        cls, prediction: NumberPrediction, metadata: Any, texts: base.Texts
    ) -> list[str]:
        """Returns a line with the number and the range of training."""
        span = f"{metadata.min_value:g} to {metadata.max_value:g}"
        return [f"{prediction.value:.3f} (trained on {span})"]

    def options(self, conventions: Any = None) -> RegressionOptions:
        """Returns the range as options."""
        low, high = map(float, self.bounds)
        return RegressionOptions((low, high))

    @classmethod
    def card_note(cls, options: RegressionOptions) -> str:
        """Returns comments on the unit of the answers of transformers."""
        low, high = options.regression_value_range
        return (
            '\n# With function_to_apply="none" a score of 0 means '
            f"{low:g}, and 1 means {high:g}."
        )

    @classmethod
    def restore_settings(cls, options: RegressionOptions, layers: Any) -> dict:
        """Returns the range as settings."""
        low, high = options.regression_value_range
        return {"own": {"min_value": low, "max_value": high}}
