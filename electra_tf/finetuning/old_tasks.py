"""Downstream tasks: their official files, labels, metrics and sizes.

A task is data, one entry of `TASKS`; how its files are laid out is one of two
small classes. Files are read as published. Neither layout has quoting: a
quotation mark is a character of the sentence like any other (SST-2 and CoLA
hold unbalanced ones, and a reader that pairs them swallows rows).
"""

import dataclasses
import pathlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

CLASSIFICATION = "classification"
TAGGING = "tagging"
# How far below the given folder a task's own folder is looked for.
_MAX_DEPTH = 3
_CHUNK_KINDS = ("ADJP", "ADVP", "CONJP", "INTJ", "LST", "NP", "PP", "PRT",
                "SBAR", "UCP", "VP")  # fmt: skip
_CHUNK_LABELS = (
    "O",
    *(f"{place}-{kind}" for kind in _CHUNK_KINDS for place in "BI"),
)


class TaskDataError(ValueError):
    """A file that is not what its task publishes; names file and line."""


class Examples(NamedTuple):
    """The sentences of one file, in its order.

    Attributes:
        texts: per sentence its texts: the sentence alone for classification,
            its words for tagging.
        labels: per sentence the indices of its labels in the task's `labels`:
            one for classification, one per word for tagging.
    """

    texts: tuple[tuple[str, ...], ...]
    labels: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class TsvLayout:
    """One labelled sentence per line, fields between tabs, no quoting.

    Attributes:
        columns: names of all fields, in order.
        has_header: whether the first line holds these names.
        text: the column of the sentence.
        label: the column of its label.
    """

    columns: tuple[str, ...]
    has_header: bool
    text: str = "sentence"
    label: str = "label"

    def read(self, path: pathlib.Path, labels: Sequence[str]) -> Examples:
        """The examples of a file.

        Args:
            path: the file.
            labels: those that may occur.

        Raises:
            TaskDataError: for the first line that is not as expected, or if
                there is no sentence.
        """
        lines = _read_lines(path)
        if self.has_header:
            header = next(lines, None)
            if header is None or header[1].split("\t") != list(self.columns):
                raise TaskDataError(
                    f"{path}, line 1: expected the header "
                    f"{', '.join(self.columns)} between tabs. Received: "
                    f"{header and header[1]!r}. Take the official file."
                )
        texts, indices = [], []
        text, label = map(self.columns.index, (self.text, self.label))
        for number, line in lines:
            fields = line.split("\t")
            _require_fields(path, number, line, fields, self.columns, "tabs")
            _require_text(path, number, line, fields[text])
            texts.append((fields[text],))
            indices.append((_index(path, number, fields[label], labels),))
        return _require_some(path, texts, indices)


@dataclasses.dataclass(frozen=True)
class ConllLayout:
    """One word per line, fields between blanks, a blank line after a sentence.

    Attributes:
        columns: names of all fields, in order.
        text: the column of the word.
        label: the column of its label.
    """

    columns: tuple[str, ...]
    text: str = "word"
    label: str = "chunk"

    def read(self, path: pathlib.Path, labels: Sequence[str]) -> Examples:
        """The examples of a file; as `TsvLayout.read`."""
        texts: list[tuple[str, ...]] = []
        indices: list[tuple[int, ...]] = []
        text, label = map(self.columns.index, (self.text, self.label))
        words: list[str] = []
        tags: list[int] = []
        # One more blank line ends a last sentence that none follows.
        for number, line in [*_read_lines(path), (0, "")]:
            fields = line.split()
            if fields:
                _require_fields(
                    path, number, line, fields, self.columns, "blanks"
                )
                words.append(fields[text])
                tags.append(_index(path, number, fields[label], labels))
            elif words:
                texts.append(tuple(words))
                indices.append(tuple(tags))
                words, tags = [], []
        return _require_some(path, texts, indices)


@dataclasses.dataclass(frozen=True)
class Task:
    """A downstream task as it is published.

    Attributes:
        name: key in `TASKS`.
        kind: `CLASSIFICATION` or `TAGGING`.
        folder: its official folder's name.
        files: split (`train`, `dev`) to file name.
        num_sentences: split to the number of the official file.
        layout: how the files are read.
        labels: all that may occur; the index is what a model predicts.
        metric: key in `scores.METRICS`.
    """

    name: str
    kind: str
    folder: str
    files: dict[str, str]
    num_sentences: dict[str, int]
    layout: TsvLayout | ConllLayout
    labels: tuple[str, ...]
    metric: str

    def find_folder(self, tasks_dir: pathlib.Path) -> pathlib.Path:
        """The folder with the task's files, at or below a given one.

        Args:
            tasks_dir: where to look; `CoLA` and `glue_data/cola` in it are
                both found, up to three levels down. The one nearest to the
                top counts.

        Raises:
            FileNotFoundError: if there is none with all files.
            TaskDataError: if there are several at the same depth.
        """
        if not tasks_dir.is_dir():
            raise FileNotFoundError(
                f"Expected a folder of tasks at {tasks_dir}. Received: no "
                f"folder there. Give the one that holds {self.folder}/."
            )
        incomplete: list[pathlib.Path] = []
        for folders in _levels(tasks_dir):
            named = [
                folder for folder in folders
                if folder.name.lower() == self.folder.lower()
            ]  # fmt: skip
            found = [f for f in named if self._holds_files(f)]
            if len(found) > 1:
                raise TaskDataError(
                    f"{tasks_dir} must hold one {self.folder}. Received: "
                    f"{', '.join(map(str, found))}. Give a folder with one."
                )
            if found:
                return found[0]
            incomplete += named
        raise FileNotFoundError(self._absence(tasks_dir, incomplete))

    def read(self, tasks_dir: pathlib.Path, split: str) -> Examples:
        """The examples of a split, in the order of the file.

        A number of sentences that is not the official one is logged as a
        warning: scores on a part of a task are not the published ones.

        Args:
            tasks_dir: as for `find_folder`.
            split: `train` or `dev`.

        Raises:
            FileNotFoundError: if the task is not there.
            TaskDataError: for the first line that is not as published.
        """
        path = self.find_folder(tasks_dir) / self.files[split]
        examples = self.layout.read(path, self.labels)
        if len(examples.texts) != self.num_sentences[split]:
            logging.warning(
                "%s holds %d sentences, the official file %d: scores will not "
                "compare with published ones.",
                path,
                len(examples.texts),
                self.num_sentences[split],
            )
        return examples

    def _holds_files(self, folder: pathlib.Path) -> bool:
        return all((folder / name).is_file() for name in self.files.values())

    def _absence(
        self, tasks_dir: pathlib.Path, incomplete: list[pathlib.Path]
    ) -> str:
        received = "no folder of that name"
        if incomplete:
            received = f"{incomplete[0]} without all of them"
        return (
            f"Expected the files of {self.name} in {tasks_dir}, at most "
            f"{_MAX_DEPTH} levels down: {self.folder}/ with "
            f"{', '.join(self.files.values())}. Received: {received}. "
            "Unpack the official archive there, or name another folder."
        )


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            "cola",
            CLASSIFICATION,
            "CoLA",
            {"train": "train.tsv", "dev": "dev.tsv"},
            {"train": 8_551, "dev": 1_043},
            TsvLayout(("source", "label", "star", "sentence"), False),
            ("0", "1"),
            "mcc",
        ),
        Task(
            "sst2",
            CLASSIFICATION,
            "SST-2",
            {"train": "train.tsv", "dev": "dev.tsv"},
            {"train": 67_349, "dev": 872},
            TsvLayout(("sentence", "label"), True),
            ("0", "1"),
            "accuracy",
        ),
        # CoNLL-2000 publishes no development set; its test set serves.
        Task(
            "chunking",
            TAGGING,
            "conll2000",
            {"train": "train.txt", "dev": "test.txt"},
            {"train": 8_936, "dev": 2_012},
            ConllLayout(("word", "POS", "chunk")),
            _CHUNK_LABELS,
            "accuracy",
        ),
    )
}
"""Task name to task. The counts are those of the official files."""


def select_tasks(names: Sequence[str]) -> list[Task]:
    """The tasks of these names, in their order.

    Raises:
        ValueError: for a name that is not in `TASKS`, or none at all.
    """
    unknown = [name for name in names if name not in TASKS]
    if unknown or not names:
        raise ValueError(
            f"Tasks must be some of {', '.join(TASKS)}. Received: "
            f"{', '.join(map(repr, unknown)) or 'none'}."
        )
    return [TASKS[name] for name in names]


def _levels(folder: pathlib.Path) -> Iterator[list[pathlib.Path]]:
    """The folder itself, then all folders one level down, and so on."""
    level = [folder.absolute()]
    yield level
    for _ in range(_MAX_DEPTH):
        level = sorted(
            child for parent in level for child in parent.iterdir()
            if child.is_dir()
        )  # fmt: skip
        yield level


def _read_lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Line numbers from 1 and lines, without their ends.

    Only line feeds end lines: text may hold the other characters at which
    `str.splitlines` would cut.
    """
    lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not lines[-1]:
        del lines[-1]
    for number, line in enumerate(lines, 1):
        try:
            yield number, line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise TaskDataError(
                f"{path}, line {number}: expected UTF-8. Received: "
                f"{line[:60]!r}. Save the file as UTF-8."
            ) from error


def _require_fields(
    path: pathlib.Path,
    number: int,
    line: str,
    fields: Sequence[str],
    columns: Sequence[str],
    separators: str,
) -> None:
    if len(fields) != len(columns):
        raise TaskDataError(
            f"{path}, line {number}: expected {len(columns)} fields between "
            f"{separators} ({', '.join(columns)}). Received {len(fields)}: "
            f"{line[:80]!r}. Repair the line or take the official file."
        )


def _require_text(
    path: pathlib.Path, number: int, line: str, text: str
) -> None:
    if not text.strip():
        raise TaskDataError(
            f"{path}, line {number}: expected a sentence. Received an empty "
            f"one: {line[:80]!r}. Remove the line."
        )


def _index(
    path: pathlib.Path, number: int, label: str, labels: Sequence[str]
) -> int:
    if label not in labels:
        raise TaskDataError(
            f"{path}, line {number}: expected a label out of "
            f"{', '.join(labels)}. Received: {label!r}. Repair the line or "
            "take the official file."
        )
    return labels.index(label)


def _require_some(
    path: pathlib.Path,
    texts: Sequence[tuple[str, ...]],
    labels: Sequence[tuple[int, ...]],
) -> Examples:
    if not texts:
        raise TaskDataError(
            f"{path}: expected labelled sentences. Received: none. Take the "
            "official file."
        )
    return Examples(tuple(texts), tuple(labels))
