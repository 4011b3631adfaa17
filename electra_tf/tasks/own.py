"""A user's own data as a task, by flags alone (config section `own`)."""

import json
import math
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.modeling import task_heads
from electra_tf.tasks import tables
from electra_tf.tasks import task as task_lib
from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences import regression
from electra_tf.tasks.sentences import scores
from electra_tf.tasks.sentences.text_task import Example

NAME = "own"
# Labels that an error lists.
_MAX_LISTED = 20


class OwnClassificationTask(classification.ClassificationTask):
    """Classes of a user's own.

    Args:
        settings: which files, and their columns.
        labels: those that may occur; empty where only a trained model knows
            them, see `use_labels`.
    """

    def __init__(
        self,
        settings: finetuning_config.OwnTaskConfig,
        labels: Sequence[str],
    ) -> None:
        self.files = OwnFiles(settings, labels)
        metrics = _class_metrics(settings, labels)
        has_pairs = bool(settings.text_pair_column)
        super().__init__(NAME, self.files, labels, metrics, has_pairs=has_pairs)

    def use_labels(self, labels: Sequence[str]) -> None:
        """Takes the labels of a trained model, whatever the files hold."""
        self.files.labels = tuple(labels)
        self.metrics = _class_metrics(self.files.settings, labels)
        self.metric = self.metrics[0]
        self._set_labels(labels)

    def _new_head(self, seed: int, **kwargs: Any) -> task_heads.TaskHead:
        if not self.labels:
            raise errors.DataError(
                "Expected the labels of your own task. Received: neither "
                "own.labels nor own.train_file. Set one of them."
            )
        return super()._new_head(seed, **kwargs)


class OwnFiles:
    """Examples in CSV, TSV or JSON lines files.

    The test file needs no labels: its column of them may be empty, or absent.

    Args:
        settings: which files, and their columns.
        labels: of a classification, those that may occur.
    """

    def __init__(
        self,
        settings: finetuning_config.OwnTaskConfig,
        labels: Sequence[str] = (),
    ) -> None:
        self.settings = settings
        self.labels = tuple(labels)
        self.splits = tuple(settings.files)
        self.dev_splits = tuple(n for n in self.splits if n == "dev")

    def read(self, split: str) -> Sequence[Example]:
        """The examples of a split, in the order of the file.

        Raises:
            FileNotFoundError: if the file is not there.
            DataError: for the first row that is not as expected.
        """
        settings = self.settings
        path = _path_of(settings, split)
        columns = [settings.text_column]
        if settings.text_pair_column:
            columns.append(settings.text_pair_column)
        if settings.id_column:
            columns.append(settings.id_column)
        label = [settings.label_column]
        if split != "test":
            columns, label = columns + label, []
        records = tables.read_table(path, settings.file_format, columns, label)
        has_labels = any(
            record.values.get(settings.label_column) not in (None, "")
            for record in records
        )
        try:
            return [
                self._example(path, record, number, has_labels or not label)
                for number, record in enumerate(records)
            ]
        except errors.DataError as error:
            if not has_labels or not label:
                raise
            raise errors.DataError(
                f"{error} (To predict a test file without scores, leave all of "
                f"its column {settings.label_column!r} empty.)"
            ) from error

    def _example(
        self,
        path: pathlib.Path,
        record: tables.Record,
        number: int,
        has_label: bool,
    ) -> Example:
        settings = self.settings
        text = _text(path, record, settings.text_column)
        pair = None
        if settings.text_pair_column:
            pair = _text(path, record, settings.text_pair_column)
        if not text.strip() and not (pair or "").strip():
            raise errors.DataError(
                f"{path}, line {record.line}: expected a text in column "
                f"{settings.text_column!r}. Received: {text!r}. Remove the row."
            )
        eid: int | str = number
        if settings.id_column:
            eid = _in_one_line(
                path, record, settings.id_column,
                record.values[settings.id_column],
            )  # fmt: skip
        if not has_label:
            return Example(eid, text, pair)
        value = record.values.get(settings.label_column)
        if settings.kind == "regression":
            return Example(eid, text, pair, self._target(path, record, value))
        return Example(eid, text, pair, self._label(path, record.line, value))

    def _label(self, path: pathlib.Path, line: int, value: Any) -> str:
        label = _label_name(path, line, value)
        if label not in self.labels:
            listed = ", ".join(self.labels[:_MAX_LISTED])
            more = len(self.labels) - _MAX_LISTED
            raise errors.DataError(
                f"{path}, line {line}: expected a label out of {listed}"
                f"{f' and {more} more' if more > 0 else ''}. Received: "
                f"{label!r}.{tables.nearest(label, self.labels)} Repair the "
                "row, or list all labels in --config.own.labels."
            )
        return label

    def _target(
        self, path: pathlib.Path, record: tables.Record, value: Any
    ) -> float:
        low, high = self.settings.min_value, self.settings.max_value
        try:
            target = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            target = math.nan
        if not low <= target <= high:
            raise errors.DataError(
                f"{path}, line {record.line}: expected a number from {low} to "
                f"{high} in column {self.settings.label_column!r}. Received: "
                f"{value!r}. Repair the row, or set --config.own.min_value and "
                "--config.own.max_value."
            )
        return target


def build_task(settings: finetuning_config.FinetuningConfig) -> task_lib.Task:
    """The task that the section `own` describes.

    Its test file is scored if it has labels.

    Args:
        settings: of the fine-tuning.

    Raises:
        ValueError: for a metric that the kind has not.
        DataError: if the training file has no labels.
    """
    task = _build_kind(settings)
    task.test_splits = tuple(split for split in task.splits if split == "test")
    return task


def _build_kind(settings: finetuning_config.FinetuningConfig) -> task_lib.Task:
    own = settings.own
    if own.kind == "tagging":
        from electra_tf.tasks.tagging import task as tagging

        return tagging.build_own_task(settings)
    if own.kind == "qa":
        from electra_tf.tasks.question_answering import task as qa

        return qa.build_own_task(settings)
    if own.kind == "regression":
        names = _order_metrics(own, scores.REGRESSION_METRICS)
        return regression.RegressionTask(
            NAME,
            OwnFiles(own),
            own.min_value,
            own.max_value,
            names,
            has_pairs=bool(own.text_pair_column),
        )
    labels = _listed_labels(own)
    if not labels and own.train_file:
        labels = _find_labels(own)
    return OwnClassificationTask(own, labels)


def _path_of(
    settings: finetuning_config.OwnTaskConfig, split: str
) -> pathlib.Path:
    path = settings.files.get(split)
    if not path:
        raise errors.DataError(
            f"Expected a file for the split {split!r} of your own task. "
            f"Received: none. Set --config.own.{split}_file."
        )
    return pathlib.Path(path)


def _find_labels(own: finetuning_config.OwnTaskConfig) -> tuple[str, ...]:
    """The labels of the training file, sorted."""
    path = _path_of(own, "train")
    column = own.label_column
    labels = {
        _label_name(path, record.line, record.values[column])
        for record in tables.read_table(path, own.file_format, [column])
    }
    if len(labels) < 2:
        raise errors.DataError(
            f"{path}: expected at least two labels in column {column!r}. "
            f"Received: {', '.join(map(repr, labels))} alone."
        )
    return tuple(sorted(labels))


def _listed_labels(
    own: finetuning_config.OwnTaskConfig,
) -> tuple[str, ...]:
    """Those of the config, or none."""
    labels = tuple(name.strip() for name in own.labels.split(","))
    labels = tuple(name for name in labels if name)
    if own.labels and (len(labels) < 2 or len(set(labels)) < len(labels)):
        raise errors.DataError(
            "`own.labels` must list two or more different labels between "
            f"commas. Received: {own.labels!r}."
        )
    return labels


def _class_metrics(
    own: finetuning_config.OwnTaskConfig, labels: Sequence[str]
) -> tuple[str, ...]:
    # F1 is about one class of two.
    unfit = ("f1",) if len(labels) > 2 else ()
    known = {
        name: function
        for name, function in scores.CLASSIFICATION_METRICS.items()
        if name not in unfit
    }
    return _order_metrics(own, known)


def _order_metrics(
    own: finetuning_config.OwnTaskConfig, known: Mapping[str, Any]
) -> tuple[str, ...]:
    """All metrics, the one that decides first."""
    if own.metric and own.metric not in known:
        raise ValueError(
            f"`own.metric` must be one of {', '.join(known)} for this "
            f"{own.kind}. Received: {own.metric!r}."
            f"{tables.nearest(own.metric, list(known))}"
        )
    first = own.metric or next(iter(known))
    return (first, *(name for name in known if name != first))


def _text(path: pathlib.Path, record: tables.Record, column: str) -> str:
    value = record.values[column]
    if not isinstance(value, str):
        raise errors.DataError(
            f"{path}, line {record.line}: expected a text in column "
            f"{column!r}. Received: {json.dumps(value)[:60]}. Write it in "
            "quotation marks."
        )
    return value


def _label_name(path: pathlib.Path, line: int, value: Any) -> str:
    """The label as a word: JSON may hold numbers and truth values too."""
    name = value if isinstance(value, str) else json.dumps(value)
    if value is None or isinstance(value, list | dict) or not name.strip():
        raise errors.DataError(
            f"{path}, line {line}: expected a label. Received: {name!r}. "
            "Repair the row."
        )
    if set(name) & set("\t\r\n"):
        raise errors.DataError(
            f"{path}, line {line}: expected a label without tabs and line "
            f"ends, as it becomes the name of a column. Received: {name!r}."
        )
    return name


def _in_one_line(
    path: pathlib.Path, record: tables.Record, column: str, value: Any
) -> str:
    name = value if isinstance(value, str) else json.dumps(value)
    if set(name) & set("\t\r\n"):
        raise errors.DataError(
            f"{path}, line {record.line}: expected a name without tabs and "
            f"line ends in column {column!r}, as predictions are written with "
            f"it. Received: {name!r}."
        )
    return name
