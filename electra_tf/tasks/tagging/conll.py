"""Sentences of words with tags: CoNLL columns, and tables of lists.

CoNLL files have a word on every line, its tags beside it, and a blank line
after every sentence. Tables (CSV, TSV, JSON lines) have a sentence on every
row: one column with its words, one with its tags.
"""

import json
import pathlib
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from electra_tf import errors
from electra_tf.records import atomic
from electra_tf.tasks import files
from electra_tf.tasks import tables

DOCUMENT_START = "-DOCSTART-"
"""First field of a line that says nothing but that a document begins."""
FIRST_COLUMN, LAST_COLUMN = 0, -1


class Sentence(NamedTuple):
    """One example of a tagging task.

    Attributes:
        words: as they are in the file.
        tags: one for every word, as in the file; None where it has none.
        line: where the sentence begins in its file.
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] | None
    line: int = 0


class _Row(NamedTuple):
    line: int
    fields: list[str]


def read_columns(
    path: pathlib.Path,
    needs_tags: bool = True,
    word_column: int = FIRST_COLUMN,
    tag_column: int = LAST_COLUMN,
) -> list[Sentence]:
    """The sentences of a CoNLL file, in its order.

    Columns are parted by tabs, or by blanks in lines without tabs: in the first
    case a word may hold blanks. Lines that begin with `-DOCSTART-` are left
    out.

    Args:
        path: the file.
        needs_tags: without it, a file with a single column is one of words.
        word_column: index of the words' column, from 0; negative from the end.
        tag_column: of the tags', likewise.

    Raises:
        FileNotFoundError: if there is no such file.
        DataError: for a line with more or fewer fields than the first has,
            or a file without sentences, tags or such columns.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected a file in CoNLL columns at {path}. Received: no file "
            "there."
        )
    sentences: list[Sentence] = []
    for rows in _split_sentences(path):
        if not sentences:
            num_columns = len(rows[0].fields)
            has_tags = needs_tags or num_columns > 1
            columns = (word_column, tag_column)[: 1 + has_tags]
            _require_columns(path, rows[0], columns, has_tags)
        for row in rows:
            _require_width(path, row, num_columns)
        words, *tags = (
            tuple(row.fields[column] for row in rows) for column in columns
        )
        sentences.append(
            Sentence(words, tags[0] if tags else None, rows[0].line)
        )
    if not sentences:
        raise errors.DataError(
            f"{path}: expected sentences, a word with its tag on every line. "
            "Received: none."
        )
    return sentences


def read_table(
    path: pathlib.Path,
    file_format: str,
    word_column: str,
    tag_column: str,
    needs_tags: bool = True,
) -> list[Sentence]:
    """The sentences of a CSV, TSV or JSON lines file, in its order.

    Args:
        path: the file.
        file_format: as for `tables.read_table`.
        word_column: its values are lists of strings (in CSV and TSV as JSON),
            or strings that are split at blanks.
        tag_column: likewise.
        needs_tags: without it, the column of tags may be absent.

    Raises:
        FileNotFoundError: if there is no such file.
        DataError: for the first row that is not as expected.
    """
    required = (word_column, tag_column)[: 1 + needs_tags]
    records = tables.read_table(path, file_format, required, (tag_column,))
    sentences = []
    for record in records:
        words = _items(path, record, word_column)
        tags = None
        if tag_column in record.values:
            tags = _items(path, record, tag_column)
            if len(tags) != len(words):
                raise errors.DataError(
                    f"{path}, line {record.line}: expected a tag for every "
                    f"word. Received: {len(words)} words in {word_column!r}, "
                    f"{len(tags)} tags in {tag_column!r}. Repair the line."
                )
        sentences.append(Sentence(words, tags, record.line))
    return sentences


def write_columns(
    path: pathlib.Path, sentences: Iterable[Sequence[Sequence[str]]]
) -> None:
    """Writes a CoNLL file with tabs between columns, complete or not at all.

    Args:
        path: the file; replaced if it is there.
        sentences: the columns of each, of one length.
    """
    with (
        atomic.replacing_file(path) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        for columns in sentences:
            for fields in zip(*columns, strict=True):
                file.write("\t".join(fields) + "\n")
            file.write("\n")


def _split_sentences(path: pathlib.Path) -> Iterator[list[_Row]]:
    rows: list[_Row] = []
    for number, line in files.read_lines(path):
        if not line.strip():
            if rows:
                yield rows
            rows = []
            continue
        fields = _split_fields(line)
        if fields[0] != DOCUMENT_START:
            rows.append(_Row(number, fields))
    if rows:
        yield rows


def _split_fields(line: str) -> list[str]:
    """What stands between tabs, or without any between blanks.

    Other blank characters, such as a no-break space, are text.
    """
    line = line.strip(" \t")
    parts = line.split("\t" if "\t" in line else " ")
    return [part.strip(" ") for part in parts if part.strip(" ")]


def _require_columns(
    path: pathlib.Path, row: _Row, columns: Sequence[int], has_tags: bool
) -> None:
    width = len(row.fields)
    if has_tags and width < 2:
        raise errors.DataError(
            f"{path}, line {row.line}: expected at least 2 fields between "
            f"blanks or tabs, a word and its tag. Received {width}: "
            f"{' '.join(row.fields)[:80]!r}. Repair the line."
        )
    for column in columns:
        if not -width <= column < width:
            raise errors.DataError(
                f"{path}, line {row.line}: expected a column {column}, "
                f"counted from 0. Received {width} fields: "
                f"{' '.join(row.fields)[:80]!r}. Change the column."
            )


def _require_width(path: pathlib.Path, row: _Row, width: int) -> None:
    if len(row.fields) != width:
        raise errors.DataError(
            f"{path}, line {row.line}: expected {width} fields between blanks "
            f"or tabs, as on the lines before. Received {len(row.fields)}: "
            f"{' '.join(row.fields)[:80]!r}. Repair the line."
        )


def _items(
    path: pathlib.Path, record: tables.Record, column: str
) -> tuple[str, ...]:
    """A list's strings, or the parts of a string between blanks."""
    value = record.values[column]
    items = _parse_list(value) if isinstance(value, str) else value
    if (
        not isinstance(items, list)
        or not items
        or not all(isinstance(item, str) and item.strip() for item in items)
        or any("\t" in item or "\n" in item for item in items)
    ):
        raise errors.DataError(
            f"{path}, line {record.line}: expected in {column!r} a list of "
            "strings, none of them empty or with tabs or line ends, or a "
            f"string of parts between blanks. Received: {str(value)[:80]!r}. "
            "Repair the line."
        )
    return tuple(items)


def _parse_list(text: str) -> list[Any] | None:
    """A JSON list of strings, or else what stands between blanks."""
    if not text.lstrip().startswith('["'):
        return text.split()
    try:
        return json.loads(text)
    except ValueError:
        return None
