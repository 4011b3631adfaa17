"""A user's own texts with classes or numbers, by flags (section `own`)."""

import functools
import json
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import files
from electra_tf.tasks.sentences import scores
from electra_tf.tasks.sentences.task import ClassificationTask
from electra_tf.tasks.sentences.task import Example
from electra_tf.tasks.sentences.task import RegressionTask
from electra_tf.tasks.sentences.task import TextTask

NAME = "own"

_Settings = finetuning_config.OwnTaskConfig
# What a row's label becomes; raises `DataError`.
_ParseLabel = Callable[[files.Record], str | float]


class OwnClassificationTask(ClassificationTask):
    """Classes of a user's own.

    `labels` are empty where only a trained model knows them, see `use_labels`.
    """

    def __init__(self, settings: _Settings, labels: Sequence[str]) -> None:
        parse = self._parse_label
        readers = {
            split: functools.partial(read_examples, settings, split, parse)
            for split in settings.files
        }
        super().__init__(NAME, readers, labels)
        self.settings = settings
        self.use_labels(labels)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a trained model, whatever the files hold."""
        self.labels = tuple(labels)
        known = list(scores.CLASSIFICATION_METRICS)
        if len(labels) > 2:
            # It is about one class of two.
            known.remove("f1")
        self.use_metrics(_order_metrics(self.settings, known))

    def _parse_label(self, record: files.Record) -> str:
        label = _label_name(record, self.settings.label_column)
        if label not in self.labels:
            hint = schema.suggest(label, self.labels)
            remedy = "Repair the row, or set --config.own.labels."
            raise files.unexpected(
                record.place, "one of the labels", label, f"{hint} {remedy}"
            )
        return label

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head, once the labels are known."""
        if not self.labels:
            raise errors.DataError(
                "Expected the labels of your own task. Received: neither "
                "own.labels nor own.train_file. Set one of them."
            )
        return super().new_head(**kwargs)


def build_task(settings: finetuning_config.FinetuningConfig) -> TextTask:
    """Builds the classification or regression that `own` describes."""
    own = settings.own
    task: TextTask
    if own.kind == "classification":
        task = OwnClassificationTask(own, _find_labels(own))
    else:
        parse = functools.partial(_parse_number, own)
        readers = {
            split: functools.partial(read_examples, own, split, parse)
            for split in own.files
        }
        metrics = _order_metrics(own, list(scores.REGRESSION_METRICS))
        bounds = own.min_value, own.max_value
        task = RegressionTask(NAME, readers, *bounds, metrics)
    task.has_pairs = bool(own.text_pair_column)
    return task


def read_examples(
    settings: _Settings, split: str, parse_label: _ParseLabel
) -> list[Example]:
    """Reads a user's file; labels of the test file may be empty, or absent."""
    path, label = Path(settings.files[split]), settings.label_column
    texts = [settings.text_column, settings.text_pair_column]
    columns = [name for name in (*texts, settings.id_column) if name]
    if split != "test":
        columns.append(label)
    records = files.read_table(path, settings.file_format, columns, [label])
    has_labels = split != "test" or any(
        record.values.get(label) not in (None, "") for record in records
    )
    try:
        return [
            _example(settings, record, number)._replace(
                label=parse_label(record) if has_labels else None
            )
            for number, record in enumerate(records)
        ]
    except errors.DataError as error:
        if split != "test" or not has_labels:
            raise
        raise errors.DataError(
            f"{error} (To predict a test file without scores, leave all of "
            f"its column {label!r} empty.)"
        ) from error


def _example(settings: _Settings, record: files.Record, number: int) -> Example:
    text, pair = record.text(settings.text_column), None
    if settings.text_pair_column:
        pair = record.text(settings.text_pair_column)
    if not text.strip() and not (pair or "").strip():
        expected = f"a text in column {settings.text_column!r}"
        raise files.unexpected(record.place, expected, text, "Remove the row.")
    column = settings.id_column
    eid = _in_one_line(record, column) if column else number
    return Example(eid, text, pair)


def _in_one_line(record: files.Record, column: str) -> str:
    """A name or label as text: JSON may hold numbers and truth values too."""
    value = record.values.get(column)
    name = value if isinstance(value, str) else json.dumps(value)
    if set(name) & set("\t\r\n"):
        # Predictions are written with it, in a table with tabs.
        expected = f"no tabs and line ends in column {column!r}"
        raise files.unexpected(record.place, expected, name)
    return name


def _label_name(record: files.Record, column: str) -> str:
    value = record.values.get(column)
    if isinstance(value, list | dict | None) or not str(value).strip():
        raise files.unexpected(record.place, "a label", value)
    return _in_one_line(record, column)


def _parse_number(settings: _Settings, record: files.Record) -> float:
    value = record.values.get(settings.label_column)
    low, high = settings.min_value, settings.max_value
    number = files.parse_number(value)
    if not low <= number <= high:
        expected = f"a number from {low} to {high} as {settings.label_column!r}"
        remedy = (
            "Repair the row, or set --config.own.min_value and "
            "--config.own.max_value."
        )
        raise files.unexpected(record.place, expected, value, remedy)
    return number


def _find_labels(own: _Settings) -> tuple[str, ...]:
    """The labels that the config lists, or those of the training file."""
    labels = own.label_names
    if own.labels and (len(labels) < 2 or len(set(labels)) < len(labels)):
        raise errors.DataError(
            "`own.labels` must list two or more different labels between "
            f"commas. Received: {own.labels!r}."
        )
    if labels or not own.train_file:
        return labels
    path, column = Path(own.train_file), own.label_column
    records = files.read_table(path, own.file_format, [column])
    labels = tuple(sorted({_label_name(record, column) for record in records}))
    if len(labels) < 2:
        expected = f"at least two labels in column {column!r}"
        raise files.unexpected(path, expected, list(labels))
    return labels


def _order_metrics(own: _Settings, known: list[str]) -> list[str]:
    """All metrics, the one that decides first."""
    if own.metric and own.metric not in known:
        raise ValueError(
            f"`own.metric` must be a metric of this {own.kind}. Received: "
            f"{own.metric!r}. {schema.suggest(own.metric, known)}"
        )
    first = own.metric or known[0]
    return [first, *(name for name in known if name != first)]
