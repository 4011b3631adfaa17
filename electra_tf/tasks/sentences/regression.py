"""Tasks that ask for a number for a text or a pair of texts."""

import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import scores
from electra_tf.tasks.sentences import submissions
from electra_tf.tasks.sentences import text_task

# Predictions that differ by less, as a share of the range, say nothing:
# rounding in batches of other lengths moves them too.
_LEAST_SPREAD = 1e-3


class RegressionTask(text_task.TextTask):
    """One number for a text or a pair of texts.

    The head learns the place in a range, 0 to 1. Predictions are in the
    task's own unit, and not cut to the range. The mean squared error is that
    of the places, as in the original.

    Args:
        name: of the catalog; variable scope of the head.
        source: of the examples.
        min_value: least number.
        max_value: largest number.
        metrics: names in `scores.REGRESSION_METRICS`; the first decides.
        is_unordered: whether pairs are learned in both orders.
        num_train_epochs: unless a config says otherwise.
        has_pairs: whether texts come in pairs.
    """

    kind = "regression"
    head_output = "prediction"
    lower_is_better = scores.LOWER_IS_BETTER

    def __init__(
        self,
        name: str,
        source: text_task.Source,
        min_value: float,
        max_value: float,
        metrics: Sequence[str] = ("spearman", "pearson", "mse"),
        is_unordered: bool = False,
        num_train_epochs: float = 3.0,
        has_pairs: bool = False,
    ) -> None:
        super().__init__(
            name, source, metrics, is_unordered, num_train_epochs, has_pairs
        )
        self.min_value = min_value
        self.max_value = max_value

    def describe_export(self) -> dict[str, float]:
        """The range that the head learned."""
        return {"min_value": self.min_value, "max_value": self.max_value}

    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The number of each text, in the task's own range."""
        scale = self.max_value - self.min_value
        return {"score": self.min_value + outputs["prediction"] * scale}

    def decode(
        self,
        examples: Sequence[text_task.Example],
        rows: rows_lib.Rows,
        outputs: task_lib.Outputs,
    ) -> np.ndarray:
        """The number of every example, `[N]` float64."""
        del examples, rows
        places = np.asarray(outputs["prediction"], np.float64).reshape(-1)
        return self.answer({"prediction": tf.constant(places)})["score"].numpy()

    def score(
        self, examples: Sequence[text_task.Example], predictions: np.ndarray
    ) -> dict:
        """The task's metrics, correlations in percent.

        Raises:
            ValueError: if the examples have no labels.
        """
        self.require_labels(examples)
        return scores.compute_scores(
            scores.REGRESSION_METRICS,
            self.metrics,
            self._places([float(e.label or 0) for e in examples]),
            self._places(predictions),
        )

    def is_degenerate(
        self, examples: Sequence[text_task.Example], predictions: np.ndarray
    ) -> bool:
        """Whether all examples were given one number, and there are several."""
        spread = np.ptp(self._places(predictions)) if len(examples) else 0.0
        return len(examples) > 1 and bool(spread < _LEAST_SPREAD)

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Sequence[text_task.Example],
        predictions: np.ndarray,
    ) -> list[pathlib.Path]:
        """Writes a table, and what GLUE takes."""
        ids = [example.eid for example in examples]
        path = folder / f"{split}_predictions.tsv"
        shown = submissions.format_scores(
            predictions, self.min_value, self.max_value
        )
        return [
            submissions.write_numbers(path, ids, predictions),
            *submissions.write_glue(folder, self.name, split, ids, shown),
        ]

    def _new_head(self, seed: int, **kwargs: Any) -> task_heads.TaskHead:
        return task_heads.RegressionHead(seed, **kwargs)

    def _columns(
        self, examples: Sequence[text_task.Example]
    ) -> dict[str, np.ndarray]:
        numbers = [
            self.min_value if e.label is None else float(e.label)
            for e in examples
        ]
        return {"target": self._places(numbers).astype(np.float32)}

    def _places(self, numbers: Sequence[float] | np.ndarray) -> np.ndarray:
        """Numbers scaled to the range, `[N]` float64."""
        scale = self.max_value - self.min_value
        return (np.asarray(numbers, np.float64) - self.min_value) / scale
