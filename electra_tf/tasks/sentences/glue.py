"""Reads the tasks of GLUE that `published.toml` describes.

Official files have no quoting. Several hold unbalanced quotation marks, so a
CSV reader that pairs them would lose rows.
"""

import functools
import math
import pathlib
from typing import Any, NamedTuple

from absl import logging

from electra_tf.config import schema
from electra_tf.tasks import base
from electra_tf.tasks import files
from electra_tf.tasks import tfds
from electra_tf.tasks.sentences import classification
from electra_tf.tasks.sentences import regression
from electra_tf.tasks.sentences import text_task
from electra_tf.tasks.sentences.text_task import Example

MIN_SCORE, MAX_SCORE = 0.0, 5.0
"""The range of the scores of STS-B."""
DIAGNOSTIC = "ax"
"""The diagnostic set. It has no training data, so a model of MNLI predicts it:
the task is MNLI with the diagnostic set instead of the test sets."""

_SUBMISSIONS = {"test_matched": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"}
_OFFICIAL = "Repair it or take the official file."


@schema.frozen
class Columns:
    """Indices of columns; a negative index counts from the end of the line."""

    text: int  # column of the first text
    pair: int | None = None  # column of the second text
    label: int | None = None  # column of the label; None for unlabelled files
    has_header: bool = True  # whether the first line names the columns

    @property
    def least_width(self) -> int:
        """Fewest columns in which all indices exist."""
        indices = (self.text, self.pair, self.label)
        return max(i + 1 if i >= 0 else -i for i in indices if i is not None)


class Split(NamedTuple):
    """One file of a task."""

    file_names: tuple[str, ...]  # the official name first
    folders: tuple[str, ...]  # spellings of the name of its folder
    columns: Columns
    counts: tuple[int, ...]  # published numbers of examples, by release
    tfds: tuple[str, str]  # data set and split of TensorFlow Datasets
    # Name of the file that the GLUE site takes, empty if it takes none
    submission: str = ""


@schema.frozen
class GlueTask:
    """A published task; `published.toml` explains the fields."""

    name: str  # the task's name in the catalog
    folders: tuple[str, ...]
    labelled: Columns
    unlabelled: Columns
    counts: dict[str, tuple[int, ...]]  # split to numbers of examples
    labels: dict[str, str]
    texts: tuple[str, ...] = ("sentence1", "sentence2")
    metrics: tuple[str, ...] = ("accuracy",)
    num_train_epochs: float = 3.0  # the original's
    is_unordered: bool = False
    # Whether lines with a wrong number of fields are left out (and keep their
    # number) instead of refused
    skips_bad_lines: bool = False

    @property
    def title(self) -> str:
        """The task's name in errors and tables."""
        return self.folders[0]

    @property
    def has_pairs(self) -> bool:
        """Whether texts come in pairs."""
        return len(self.texts) > 1

    @property
    def splits(self) -> dict[str, Split]:
        """Maps the name of a split to its file."""
        files_by_split = {}
        for split, counts in self.counts.items():
            names, columns, submission = (f"{split}.tsv",), self.labelled, ""
            source = f"glue/{self.name}", split.replace("dev", "validation")
            if split.startswith("test"):
                columns = self.unlabelled
                submission = _SUBMISSIONS.get(split, f"{self.title}.tsv")
            files_by_split[split] = Split(
                names, self.folders, columns, counts, source, submission
            )
        if self.name == "mnli":
            files_by_split[DIAGNOSTIC] = _DIAGNOSTIC_SPLIT
        return files_by_split


_DIAGNOSTIC_SPLIT = Split(
    ("diagnostic.tsv", "AX.tsv"),
    ("diagnostic", "AX", "MNLI"),
    Columns(1, 2),
    (1_104,),
    ("glue/ax", "test"),
    "AX.tsv",
)
TASKS = {
    name: schema.build(GlueTask, {"name": name} | entry)
    for name, entry in files.read_published("glue").items()
}
"""Maps a name in the catalog to its task."""

NAMES = (*TASKS, DIAGNOSTIC)
"""Names in the catalog."""
BENCHMARK = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
"""The tasks whose dev scores papers average. WNLI is not among them: its dev
set repeats sentences of the training set with other labels."""


def build_task(name: str, settings: base.Settings) -> text_task.TextTask:
    """Builds the task of one of `NAMES`, with its files in `task.data_dir`."""
    spec = TASKS["mnli" if name == DIAGNOSTIC else name]
    data_dir = settings.task.data_dir
    readers = {
        split: functools.partial(read_split, spec, data_dir, split)
        for split in spec.splits
        if name != DIAGNOSTIC or not split.startswith("test")
    }
    kind: Any = classification.ClassificationTask
    answers: tuple = (tuple(spec.labels),)
    if not spec.labels:
        kind, answers = regression.RegressionTask, (MIN_SCORE, MAX_SCORE)
    task: text_task.TextTask = kind(spec.name, readers, *answers, spec.metrics)
    task.is_unordered = spec.is_unordered and settings.task.double_unordered
    task.num_train_epochs = spec.num_train_epochs
    task.has_pairs = spec.has_pairs
    pairs = ((split, file.submission) for split, file in spec.splits.items())
    task.submissions = {split: name for split, name in pairs if name}
    return task


def require_split(spec: GlueTask, data_dir: str, split: str) -> None:
    """Raises the error of `read_split` if a split's file is absent."""
    if data_dir == tfds.DATA_DIR:
        tfds.open_builder(spec.splits[split].tfds[0])
    else:
        _find(spec, data_dir, split)


def read_split(spec: GlueTask, data_dir: str, split: str) -> list[Example]:
    """Reads the examples of a split, in the order of the official file.

    `data_dir` is a folder with the official files, or `tfds`.
    """
    file = spec.splits[split]
    if data_dir == tfds.DATA_DIR:
        examples = _read_tfds(spec, file)
        files.warn_of_count(", ".join(file.tfds), len(examples), *file.counts)
        return examples
    path = _find(spec, data_dir, split)
    examples, bad_lines = read_file(spec, file.columns, path)
    if bad_lines:
        logging.warning(
            f"{path}: left out {len(bad_lines)} lines with another number of "
            "fields than the header, as the original does; lines "
            f"{files.list_some(bad_lines)}."
        )
    files.warn_of_count(path, len(examples), *file.counts)
    return examples


def _find(spec: GlueTask, data_dir: str, split: str) -> pathlib.Path:
    task, file = f"{spec.title}, split {split}", spec.splits[split]
    return files.find_file(data_dir, file.folders, file.file_names, task)


def _read_tfds(spec: GlueTask, file: Split) -> list[Example]:
    names = {theirs: ours for ours, theirs in spec.labels.items()}
    examples = []
    for row in tfds.read(*file.tfds):
        texts = [row[name] for name in spec.texts]
        label = None
        if file.columns.label is not None:
            label = names[row["label"]] if names else row["label"]
        pair = texts[1] if spec.has_pairs else None
        examples.append(Example(row["idx"], texts[0], pair, label))
    return sorted(examples, key=lambda example: example.eid)


def read_file(
    spec: GlueTask, columns: Columns, path: pathlib.Path
) -> tuple[list[Example], list[int]]:
    """Reads an official file; returns examples and numbers of bad lines."""
    lines = [(n, line.split("\t")) for n, line in files.read_filled_lines(path)]
    width = columns.least_width
    if columns.has_header and lines:
        _, header = lines.pop(0)
        _require_header(path, spec, columns, header)
        width = len(header)
    examples: list[Example] = []
    bad_lines: list[int] = []
    for eid, (number, fields) in enumerate(lines):
        if len(fields) != width and spec.skips_bad_lines:
            bad_lines.append(number)
            continue
        place = f"{path}, line {number}"
        files.require_width(place, fields, width, "between tabs")
        pair = None if columns.pair is None else fields[columns.pair]
        label = None
        if columns.label is not None:
            label = _parse_label(place, spec, fields[columns.label])
        examples.append(Example(eid, fields[columns.text], pair, label))
    if not examples:
        expected = f"examples of {spec.title}"
        raise files.unexpected(path, expected, None, _OFFICIAL)
    return examples, bad_lines


def _require_header(
    path: pathlib.Path, spec: GlueTask, columns: Columns, header: list[str]
) -> None:
    """Raises if the first line looks like an example, which would be lost."""
    width, label_column = columns.least_width, columns.label or 0
    if (
        len(header) < width
        or header[label_column] in spec.labels
        or not math.isnan(files.parse_number(header[label_column]))
    ):
        names = f"the names of the columns of {spec.title}"
        expected = f"{names}, at least {width} between tabs"
        line = "\t".join(header)
        raise files.unexpected(f"{path}, line 1", expected, line, _OFFICIAL)


def _parse_label(place: str, spec: GlueTask, text: str) -> str | float:
    if text in spec.labels:
        return text
    expected = f"a label out of {', '.join(spec.labels)}"
    if not spec.labels:
        score = files.parse_number(text)
        if MIN_SCORE <= score <= MAX_SCORE:
            return score
        expected = f"a score from {MIN_SCORE} to {MAX_SCORE}"
    raise files.unexpected(place, expected, text, _OFFICIAL)
