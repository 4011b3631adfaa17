"""The tasks of GLUE: what is published, in one table, and how it is read.

Columns are counted, not named, as their names differ between releases; a
negative place counts from the end. Official files have no quoting: a quotation
mark is a character of the text like any other (several tasks hold unbalanced
ones, and a reader that pairs them swallows rows).
"""

import dataclasses
import functools
import math
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from absl import logging

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import files
from electra_tf.tasks import tfds_source
from electra_tf.tasks.sentences import task as task_lib
from electra_tf.tasks.sentences.task import Example

MIN_SCORE, MAX_SCORE = 0.0, 5.0
"""The range of the scores of STS-B."""
DIAGNOSTIC = "ax"
"""The diagnostic set has no training data and is answered by an MNLI model:
as a task it is MNLI, name and head and all, with the diagnostic set instead
of the test sets to predict."""

_OFFICIAL = "Repair it or take the official file."


class Columns(NamedTuple):
    """Places of the texts and the label in a line."""

    text: int  # place of the first text
    pair: int | None = None  # of the second one, or None
    label: int | None = None  # of the label, or None where it is not told
    # Whether the first line holds the names of the columns
    has_header: bool = True

    @property
    def least_width(self) -> int:
        """Fewest fields in which all places exist; the number, if no header."""
        places = (self.text, self.pair, self.label)
        return max(p + 1 if p >= 0 else -p for p in places if p is not None)


class Split(NamedTuple):
    """One file of a task."""

    file_names: tuple[str, ...]  # the official name first
    columns: Columns  # of its lines
    counts: tuple[int, ...]  # examples it may have; releases differ for QQP
    tfds: tuple[str, str]  # data set and split of TensorFlow Datasets
    # The file in which the site expects predictions; empty if it takes none
    submission: str = ""
    folders: tuple[str, ...] = ()  # where it is, if not in the task's folder


@dataclasses.dataclass(frozen=True)
class GlueTask:
    """A task as it is published."""

    name: str  # in the catalog
    title: str  # what errors and tables call it
    # Names of its folder: the official one, the original's
    folders: tuple[str, ...]
    splits: Mapping[str, Split]  # name to file
    # Classes in the original's order, as the site spells them; none for a
    # regression
    labels: tuple[str, ...] = ("0", "1")
    # Names in `scores`; the first decides
    metrics: tuple[str, ...] = ("accuracy",)
    # What TensorFlow Datasets calls the texts
    tfds_features: tuple[str, ...] = ("sentence1", "sentence2")
    # And the classes, in the order of `labels`
    tfds_labels: tuple[str, ...] = ()
    num_train_epochs: float = 3.0  # the original's
    is_unordered: bool = False  # whether the texts of a pair can change places
    # Whether lines with another number of fields are left out, their numbers
    # used up, instead of refused
    skips_bad_lines: bool = False

    @property
    def dev_splits(self) -> tuple[str, ...]:
        """Those to score on, the deciding one first."""
        return tuple(name for name in self.splits if name.startswith("dev"))

    @property
    def has_pairs(self) -> bool:
        """Whether texts come in pairs."""
        return all(s.columns.pair is not None for s in self.splits.values())


def _task(
    name: str,
    folders: tuple[str, ...],
    columns: tuple[Columns, Columns],
    counts: Sequence[int | tuple[int, ...]],
    **fields: Any,
) -> GlueTask:
    """A task whose files are `train.tsv`, `dev.tsv` and `test.tsv`.

    `columns` are those with labels, and without; `counts` those of the files.
    """
    labelled, unlabelled = columns
    source, title = f"glue/{name}", folders[0]
    train, dev, test = (c if isinstance(c, tuple) else (c,) for c in counts)
    splits = {
        "train": Split(("train.tsv",), labelled, train, (source, "train")),
        "dev": Split(("dev.tsv",), labelled, dev, (source, "validation")),
        "test": Split(
            ("test.tsv",), unlabelled, test, (source, "test"), f"{title}.tsv"
        ),
    }
    return GlueTask(name, title, folders, splits, **fields)


def _mnli_splits() -> dict[str, Split]:
    # The last column is `gold_label`.
    labelled, unlabelled = Columns(8, 9, -1), Columns(8, 9)
    submissions = {
        "test_matched": "MNLI-m.tsv",
        "test_mismatched": "MNLI-mm.tsv",
    }
    splits = {}
    for name, columns, count in (
        ("train", labelled, 392_702),
        ("dev_matched", labelled, 9_815),
        ("dev_mismatched", labelled, 9_832),
        ("test_matched", unlabelled, 9_796),
        ("test_mismatched", unlabelled, 9_847),
    ):
        source = "glue/mnli", name.replace("dev", "validation")
        submission = submissions.get(name, "")
        splits[name] = Split(
            (f"{name}.tsv",), columns, (count,), source, submission
        )
    splits[DIAGNOSTIC] = Split(
        ("diagnostic.tsv", "AX.tsv"),
        Columns(1, 2),
        (1_104,),
        ("glue/ax", "test"),
        "AX.tsv",
        ("diagnostic", "AX", "MNLI"),
    )
    return splits


# index, first text, second text, label.
_PAIRS = Columns(1, 2, 3), Columns(1, 2)
_ENTAILMENT = ("entailment", "not_entailment")
_NLI = ("contradiction", "entailment", "neutral")

_ALL = (
    _task(
        "cola",
        ("CoLA",),
        (Columns(3, label=1, has_header=False), Columns(1)),
        (8_551, 1_043, 1_063),
        metrics=("mcc",),
        tfds_features=("sentence",),
        tfds_labels=("unacceptable", "acceptable"),
    ),
    _task(
        "sst2",
        ("SST-2", "sst", "sst2"),
        (Columns(0, label=1), Columns(1)),
        (67_349, 872, 1_821),
        tfds_features=("sentence",),
        tfds_labels=("negative", "positive"),
    ),
    _task(
        "mrpc",
        ("MRPC",),
        (Columns(3, 4, 0), Columns(3, 4)),
        (3_668, 408, 1_725),
        metrics=("accuracy", "f1"),
        tfds_labels=("not_equivalent", "equivalent"),
        is_unordered=True,
    ),
    _task(
        "stsb",
        ("STS-B", "sts", "stsb"),
        (Columns(-3, -2, -1), Columns(-2, -1)),
        (5_749, 1_500, 1_379),
        labels=(),
        metrics=("spearman", "pearson", "mse"),
        num_train_epochs=10.0,
        is_unordered=True,
    ),
    # Some lines of the official file break off; the original leaves them out.
    # The older release has three more examples than the cleaned one.
    _task(
        "qqp",
        ("QQP",),
        (Columns(3, 4, 5), Columns(1, 2)),
        ((363_846, 363_849), 40_430, 390_965),
        metrics=("accuracy", "f1"),
        tfds_features=("question1", "question2"),
        tfds_labels=("not_duplicate", "duplicate"),
        skips_bad_lines=True,
    ),
    GlueTask(
        "mnli",
        "MNLI",
        ("MNLI",),
        _mnli_splits(),
        labels=_NLI,
        tfds_features=("premise", "hypothesis"),
        tfds_labels=_NLI,
    ),
    _task(
        "qnli",
        ("QNLI",),
        _PAIRS,
        (104_743, 5_463, 5_463),
        labels=_ENTAILMENT,
        tfds_features=("question", "sentence"),
        tfds_labels=_ENTAILMENT,
    ),
    _task(
        "rte",
        ("RTE",),
        _PAIRS,
        (2_490, 277, 3_000),
        labels=_ENTAILMENT,
        tfds_labels=_ENTAILMENT,
        num_train_epochs=10.0,
    ),
    _task(
        "wnli",
        ("WNLI",),
        _PAIRS,
        (635, 71, 146),
        tfds_labels=("not_entailment", "entailment"),
    ),
)
TASKS: Mapping[str, GlueTask] = {task.name: task for task in _ALL}
"""Name in the catalog to task."""

NAMES = (*TASKS, DIAGNOSTIC)
"""Names in the catalog."""
BENCHMARK = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
"""The tasks whose dev scores papers average: all but WNLI, whose dev set is
drawn so that it misleads. AX is predicted by the model of MNLI."""


def build_task(
    name: str, settings: finetuning_config.FinetuningConfig
) -> task_lib.TextTask:
    """Builds the task of one of `NAMES`; it reads from `task.data_dir`."""
    spec = TASKS["mnli" if name == DIAGNOSTIC else name]
    data_dir = settings.task.data_dir
    readers = {
        split: functools.partial(read, spec, data_dir, split)
        for split in spec.splits
        if name != DIAGNOSTIC or not split.startswith("test")
    }
    common: dict[str, Any] = {
        "metrics": spec.metrics,
        "is_unordered": spec.is_unordered and settings.task.double_unordered,
        "num_train_epochs": spec.num_train_epochs,
        "has_pairs": spec.has_pairs,
        "submissions": {
            split: file.submission
            for split, file in spec.splits.items()
            if file.submission
        },
    }
    if spec.labels:
        return task_lib.ClassificationTask(
            spec.name, readers, spec.labels, **common
        )
    return task_lib.RegressionTask(
        spec.name, readers, MIN_SCORE, MAX_SCORE, **common
    )


def require(spec: GlueTask, data_dir: str, split: str) -> None:
    """Raises as `read` if a split is not there, without reading it."""
    if data_dir == tfds_source.DATA_DIR:
        tfds_source.open_builder(*spec.splits[split].tfds)
    else:
        _find(spec, data_dir, split)


def read(spec: GlueTask, data_dir: str, split: str) -> list[Example]:
    """Reads the examples of a split, in the order of the official file.

    A number of them that is not the official one is logged as a warning, and so
    are lines that were left out. `data_dir` is a folder of the official or the
    original's layout (see `files.find_file`), or `tfds`.
    """
    file = spec.splits[split]
    source: object
    if data_dir == tfds_source.DATA_DIR:
        source = ", ".join(file.tfds)
        examples = _read_tfds(spec, file)
    else:
        source = path = _find(spec, data_dir, split)
        examples, bad_lines = read_file(spec, file.columns, path)
        if bad_lines:
            logging.warning(
                "%s: left out %d lines with another number of fields than the "
                "header, as the original does; lines %s.",
                path,
                len(bad_lines),
                files.list_some(bad_lines),
            )
    count = len(examples)
    official = count if count in file.counts else file.counts[0]
    files.warn_of_count(source, count, official)
    return examples


def _find(spec: GlueTask, data_dir: str, split: str) -> pathlib.Path:
    task, file = f"{spec.title}, split {split}", spec.splits[split]
    if not data_dir:
        raise errors.DataError(
            f"Expected the folder of the official files of {task}, or "
            f"{tfds_source.DATA_DIR!r}. Received: nothing. Set "
            "--config.task.data_dir."
        )
    folders = file.folders or spec.folders
    return files.find_file(
        pathlib.Path(data_dir), folders, file.file_names, task
    )


def _read_tfds(spec: GlueTask, file: Split) -> list[Example]:
    names = dict(zip(spec.tfds_labels, spec.labels, strict=True))
    examples = []
    for row in tfds_source.read(*file.tfds):
        text, *rest = (row[name] for name in spec.tfds_features)
        label = None
        if file.columns.label is not None:
            label = names[row["label"]] if names else row["label"]
        pair = rest[0] if rest else None
        examples.append(Example(row["idx"], text, pair, label))
    return sorted(examples, key=lambda example: example.eid)


def read_file(
    spec: GlueTask, columns: Columns, path: pathlib.Path
) -> tuple[list[Example], list[int]]:
    """Reads an official file: its examples, and lines that were left out."""
    lines = files.read_unquoted(path)
    width = columns.least_width
    if columns.has_header:
        _, header = next(lines, (1, []))
        _require_header(path, spec, columns, header)
        width = len(header)
    examples: list[Example] = []
    bad_lines: list[int] = []
    for eid, (number, fields) in enumerate(lines):
        if len(fields) != width and spec.skips_bad_lines:
            bad_lines.append(number)
            continue
        files.require_width(path, number, fields, width, "between tabs")
        pair = None if columns.pair is None else fields[columns.pair]
        label = None
        if columns.label is not None:
            place = f"{path}, line {number}"
            label = _parse_label(place, spec, fields[columns.label])
        examples.append(Example(eid, fields[columns.text], pair, label))
    if not examples:
        expected = f"examples of {spec.title}"
        raise files.unexpected(path, expected, None, _OFFICIAL)
    return examples, bad_lines


def _require_header(
    path: pathlib.Path, spec: GlueTask, columns: Columns, header: list[str]
) -> None:
    """Raises unless the first line names columns: no example may be lost."""
    is_header = len(header) >= columns.least_width
    if is_header and columns.label is not None:
        label = header[columns.label]
        is_header = label not in spec.labels and math.isnan(_number(label))
    elif is_header:
        is_header = math.isnan(_number(header[0]))
    if not is_header:
        place, received = f"{path}, line 1", "\t".join(header)
        expected = (
            f"the names of the columns of {spec.title}, at least "
            f"{columns.least_width} between tabs"
        )
        raise files.unexpected(place, expected, received, _OFFICIAL)


def _parse_label(place: str, spec: GlueTask, text: str) -> str | float:
    expected = f"a label out of {', '.join(spec.labels)}"
    if not spec.labels:
        score = _number(text)
        if MIN_SCORE <= score <= MAX_SCORE:
            return score
        expected = f"a score from {MIN_SCORE} to {MAX_SCORE}"
    elif text in spec.labels:
        return text
    raise files.unexpected(place, expected, text, _OFFICIAL)


def _number(text: str) -> float:
    """The finite number that a text is, or NaN."""
    try:
        number = float(text)
    except ValueError:
        return math.nan
    return number if math.isfinite(number) else math.nan
