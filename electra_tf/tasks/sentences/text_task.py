"""The base class of tasks with one answer for a text or a pair of texts."""

import abc
import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.tasks import base
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks import rows as rows_lib
from electra_tf.text import tokenizer as tokenizer_lib

LEAST_SPREAD = 1e-3
"""Predictions that differ by less, as a share of their range, count as equal:
rounding changes them as much between batches of different lengths."""

Metric = Callable[[Any, Any], float]


class Example(NamedTuple):
    """One text or pair of texts."""

    # Number in the file, from 0, or the user's id. In multiple choice and
    # ranking all texts of a group have the id of the group.
    eid: int | str
    text: str
    pair: str | None = None  # the second text of a pair
    # Label, number or all labels; None if unknown
    label: str | float | tuple[str, ...] | None = None


Examples = Sequence[Example]


class WrittenPredictions(NamedTuple):
    """Predictions as strings, for files."""

    columns: dict[str, list[str]]  # columns of a table
    answers: list[str]  # answers for the GLUE site


class TextTask(base.Task):
    """A task with one answer for a text or a pair of texts."""

    takes_hidden_layer = True
    hugging_face = "ElectraForSequenceClassification"
    head_class: Any  # a head with one column
    head_output = "prediction"  # the output of the head that `answer` reads
    known_metrics: Mapping[str, Metric]
    texts_are_names = False  # whether rows with equal first texts are a group
    is_unordered = False  # whether pairs are learned in both orders
    own: base.OwnSettings | None = None  # settings of a user's files
    # Split to the file in which the GLUE site expects its predictions
    submissions: Mapping[str, str] = {}

    def use_own(self, own: base.OwnSettings) -> None:
        """Sets the section `own` and readers of its files."""
        self.own = own
        self.has_pairs = self.has_pairs or bool(own.text_pair_column)
        read = functools.partial(_read_own, self, own)
        self.use_readers({s: functools.partial(read, s) for s in own.files})

    def use_metrics(self, metrics: Sequence[str]) -> None:
        """Sets the metrics; `own.metric`, or else the first, ranks trials."""
        chosen = self.own.metric if self.own else ""
        if self.own and chosen and chosen not in metrics:
            raise ValueError(
                f"`own.metric` must be a metric of this {self.own.kind}. "
                f"Received: {chosen!r}. {schema.suggest(chosen, metrics)}"
            )
        self.metrics = tuple(sorted(metrics, key=lambda name: name != chosen))
        self.metric = self.metrics[0]

    def parse_label(self, record: files.Record, own: base.OwnSettings) -> Any:
        """Reads the label of a row of a user's file; raises `DataError`."""
        raise NotImplementedError

    def parse_labels(
        self, records: Sequence[files.Record], own: base.OwnSettings
    ) -> list[Any]:
        """Reads the labels of all rows of a user's file."""
        return [self.parse_label(record, own) for record in records]

    def text_columns(self, own: base.OwnSettings) -> list[str]:
        """Lists the columns of a user's file that hold texts."""
        return [n for n in (own.text_column, own.text_pair_column) if n]

    def expand(
        self, record: files.Record, example: Example, own: base.OwnSettings
    ) -> list[Example]:
        """Returns the examples of one row of a user's file."""
        return [example]

    @classmethod
    def describe_frame(cls, frame: Any, own: Mapping[str, Any]) -> dict:
        """Returns the setting of the second text, if a frame has one."""
        super().describe_frame(frame, own)
        has_pairs = "text_pair" in frame and not own["text_pair_column"]
        return {"text_pair_column": "text_pair"} if has_pairs else {}

    def build_rows(
        self,
        examples: Examples,
        tokenizer: tokenizer_lib.Tokenizer,
        max_seq_length: int,
        is_training: bool,
    ) -> base.Rows:
        """Builds a row for each example; two for unordered training pairs."""
        numbers = np.arange(len(examples), dtype=np.int32)
        if is_training and self.is_unordered:
            examples = add_swapped(examples)
            numbers = np.repeat(numbers, 2)
        texts = [example.text for example in examples]
        pairs = [example.pair for example in examples]
        ((name, column),) = self.head_class.columns.items()
        columns = {name: self.targets(examples).astype(column.dtype)}
        return rows_lib.pack_split(
            texts, pairs, tokenizer, max_seq_length, numbers, columns
        )

    @abc.abstractmethod
    def answer(self, outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Computes answers from the head's `[B, ...]` outputs."""

    def has_labels(self, examples: Examples) -> bool:
        """Returns whether all examples have labels."""
        return all(example.label is not None for example in examples)

    def score(self, examples: Examples, predictions: Any) -> dict:
        """Computes the task's metrics."""
        pair = self.targets(examples), self.to_targets(predictions)
        return {name: self.known_metrics[name](*pair) for name in self.metrics}

    def is_degenerate(self, examples: Examples, predictions: Any) -> bool:
        """Returns whether several examples all have the same prediction."""
        if len(examples) < 2:
            return False
        spreads = np.ptp(self.to_targets(predictions), axis=0)
        return bool(np.max(spreads) < LEAST_SPREAD)

    def write_predictions(
        self,
        folder: pathlib.Path,
        split: str,
        examples: Examples,
        predictions: Any,
    ) -> list[pathlib.Path]:
        """Writes a table and, for GLUE, the file that the site takes."""
        columns, answers = self.format_predictions(predictions)
        columns = {"index": [str(e.eid) for e in examples]} | columns
        rows = [list(columns), *zip(*columns.values(), strict=True)]
        path = folder / f"{split}_predictions.tsv"
        paths = [base.write_file(path, map("\t".join, rows))]
        if split in self.submissions:
            eids = [int(example.eid) for example in examples]
            ordered = sorted(zip(eids, answers, strict=True))
            lines = [f"{eid}\t{answer}" for eid, answer in ordered]
            path = folder / self.submissions[split]
            paths.append(base.write_file(path, ["index\tprediction", *lines]))
        return paths

    def build_signatures(self, model: Any) -> Any:
        """Builds an object with the functions of an export's signatures."""
        return _TextSignatures(self, model)

    @abc.abstractmethod
    def targets(self, examples: Examples) -> np.ndarray:
        """Converts labels to numbers, `[N, ...]`; a missing label is 0."""

    @abc.abstractmethod
    def to_targets(self, predictions: Any) -> np.ndarray:
        """Converts predictions to the unit of `targets`."""

    @abc.abstractmethod
    def format_predictions(self, predictions: Any) -> WrittenPredictions:
        """Formats predictions for files."""


class _TextSignatures:
    def __init__(self, task: TextTask, model: Any) -> None:
        self._task = task
        self._model = model

    def answer_text(
        self, texts: tf.Tensor, text_pairs: tf.Tensor | None = None
    ) -> base.Tensors:
        model = self._model
        if text_pairs is not None:
            texts, text_pairs = model.check_pairs(
                texts=texts, text_pairs=text_pairs
            )
        packed = rows_lib.pack_texts(
            model.tokenizer, texts, text_pairs, model.max_length
        )
        return self._answer(*model.pad(packed.ids, packed.segment_starts)) | {
            "num_tokens": tf.cast(packed.ids.row_lengths(), tf.int32),
            "num_truncated": tf.cast(packed.num_truncated, tf.int32),
        }

    def answer_ids(self, **inputs: tf.Tensor) -> base.Tensors:
        return self._answer(*self._model.check_ids(**inputs))

    def _answer(self, *rows: tf.Tensor) -> base.Tensors:
        outputs = [self._task.head_output]
        computed = self._model.apply_head_in_buckets(outputs, *rows)
        return self._task.answer(computed)


def in_percent(function: Callable, **options: Any) -> Metric:
    """Multiplies a metric whose best value is 1 by 100."""
    return lambda targets, predictions: (
        100 * float(function(targets, predictions, **options))
    )


def add_swapped(examples: Sequence[Example]) -> list[Example]:
    """Returns every pair, followed by the pair in the other order."""
    doubled = []
    for example in examples:
        eid, text, pair, label = example
        new_eid = eid + len(examples) if isinstance(eid, int) else eid
        doubled += [example, Example(new_eid, pair or "", text, label)]
    return doubled


def _read_own(task: TextTask, own: base.OwnSettings, split: str) -> Examples:
    """Reads a user's table; a test file needs no labels."""
    path, labels = storage.path(own.files[split]), own.label_columns
    columns = task.text_columns(own)
    columns += [own.id_column] * bool(own.id_column)
    columns += labels if split != "test" else ()
    records = files.read_table(path, own.file_format, columns, labels)
    examples = [
        _read_texts(task, own, record, number)
        for number, record in enumerate(records)
    ]
    names = {cells.label_name(r.values.get(n)) for r in records for n in labels}
    # GLUE and other data sets write -1 for an unknown label.
    unknown = {None, "-1"} - {*task.labels}
    is_labelled = split != "test" or not names <= unknown
    try:
        values = task.parse_labels(records, own) if is_labelled else []
    except errors.DataError as error:
        if split != "test":
            raise
        hint = "To predict a test file without scores, leave all of its column"
        column = own.label_column
        raise errors.DataError(f"{error} ({hint} {column!r} empty.)") from error
    for number, value in enumerate(values):
        examples[number] = examples[number]._replace(label=value)
    _check_texts(records, examples, own)
    expanded = []
    eids = set[int | str]()
    for record, example in zip(records, examples, strict=True):
        group = task.expand(record, example, own)
        if len(group) > 1 and example.eid in eids:
            expected = f"an id of its own in column {own.id_column!r}"
            raise files.unexpected(record.place, expected, str(example.eid))
        eids.add(example.eid)
        expanded += group
    return expanded


def _check_texts(
    records: Sequence[files.Record], examples: Examples, own: base.OwnSettings
) -> None:
    """Raises if all texts are lists; warns of texts that may be missing."""
    odd = [r.place for r, e in zip(records, examples, strict=True)
           if {e.text, e.pair} & {*cells.MISSING}]  # fmt: skip
    if odd:
        logging.warning(
            f"{odd[0]}: {len(odd)} texts, such as NA or None, are learned as "
            "words. Remove the rows if they mean that there is no text."
        )
    texts = [str(record.values[own.text_column]) for record in records]
    if all(
        text.startswith(("b'", 'b"'))
        or isinstance(cells.understand(text), list | dict)
        for text in texts
    ):
        expected = f"plain texts in column {own.text_column!r}"
        remedy = (
            "Join the words of a list, take the text out of an object, decode "
            "bytes; own.kind=tagging reads lists of words."
        )
        raise files.unexpected(records[0].place, expected, texts[0], remedy)


def _read_texts(
    task: TextTask, own: base.OwnSettings, record: files.Record, number: int
) -> Example:
    pair = None
    if own.text_pair_column:
        pair = cells.read_text(record, own.text_pair_column, True)
    # One text of a pair may be empty.
    text = cells.read_text(record, own.text_column, bool(pair))
    eid: int | str = number
    if own.id_column:
        eid = cells.read_name(record, own.id_column)
    elif task.texts_are_names:
        eid = " ".join(text.split())
    return Example(eid, text, pair)
