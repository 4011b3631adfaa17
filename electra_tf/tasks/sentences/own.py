"""A user's own texts with classes, numbers or choices (section `own`)."""

import functools
import json
import string
from collections.abc import Callable, Sequence
from typing import Any

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.modeling import task_heads
from electra_tf.tasks import files
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import scores
from electra_tf.tasks.sentences.comparisons import ComparisonTask
from electra_tf.tasks.sentences.task import ClassificationTask
from electra_tf.tasks.sentences.task import Example
from electra_tf.tasks.sentences.task import MultilabelTask
from electra_tf.tasks.sentences.task import RegressionTask
from electra_tf.tasks.sentences.task import TextTask

NAME = "own"

_Settings = finetuning_config.OwnTaskConfig
# What a row's label becomes; raises `DataError`.
_ParseLabel = Callable[[files.Record], Any]


class OwnClassificationTask(ClassificationTask):
    """Classes of a user's own.

    `labels` are empty where only a trained model knows them, see `use_labels`.
    """

    def __init__(self, settings: _Settings) -> None:
        labels = _find_labels(settings)
        readers = _make_readers(settings, self._parse_label)
        super().__init__(NAME, readers, labels)
        self.settings = settings
        self.use_labels(labels)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a trained model, whatever the files hold."""
        self.labels = tuple(labels)
        known = list(self.known_metrics)
        if len(labels) > 2 and "f1" in known:
            # It is about one class of two.
            known.remove("f1")
        self.use_metrics(_order_metrics(self.settings, known))

    def _parse_label(self, record: files.Record) -> Any:
        names = _list_labels(self.settings, record)
        for label in names:
            if label not in self.labels:
                hint = schema.suggest(label, self.labels)
                remedy = "Repair the row, or set --config.own.labels."
                raise files.unexpected(
                    record.place, "one of the labels", label, f"{hint} {remedy}"
                )
        return names if self.settings.kind == "multilabel" else names[0]

    def new_head(self, **kwargs: Any) -> task_heads.TaskHead:
        """Creates the head, once the labels are known."""
        if not self.labels:
            raise errors.DataError(
                "Expected the labels of your own task. Received: none. Give "
                "--config.own.train_file=FILE, or --config.own.labels=A,B."
            )
        return super().new_head(**kwargs)


class OwnMultilabelTask(OwnClassificationTask, MultilabelTask):
    """Labels of a user's own, any number for each text."""


def build_task(settings: finetuning_config.FinetuningConfig) -> TextTask:
    """Builds the task with texts that `own` describes."""
    own = settings.own
    task: TextTask
    if own.kind in scores.COMPARISON_METRICS:
        return _build_comparison(own)
    if own.kind == "regression":
        parse = functools.partial(_parse_number, own)
        metrics = _order_metrics(own, list(scores.REGRESSION_METRICS))
        bounds = own.min_value, own.max_value
        task = RegressionTask(NAME, _make_readers(own, parse), *bounds, metrics)
    elif own.kind == "multilabel":
        task = OwnMultilabelTask(own)
        task.threshold, task.separator = own.threshold, own.label_separator
    else:
        task = OwnClassificationTask(own)
    task.has_pairs = bool(own.text_pair_column)
    return task


def _build_comparison(own: _Settings) -> ComparisonTask:
    is_ranking = own.kind == "ranking"
    schema.require(
        is_ranking == bool(own.text_pair_column) and own.min_value >= 0,
        "Ranking needs `own.text_pair_column`, the text that is ranked, and "
        "`own.min_value` of 0 or more; multiple choice has `own.choices_column`"
        f" instead. Received: {own.text_pair_column!r} for {own.kind}.",
    )
    parse = _parse_number if is_ranking else _parse_choice
    readers = _make_readers(own, functools.partial(parse, own))
    metrics = _order_metrics(own, list(scores.COMPARISON_METRICS[own.kind]))
    return ComparisonTask(NAME, readers, own.kind, metrics, own.max_choices)


def _make_readers(own: _Settings, parse: _ParseLabel) -> task_lib.Readers:
    return {
        split: functools.partial(read_examples, own, split, parse)
        for split in own.files
    }


def read_examples(
    settings: _Settings, split: str, parse_label: _ParseLabel
) -> list[Example]:
    """Reads a user's file; labels of the test file may be empty, or absent."""
    path, label = storage.path(settings.files[split]), settings.label_column
    texts = [settings.text_column, settings.text_pair_column]
    if settings.kind == "multiple_choice":
        texts = [settings.text_column, *_choice_columns(settings)]
    columns = [name for name in (*texts, settings.id_column) if name]
    if split != "test":
        columns.append(label)
    records = files.read_table(path, settings.file_format, columns, [label])
    has_labels = split != "test" or any(
        record.values.get(label) not in (None, "") for record in records
    )
    try:
        examples = [
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
    is_ranking = settings.kind == "ranking" and split != "test"
    if is_ranking and not any(example.label for example in examples):
        raise files.unexpected(path, f"more than 0 in a row's {label!r}")
    if settings.kind == "multiple_choice":
        return _expand_choices(settings, records, examples)
    return examples


def _example(settings: _Settings, record: files.Record, number: int) -> Example:
    text, pair = record.text(settings.text_column), None
    if settings.text_pair_column:
        pair = record.text(settings.text_pair_column)
    if not text.strip() and not (pair or "").strip():
        expected = f"a text in column {settings.text_column!r}"
        raise files.unexpected(record.place, expected, text, "Remove the row.")
    column = settings.id_column
    eid: int | str = number
    if column:
        eid = _in_one_line(record, column, record.values[column])
    elif settings.kind == "ranking":
        eid = " ".join(text.split())
    return Example(eid, text, pair)


def _expand_choices(
    own: _Settings, records: list[files.Record], examples: list[Example]
) -> list[Example]:
    """An example of each choice; the right one has the label 1, others 0."""
    found, known = [], set[int | str]()
    for record, example in zip(records, examples, strict=True):
        if example.eid in known:
            expected = f"an id of its own in column {own.id_column!r}"
            raise files.unexpected(record.place, expected, str(example.eid))
        known.add(example.eid)
        for place, choice in enumerate(_list_choices(own, record)):
            label = None if example.label is None else place == example.label
            found.append(example._replace(pair=choice, label=label))
    return found


def _list_choices(own: _Settings, record: files.Record) -> list[str]:
    """The choices of a row: those of a list, or its first filled cells."""
    cells = [record.values[name] for name in _choice_columns(own)]
    if len(cells) == 1 and isinstance(cells[0], list):
        cells = cells[0]
    texts = [cell if isinstance(cell, str) else "" for cell in cells]
    count = sum(bool(text.strip()) for text in texts)
    if count < 2 or not all(text.strip() for text in texts[:count]):
        expected = f"two or more texts in {own.choices_column!r}, none empty"
        remedy = "Repair the row; --config.own.choices_column names columns."
        raise files.unexpected(record.place, expected, str(cells), remedy)
    return texts[:count]


def _choice_columns(own: _Settings) -> list[str]:
    return [name.strip() for name in own.choices_column.split(",")]


def _parse_choice(own: _Settings, record: files.Record) -> int:
    """The place of the right choice: a number from 0, or a letter from A."""
    name = str(record.values.get(own.label_column)).strip()
    count, letters = len(_list_choices(own, record)), string.ascii_uppercase
    places = {letter: place for place, letter in enumerate(letters)}
    place = int(name) if name.isdecimal() else places.get(name, -1)
    if not 0 <= place < count:
        expected = (
            f"the right one of {count} choices in {own.label_column!r}, "
            f"as 0 to {count - 1} or A to {letters[:count][-1]}"
        )
        remedy = "Count from 0, or repair the row."
        raise files.unexpected(record.place, expected, name, remedy)
    return place


def _in_one_line(record: files.Record, column: str, value: Any) -> str:
    """A name or label as text: JSON may hold numbers and truth values too."""
    name = value if isinstance(value, str) else json.dumps(value)
    if set(name) & set("\t\r\n"):
        # Predictions are written with it, in a table with tabs.
        expected = f"no tabs and line ends in column {column!r}"
        raise files.unexpected(record.place, expected, name)
    return name


def _list_labels(own: _Settings, record: files.Record) -> tuple[str, ...]:
    """The label of a row; of multi-label classification any number."""
    values = [record.values.get(own.label_column)]
    if own.kind == "multilabel" and isinstance(values[0], list):
        values = values[0]
    elif own.kind == "multilabel":
        cell = "" if values[0] is None else str(values[0])
        parts = map(str.strip, cell.split(own.label_separator))
        values = list(filter(None, parts))
    for value in values:
        if isinstance(value, list | dict | None) or not str(value).strip():
            raise files.unexpected(record.place, "a label", value)
    names = (_in_one_line(record, own.label_column, v) for v in values)
    return tuple(dict.fromkeys(names))


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
    path, column = storage.path(own.train_file), own.label_column
    records = files.read_table(path, own.file_format, [column])
    names = {name for record in records for name in _list_labels(own, record)}
    labels = tuple(sorted(names))
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
