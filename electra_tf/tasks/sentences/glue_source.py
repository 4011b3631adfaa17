"""GLUE's examples, from official files or from TensorFlow Datasets.

Official files have no quoting: a quotation mark is a character of the text
like any other (several tasks hold unbalanced ones, and a reader that pairs
them swallows rows).
"""

import dataclasses
import math
import pathlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import files
from electra_tf.tasks import tables
from electra_tf.tasks import tfds_source
from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences import glue
from electra_tf.tasks.sentences import regression
from electra_tf.tasks.sentences.text_task import Example
from electra_tf.tasks.sentences.text_task import TextTask

DIAGNOSTIC = "ax"
"""The diagnostic set has no training data and is answered by an MNLI model:
as a task it is MNLI, name and head and all, with the diagnostic set instead
of the test sets to predict."""
NAMES = (*glue.TASKS, DIAGNOSTIC)
"""Names in the catalog."""

# Left-out lines that a warning names one by one.
_MAX_NAMED = 20


class FileContent(NamedTuple):
    """What is in an official file.

    Attributes:
        examples: in its order.
        bad_lines: numbers of the lines that were left out.
    """

    examples: list[Example]
    bad_lines: list[int]


class GlueFiles:
    """A task's files, in folders of the official or the original's layout.

    Args:
        spec: the task.
        data_dir: where its folder is, see `files.find_file`.
    """

    def __init__(self, spec: glue.GlueTask, data_dir: str) -> None:
        self.spec = spec
        self.data_dir = data_dir
        self.splits = tuple(spec.splits)
        self.dev_splits = spec.dev_splits

    def find(self, split: str) -> pathlib.Path:
        """The file of a split.

        Raises:
            FileNotFoundError: if it is not there.
            DataError: if no folder is named, or there are several files.
        """
        task = f"{self.spec.title}, split {split}"
        if not self.data_dir:
            raise errors.DataError(
                f"Expected the folder of the official files of {task}, or "
                f"{tfds_source.DATA_DIR!r}. Received: nothing. Set "
                "--config.task.data_dir."
            )
        file = self.spec.splits[split]
        return files.find_file(
            pathlib.Path(self.data_dir),
            file.folders or self.spec.folders,
            file.file_names,
            task,
        )

    def read(self, split: str) -> Sequence[Example]:
        """The examples of a split, in the order of the file.

        A number of them that is not the official one is logged as a warning,
        and so are lines that were left out.

        Raises:
            FileNotFoundError: if the file is not there.
            DataError: for the first line that is not as published.
        """
        file = self.spec.splits[split]
        path = self.find(split)
        content = read_file(self.spec, file.columns, path)
        if content.bad_lines:
            _warn_of_bad_lines(path, content.bad_lines)
        _compare_count(path, content.examples, file)
        return content.examples


class GlueTfds:
    """A task's examples in TensorFlow Datasets.

    Args:
        spec: the task.
    """

    def __init__(self, spec: glue.GlueTask) -> None:
        self.spec = spec
        self.splits = tuple(spec.splits)
        self.dev_splits = spec.dev_splits

    def find(self, split: str) -> None:
        """Raises `DataError` unless a split can be read."""
        tfds_source.open_builder(*self.spec.splits[split].tfds)

    def read(self, split: str) -> Sequence[Example]:
        """The examples of a split, in the order of the official file.

        Raises:
            DataError: if they cannot be read.
        """
        file = self.spec.splits[split]
        rows = tfds_source.read(*file.tfds)
        names = dict(
            zip(self.spec.tfds_labels, self.spec.labels, strict=True)
        )  # fmt: skip
        examples = []
        for row in rows:
            text, *rest = (row[name] for name in self.spec.tfds_features)
            label = None
            if file.columns.label is not None:
                label = names[row["label"]] if names else row["label"]
            pair = rest[0] if rest else None
            examples.append(Example(row["idx"], text, pair, label))
        examples.sort(key=lambda example: example.eid)
        _compare_count(f"{file.tfds[0]}, {file.tfds[1]}", examples, file)
        return examples


def build_source(spec: glue.GlueTask, data_dir: str) -> GlueFiles | GlueTfds:
    """Where the examples of a task are.

    Args:
        spec: the task.
        data_dir: a folder of official files, or `tfds`.
    """
    if data_dir == tfds_source.DATA_DIR:
        return GlueTfds(spec)
    return GlueFiles(spec, data_dir)


def build_task(
    name: str, settings: finetuning_config.FinetuningConfig
) -> TextTask:
    """A task of GLUE that reads from `task.data_dir`.

    Args:
        name: one of `NAMES`.
        settings: of the fine-tuning.
    """
    spec = glue.TASKS["mnli" if name == DIAGNOSTIC else name]
    kept = {
        split: file
        for split, file in spec.splits.items()
        if name != DIAGNOSTIC or not split.startswith("test")
    }
    spec = dataclasses.replace(spec, splits=kept)
    source = build_source(spec, settings.task.data_dir)
    is_unordered = spec.is_unordered and settings.task.double_unordered
    epochs = spec.num_train_epochs
    if spec.labels:
        return classification.ClassificationTask(
            spec.name,
            source,
            spec.labels,
            spec.metrics,
            is_unordered,
            epochs,
            spec.has_pairs,
        )
    return regression.RegressionTask(
        spec.name,
        source,
        glue.MIN_SCORE,
        glue.MAX_SCORE,
        spec.metrics,
        is_unordered,
        epochs,
        spec.has_pairs,
    )


def read_file(
    spec: glue.GlueTask, columns: glue.Columns, path: pathlib.Path
) -> FileContent:
    """The examples of one official file.

    Args:
        spec: the task.
        columns: of the file's split.
        path: the file.

    Raises:
        DataError: for the first line that is not as published, unless
            such lines are left out.
    """
    lines = tables.read_unquoted(path)
    width = columns.least_width
    if columns.has_header:
        width = _read_header(path, spec, columns, lines)
    examples: list[Example] = []
    bad_lines: list[int] = []
    for eid, (number, fields) in enumerate(lines):
        if len(fields) == width:
            examples.append(_example(path, number, spec, columns, eid, fields))
        elif spec.skips_bad_lines:
            bad_lines.append(number)
        else:
            raise errors.DataError(
                f"{path}, line {number}: expected {width} fields between tabs. "
                f"Received {len(fields)}: {_shorten(fields)}. Repair the line "
                "or take the official file."
            )
    if not examples:
        raise errors.DataError(
            f"{path}: expected examples of {spec.title}. Received: none. Take "
            "the official file."
        )
    return FileContent(examples, bad_lines)


def _read_header(
    path: pathlib.Path,
    spec: glue.GlueTask,
    columns: glue.Columns,
    lines: Iterator[tuple[int, list[str]]],
) -> int:
    """The number of columns, after a look at their names."""
    _, header = next(lines, (1, []))
    is_header = len(header) >= columns.least_width
    if is_header and columns.label is not None:
        # Otherwise the first example would be lost without a word.
        label = header[columns.label]
        is_header = label not in spec.labels and _number(label) is None
    elif is_header:
        is_header = _number(header[0]) is None
    if not is_header:
        raise errors.DataError(
            f"{path}, line 1: expected the names of the columns of "
            f"{spec.title}, at least {columns.least_width} between tabs. "
            f"Received: {_shorten(header)}. Take the official file."
        )
    return len(header)


def _example(
    path: pathlib.Path,
    number: int,
    spec: glue.GlueTask,
    columns: glue.Columns,
    eid: int,
    fields: list[str],
) -> Example:
    pair = None if columns.pair is None else fields[columns.pair]
    text = fields[columns.text]
    if columns.label is None:
        return Example(eid, text, pair)
    label = fields[columns.label]
    if not spec.labels:
        return Example(eid, text, pair, _score(path, number, label))
    if label not in spec.labels:
        raise errors.DataError(
            f"{path}, line {number}: expected a label out of "
            f"{', '.join(spec.labels)}. Received: {label!r}. Repair the line "
            "or take the official file."
        )
    return Example(eid, text, pair, label)


def _score(path: pathlib.Path, number: int, text: str) -> float:
    score = _number(text)
    if score is None or not glue.MIN_SCORE <= score <= glue.MAX_SCORE:
        raise errors.DataError(
            f"{path}, line {number}: expected a score from {glue.MIN_SCORE} "
            f"to {glue.MAX_SCORE}. Received: {text!r}. Repair the line or take "
            "the official file."
        )
    return score


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _warn_of_bad_lines(path: pathlib.Path, bad_lines: Sequence[int]) -> None:
    named = ", ".join(map(str, bad_lines[:_MAX_NAMED]))
    more = len(bad_lines) - _MAX_NAMED
    logging.warning(
        "%s: left out %d lines with another number of fields than the header, "
        "as the original does; lines %s%s.",
        path,
        len(bad_lines),
        named,
        f" and {more} more" if more > 0 else "",
    )


def _compare_count(
    where: pathlib.Path | str, examples: Sequence[Example], file: glue.Split
) -> None:
    count = len(examples)
    official = count if count in file.counts else file.counts[0]
    files.require_count(where, count, official)


def _shorten(fields: Sequence[str]) -> str:
    line = "\t".join(fields)
    return repr(line if len(line) <= 80 else f"{line[:80]}...")
