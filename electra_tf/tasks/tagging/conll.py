"""Sentences of words with tags: CoNLL columns, and tables of lists.

CoNLL files have a word on every line, its tags beside it, and a blank line
after every sentence. Tables (CSV, TSV, JSON lines) have a sentence on every
row: one column with its words, one with its tags.
"""

import functools
import json
import pathlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from absl import logging

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.processes import atomic
from electra_tf.tasks import files
from electra_tf.tasks import task as task_lib
from electra_tf.tasks import tfds_source

# The first field of a line that only says that a document begins.
_DOCUMENT_START = "-DOCSTART-"
_CHUNKING_FOLDERS = ("conll2000", "chunk", "chunking")
# Sentences and words of the published files.
_OFFICIAL_COUNTS = {"train.txt": (8_936, 211_727), "test.txt": (2_012, 47_377)}
_ENDINGS = {
    **files.ENDINGS,
    **dict.fromkeys((".conll", ".txt", ".iob", ".bio"), "conll"),
}


class Sentence(NamedTuple):
    """One example of a tagging task."""

    words: tuple[str, ...]  # as they are in the file
    # One for every word, as in the file; None where it has none
    tags: tuple[str, ...] | None
    place: str = ""  # the file and the line where the sentence begins


def chunking_readers(data_dir: str) -> task_lib.Readers:
    """Returns readers of the splits of CoNLL-2000, which read once.

    It publishes `train.txt` and `test.txt` in a folder `conll2000`; the
    original's layout is `chunk/{train,dev,test}.txt`. Where there is no
    `dev.txt` the test file serves as dev split too: its scores are the
    published ones, but nothing may be chosen by them.
    """
    return {
        split: functools.cache(
            functools.partial(_read_chunking, data_dir, split)
        )
        for split in ("train", "dev", "test")
    }


def own_readers(own: finetuning_config.OwnTaskConfig) -> task_lib.Readers:
    """Returns readers of a user's files; the one of `test` needs no tags."""
    return {
        split: functools.cache(
            functools.partial(
                _read_own, pathlib.Path(path), own, split != "test"
            )
        )
        for split, path in own.files.items()
    }


def _read_chunking(data_dir: str, split: str) -> list[Sentence]:
    if data_dir in ("", tfds_source.DATA_DIR):
        raise errors.DataError(
            "chunking is read from the files of CoNLL-2000, train.txt and "
            f"test.txt in a folder conll2000. Received: {data_dir!r}. Name "
            "the folder with --config.task.data_dir."
        )
    find = functools.partial(
        files.find_file, pathlib.Path(data_dir), _CHUNKING_FOLDERS
    )
    try:
        path = find([f"{split}.txt"], "chunking")
    except FileNotFoundError:
        if split != "dev":
            raise
        path = find(["test.txt"], "chunking")
        logging.info("There is no dev.txt: %s is the dev split.", path)
    sentences = read_columns(path)
    if path.name == "test.txt" or not path.with_name("dev.txt").is_file():
        num_sentences, num_words = _OFFICIAL_COUNTS[path.name]
        files.warn_of_count(path, len(sentences), num_sentences)
        found = sum(len(sentence.words) for sentence in sentences)
        if len(sentences) == num_sentences:
            files.warn_of_count(f"{path} (words)", found, num_words)
    return sentences


def _read_own(
    path: pathlib.Path,
    own: finetuning_config.OwnTaskConfig,
    needs_tags: bool,
) -> list[Sentence]:
    file_format = files.resolve_format(path, own.file_format, _ENDINGS)
    if file_format == "conll":
        columns = (
            _column_number("text_column", own, 0),
            _column_number("label_column", own, -1),
        )
        return read_columns(path, needs_tags, *columns)
    return read_table(
        path, file_format, own.text_column, own.label_column, needs_tags
    )


def _column_number(
    field: str, own: finetuning_config.OwnTaskConfig, default: int
) -> int:
    """The index of a CoNLL column, which has no name."""
    value = getattr(own, field)
    if value == getattr(finetuning_config.OwnTaskConfig(), field):
        return default
    try:
        return int(value)
    except ValueError:
        raise ValueError(
            f"`own.{field}` of a file in CoNLL columns must be the column's "
            "number, from 0, or from the end if negative. Received: "
            f"{value!r}."
        ) from None


def read_columns(
    path: pathlib.Path,
    needs_tags: bool = True,
    word_column: int = 0,
    tag_column: int = -1,
) -> list[Sentence]:
    """Reads the sentences of a CoNLL file, in its order.

    Columns are separated by tabs, or by blanks in lines without tabs: in the
    first case a word may hold blanks. Lines that begin with `-DOCSTART-` are
    left out. Columns count from 0, or from the end if negative; without
    `needs_tags` a single column is one of words.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected a file in CoNLL columns at {path}. Received: no file "
            "there."
        )
    sentences: list[Sentence] = []
    for rows in _split_sentences(path):
        line, fields = rows[0]
        if not sentences:
            num_columns = len(fields)
            has_tags = needs_tags or num_columns > 1
            columns = (word_column, tag_column)[: 1 + has_tags]
            _require_columns(f"{path}, line {line}", fields, columns)
        for number, fields in rows:
            files.require_width(
                path, number, fields, num_columns, "between blanks or tabs"
            )
        words, *tags = (
            tuple(fields[column] for _, fields in rows) for column in columns
        )
        place = f"{path}, line {line}"
        sentences.append(Sentence(words, tags[0] if tags else None, place))
    if not sentences:
        expected = "sentences, a word with its tag on every line"
        raise files.unexpected(path, expected)
    return sentences


def _split_sentences(
    path: pathlib.Path,
) -> Iterator[list[tuple[int, list[str]]]]:
    """The numbers and fields of the lines of each sentence."""
    rows: list[tuple[int, list[str]]] = []
    for number, line in files.read_lines(path):
        if not line.strip():
            if rows:
                yield rows
            rows = []
            continue
        fields = _split_fields(line)
        if fields[0] != _DOCUMENT_START:
            rows.append((number, fields))
    if rows:
        yield rows


def _split_fields(line: str) -> list[str]:
    """Splits a line at tabs, or else at blanks of ASCII alone."""
    line = line.strip(" \t")
    parts = line.split("\t" if "\t" in line else " ")
    return [part.strip(" ") for part in parts if part.strip(" ")]


def _require_columns(
    place: str, fields: list[str], columns: Sequence[int]
) -> None:
    width, received = len(fields), " ".join(fields)
    if width < len(columns):
        expected = (
            "at least 2 fields between blanks or tabs, a word and its tag, "
            f"instead of {width}"
        )
        raise files.unexpected(place, expected, received)
    for column in columns:
        if not -width <= column < width:
            expected = f"a column {column}, counted from 0, of {width}"
            remedy = "Change the column."
            raise files.unexpected(place, expected, received, remedy)


def read_table(
    path: pathlib.Path,
    file_format: str,
    word_column: str,
    tag_column: str,
    needs_tags: bool = True,
) -> list[Sentence]:
    """Reads the sentences of a CSV, TSV or JSON lines file, in its order.

    The columns hold lists of strings (in CSV and TSV as JSON), or strings that
    are split at blanks. Without `needs_tags` that of tags may be absent.
    """
    required = (word_column, tag_column)[: 1 + needs_tags]
    sentences = []
    for record in files.read_table(path, file_format, required, [tag_column]):
        words = _parse_items(record, word_column)
        tags = None
        if tag_column in record.values:
            tags = _parse_items(record, tag_column)
            if len(tags) != len(words):
                expected = f"a tag for every word in {tag_column!r}"
                received = f"{len(words)} words, {len(tags)} tags"
                raise files.unexpected(record.place, expected, received)
        sentences.append(Sentence(words, tags, record.place))
    return sentences


def _parse_items(record: files.Record, column: str) -> tuple[str, ...]:
    """A list's strings, or the parts of a string between blanks."""
    value = record.values[column]
    items = _parse_list(value) if isinstance(value, str) else value
    if (
        not isinstance(items, list)
        or not items
        or not all(isinstance(item, str) and item.strip() for item in items)
        or any("\t" in item or "\n" in item for item in items)
    ):
        expected = (
            f"in {column!r} a list of strings, none of them empty or with tabs "
            "or line ends, or a string of parts between blanks"
        )
        raise files.unexpected(record.place, expected, value)
    return tuple(items)


def _parse_list(text: str) -> list[Any] | None:
    """A JSON list of strings, or else what stands between blanks."""
    if not text.lstrip().startswith('["'):
        return text.split()
    try:
        return json.loads(text)
    except ValueError:
        return None


def write_columns(
    path: pathlib.Path, sentences: Iterable[Sequence[Sequence[str]]]
) -> None:
    """Writes a CoNLL file, tabs between columns, or leaves none."""
    with (
        atomic.replacing_file(path) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for columns in sentences:
            for fields in zip(*columns, strict=True):
                file.write("\t".join(fields) + "\n")
            file.write("\n")
