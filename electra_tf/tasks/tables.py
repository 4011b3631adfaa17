"""Rows of CSV, TSV and JSON lines files, each with its line number.

CSV is quoted as usual; TSV has no quoting, a quotation mark is a character
like any other. Both name their columns in the first line.
"""

import contextlib
import csv
import dataclasses
import difflib
import pathlib
import sys
from collections.abc import Generator
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from electra_tf import errors
from electra_tf.tasks import files

FORMATS = ("csv", "tsv", "jsonl")
ENDINGS: Mapping[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
"""The ending of a file's name to its format."""


@dataclasses.dataclass(frozen=True)
class Record:
    """One row of a table.

    Attributes:
        line: the line of the file on which it begins, from 1.
        values: column to value: strings, or what JSON holds.
    """

    line: int
    values: dict[str, Any]


def resolve_format(
    path: pathlib.Path,
    file_format: str,
    endings: Mapping[str, str] = ENDINGS,
) -> str:
    """The format of a file.

    Args:
        path: the file.
        file_format: its format, or `auto`: by the ending of the name.
        endings: the endings that are known, and their formats.

    Raises:
        DataError: for an ending or a format that is not known.
    """
    if file_format == "auto":
        if path.suffix.lower() not in endings:
            raise errors.DataError(
                f"{path}: expected a name that ends with one of "
                f"{', '.join(endings)}. Received: {path.suffix!r}. Rename the "
                "file or give --config.own.file_format."
            )
        return endings[path.suffix.lower()]
    if file_format not in endings.values():
        raise errors.DataError(
            f"{path}: expected one of the formats "
            f"{', '.join(dict.fromkeys(endings.values()))}. Received: "
            f"{file_format!r}. Change --config.own.file_format."
        )
    return file_format


def read_table(
    path: pathlib.Path,
    file_format: str,
    columns: Sequence[str],
    optional_columns: Sequence[str] = (),
) -> list[Record]:
    """The rows of a file, in its order.

    Args:
        path: the file.
        file_format: one of `FORMATS`, or `auto`: by the ending of the name.
        columns: those that every row must have.
        optional_columns: those that are read where they are.

    Raises:
        FileNotFoundError: if there is no such file.
        DataError: for the first line that is not as expected, a missing
            column, or a file without rows.
    """
    resolved = resolve_format(path, file_format)
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected a {resolved} file at {path}. Received: no file there."
        )
    if resolved == "jsonl":
        records = list(_read_json(path, columns, optional_columns))
    else:
        read = _read_quoted if resolved == "csv" else read_unquoted
        with contextlib.closing(read(path)) as rows:
            records = list(_read_named(path, rows, columns, optional_columns))
    if not records:
        raise errors.DataError(
            f"{path}: expected rows of {', '.join(columns)}. Received: none."
        )
    return records


def read_unquoted(
    path: pathlib.Path,
) -> Generator[tuple[int, list[str]], None, None]:
    """Line numbers and the fields between tabs; blank last lines are left out.

    Raises:
        DataError: for a line that is no UTF-8.
    """
    for number, line in _without_last_blanks(path):
        yield number, line.split("\t")


def nearest(name: str, known: Sequence[str]) -> str:
    """` The nearest is ...`, or nothing if no known name is near."""
    lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), lower, 1, 0.5)
    return f" The nearest is {lower[found[0]]!r}." if found else ""


def _without_last_blanks(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    blanks: list[tuple[int, str]] = []
    for number, line in files.read_lines(path):
        if not line.strip(" \r"):
            blanks.append((number, line))
            continue
        yield from blanks
        blanks.clear()
        yield number, line


def _read_named(
    path: pathlib.Path,
    rows: Iterator[tuple[int, list[str]]],
    columns: Sequence[str],
    optional_columns: Sequence[str],
) -> Iterator[Record]:
    _, header = next(rows, (0, []))
    if not header:
        raise errors.DataError(
            f"{path}: expected a first line with the columns "
            f"{', '.join(columns)}. Received: an empty file."
        )
    _require_columns(path, 1, header, columns)
    places = {
        name: header.index(name)
        for name in (*columns, *optional_columns)
        if name in header
    }
    for number, fields in rows:
        if len(fields) != len(header):
            raise errors.DataError(
                f"{path}, line {number}: expected {len(header)} fields "
                f"({', '.join(header)}). Received {len(fields)}: "
                f"{_shorten(fields)}. Repair the line."
            )
        values = {name: fields[place] for name, place in places.items()}
        yield Record(number, values)


def _read_quoted(
    path: pathlib.Path,
) -> Generator[tuple[int, list[str]], None, None]:
    """Lines on which rows begin, and fields; blank lines are left out."""
    reader = csv.reader(
        (f"{line}\n" for _, line in files.read_lines(path)), strict=True
    )
    # A context of question answering may be longer than the default limit.
    limit = csv.field_size_limit(sys.maxsize)
    try:
        begin = 1
        for fields in reader:
            if fields:
                yield begin, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        raise errors.DataError(
            f"{path}, line {begin}: expected fields between commas, those with "
            "commas, quotation marks or line ends in quotation marks, and "
            f"quotation marks inside them doubled. Received: {error}, line "
            f"{reader.line_num}. Repair the line."
        ) from error
    finally:
        csv.field_size_limit(limit)


def _read_json(
    path: pathlib.Path,
    columns: Sequence[str],
    optional_columns: Sequence[str],
) -> Iterator[Record]:
    for number, line in _without_last_blanks(path):
        row = files.parse_object(line, f"{path}, line {number}")
        _require_columns(path, number, list(row), columns)
        names = (*columns, *optional_columns)
        yield Record(number, {name: row[name] for name in names if name in row})


def _require_columns(
    path: pathlib.Path,
    line: int,
    present: Sequence[str],
    columns: Sequence[str],
) -> None:
    for name in columns:
        count = present.count(name)
        if count == 1:
            continue
        received = f"{count} of that name among" if count else "only"
        raise errors.DataError(
            f"{path}, line {line}: expected a column {name!r}. Received: "
            f"{received} {', '.join(map(repr, present))}."
            f"{nearest(name, present)} Rename the column, or name it in the "
            "config's section `own`."
        )


def _shorten(fields: Sequence[str]) -> str:
    text = ", ".join(fields)
    return repr(text if len(text) <= 80 else f"{text[:80]}...")
