"""Tasks with one answer for a text or a pair of texts.

Where the examples come from is not their affair: a source reads them, from
the files of GLUE (`glue_source`) or a user's own (`own`).
"""

import abc
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import Protocol

import keras
import numpy as np
import tensorflow as tf

from electra_tf.modeling import task_heads
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import packing
from electra_tf.text import tokenizer as tokenizer_lib


class Example(NamedTuple):
    """One text or pair of texts.

    Attributes:
        eid: its number in the file, from 0; or the user's own name for it.
        text: the first text.
        pair: the second one, or None.
        label: the class's name, or the number; None where it is not told.
    """

    eid: int | str
    text: str
    pair: str | None = None
    label: str | float | None = None


class Source(Protocol):
    """Where the examples of a task are."""

    splits: tuple[str, ...]
    dev_splits: tuple[str, ...]

    def read(self, split: str) -> Sequence[Example]:
        """The examples of a split, in the order of the file."""


class TextTask(task_lib.Task):
    """What classification and regression have in common.

    Args:
        name: of the catalog; variable scope of the head.
        source: of the examples.
        metrics: what `score` computes; the first decides.
        is_unordered: whether pairs are learned in both orders.
        num_train_epochs: unless a config says otherwise.
        has_pairs: whether texts come in pairs.
    """

    head_output: str
    """The output of the head that `answer` reads."""

    def __init__(
        self,
        name: str,
        source: Source,
        metrics: Sequence[str],
        is_unordered: bool,
        num_train_epochs: float,
        has_pairs: bool,
    ) -> None:
        self.name = name
        self.source = source
        self.metrics = tuple(metrics)
        self.metric = self.metrics[0]
        self.is_unordered = is_unordered
        self.num_train_epochs = num_train_epochs
        self.has_pairs = has_pairs
        self.splits = source.splits
        self.dev_splits = source.dev_splits
        # Models of Hugging Face's have one; `task.hidden_layer`.
        self.has_hidden_layer = False

    def read(self, split: str) -> Sequence[Example]:
        """The examples of a split, in the order of the file."""
        return self.source.read(split)

    def build_rows(
        self,
        examples: Sequence[Example],
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> rows_lib.Rows:
        """One row for each example; to learn from unordered pairs, two."""
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
        """The task's head, built, with weights drawn from `seed`."""
        head = self._new_head(
            seed,
            has_hidden_layer=self.has_hidden_layer,
            name=self.name,
            dtype=dtype,
        )
        with keras.name_scope("task_specific"):
            head.build((None, None, hidden_size))
        return head

    @abc.abstractmethod
    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Reads answers off the head's output, in Python or in a graph.

        Args:
            outputs: of the head, `head_output` among them, `[B, ...]`.
        """

    @abc.abstractmethod
    def _new_head(self, seed: int, **kwargs: Any) -> task_heads.TaskHead:
        """The head, without weights."""

    @abc.abstractmethod
    def _columns(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        """What the head learns from; zeros where it is not told."""

    def has_labels(self, examples: Sequence[Example]) -> bool:
        """Whether all examples tell their label."""
        return all(example.label is not None for example in examples)

    def require_labels(self, examples: Sequence[Example]) -> None:
        """Raises `ValueError` for examples whose labels are not told."""
        for example in examples:
            if example.label is None:
                raise ValueError(
                    f"Expected examples of {self.name} with labels to score. "
                    f"Received: number {example.eid!r} without one. Score "
                    f"{' or '.join(self.dev_splits) or 'labelled data'}."
                )


def add_swapped(examples: Sequence[Example]) -> list[Example]:
    """Every pair, followed by the same pair in the other order.

    The numbers of the others go on where those of the examples end.
    """
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
