"""Tasks that ask for the class of a text or of a pair of texts."""

import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import confusion
from electra_tf.tasks.sentences import scores
from electra_tf.tasks.sentences import submissions
from electra_tf.tasks.sentences import text_task


class ClassPredictions(NamedTuple):
    """What a classifier says of N examples.

    Attributes:
        classes: `[N]` int32, the likeliest ones.
        probabilities: `[N, C]` float64.
    """

    classes: np.ndarray
    probabilities: np.ndarray


class ClassificationTask(text_task.TextTask):
    """One class for a text or a pair of texts.

    Args:
        name: of the catalog; variable scope of the head.
        source: of the examples.
        labels: names of the classes; what is predicted is an index of them.
        metrics: names in `scores.CLASSIFICATION_METRICS`; the first decides.
        is_unordered: whether pairs are learned in both orders.
        num_train_epochs: unless a config says otherwise.
        has_pairs: whether texts come in pairs.
    """

    kind = "classification"
    head_output = "logits"

    def __init__(
        self,
        name: str,
        source: text_task.Source,
        labels: Sequence[str],
        metrics: Sequence[str] = ("accuracy",),
        is_unordered: bool = False,
        num_train_epochs: float = 3.0,
        has_pairs: bool = False,
    ) -> None:
        super().__init__(
            name, source, metrics, is_unordered, num_train_epochs, has_pairs
        )
        self._set_labels(labels)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a trained model, in its order.

        Raises:
            ValueError: if they are not the task's.
        """
        if set(labels) != set(self.labels):
            raise ValueError(
                f"Expected a model of {self.name} with the labels "
                f"{', '.join(self.labels)}. Received one with "
                f"{', '.join(labels)}. Name the task that it was trained on."
            )
        self._set_labels(labels)

    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The likeliest label of each text, and all probabilities."""
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
        examples: Sequence[text_task.Example],
        rows: rows_lib.Rows,
        outputs: task_lib.Outputs,
    ) -> ClassPredictions:
        """The likeliest class of every example, and all probabilities."""
        del examples, rows
        logits = np.asarray(outputs["logits"], np.float64)
        logits = logits.reshape(-1, len(self.labels))
        answer = self.answer({"logits": tf.constant(logits)})
        return ClassPredictions(
            answer["label_index"].numpy(), answer["probabilities"].numpy()
        )

    def score(
        self,
        examples: Sequence[text_task.Example],
        predictions: ClassPredictions,
    ) -> dict:
        """The task's metrics, in percent.

        Raises:
            ValueError: if the examples have no labels.
        """
        self.require_labels(examples)
        return scores.compute_scores(
            scores.CLASSIFICATION_METRICS,
            self.metrics,
            self._classes(examples),
            predictions.classes,
        )

    def is_degenerate(
        self,
        examples: Sequence[text_task.Example],
        predictions: ClassPredictions,
    ) -> bool:
        """Whether all examples were given one class, and there are several."""
        return len(examples) > 1 and np.ptp(predictions.classes) == 0

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Sequence[text_task.Example],
        predictions: ClassPredictions,
    ) -> list[pathlib.Path]:
        """Writes a table, what GLUE takes, and a picture if labels are told."""
        ids = [example.eid for example in examples]
        paths = [
            submissions.write_classes(
                folder / f"{split}_predictions.tsv",
                ids,
                self.labels,
                predictions.classes,
                predictions.probabilities,
            )
        ]
        names = [self.labels[index] for index in predictions.classes]
        paths += submissions.write_glue(folder, self.name, split, ids, names)
        if examples and self.has_labels(examples):
            counts = confusion.count(
                self._classes(examples), predictions.classes, len(self.labels)
            )
            paths.append(
                confusion.draw(
                    folder / f"{split}_confusion.png",
                    counts,
                    self.labels,
                    f"{self.name}, {split}: {len(examples):,} examples, "
                    f"{counts.trace() / len(examples):.1%} right",
                )
            )
        return paths

    def _new_head(self, seed: int, **kwargs: Any) -> task_heads.TaskHead:
        return task_heads.ClassificationHead(len(self.labels), seed, **kwargs)

    def _columns(
        self, examples: Sequence[text_task.Example]
    ) -> dict[str, np.ndarray]:
        return {"label": self._classes(examples)}

    def _set_labels(self, labels: Sequence[str]) -> None:
        self.labels = tuple(labels)
        self._index: dict[Any, int] = {
            label: place for place, label in enumerate(self.labels)
        }

    def _classes(self, examples: Sequence[text_task.Example]) -> np.ndarray:
        """Indices of the labels, `[N]` int32; 0 where there is none."""
        index = self._index | {None: 0}
        return np.array([index[e.label] for e in examples], np.int32)
