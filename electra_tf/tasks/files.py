"""Finds the files of tasks and reads them: lines, tables, JSON lines.

Every error names the file and the line, and says what was expected, what was
received and what to do.
"""

import csv
import dataclasses
import gzip
import json
import pathlib
import sys
import zlib
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from absl import logging

from electra_tf import errors
from electra_tf.config import schema

ENDINGS: Mapping[str, str] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
"""The ending of a table's file name to its format."""

# How far below the given folder a task's own folder is looked for.
_MAX_DEPTH = 3
# Items of a list that a message names.
_NUM_SHOWN = 10
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Rows = Iterator[tuple[int, list[str]]]
"""Numbers of lines, and the fields in them."""


@dataclasses.dataclass(frozen=True)
class Record:
    """One row of a table."""

    path: pathlib.Path  # the file
    line: int  # the line of the file on which the row begins, from 1
    values: dict[str, Any]  # column to value: strings, or what JSON holds

    @property
    def place(self) -> str:
        """File and line, for errors."""
        return f"{self.path}, line {self.line}"

    def text(self, column: str) -> str:
        """A column's text; JSON may hold a whole number, for an id say.

        Raises:
            DataError: for any other value.
        """
        value = self.values[column]
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            raise unexpected(self.place, f"a text in column {column!r}", value)
        return value


def unexpected(
    place: object,
    expected: str,
    received: object = None,
    remedy: str = "Repair the file.",
) -> errors.DataError:
    """Builds the error for something in a file that is not as it should be.

    `place` is file and line; `received` None says that nothing is there.
    """
    shown = "none" if received is None else str(received)
    if isinstance(received, str):
        shown = repr(shown if len(shown) <= 80 else f"{shown[:80]}...")
    return errors.DataError(
        f"{place}: expected {expected}. Received: {shown}. {remedy}"
    )


def list_some(items: Sequence[object]) -> str:
    """The first ten between commas, and how many there are beside them."""
    rest = len(items) - _NUM_SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(map(str, items[:_NUM_SHOWN])) + more


def find_file(
    data_dir: pathlib.Path,
    folder_names: Sequence[str],
    file_names: Sequence[str],
    task: str,
) -> pathlib.Path:
    """Finds the file of one split at or up to three levels below a folder.

    The file nearest to the top counts.

    Args:
        data_dir: where to look.
        folder_names: the task's own folder, in any of its spellings; compared
            without regard to case. None: a folder of any name.
        file_names: the file, in any of its spellings, the usual one first.
        task: what errors call it.

    Raises:
        FileNotFoundError: if there is none.
        DataError: if there are several at the same depth.
    """
    if not data_dir.is_dir():
        raise FileNotFoundError(
            f"Expected a folder of task files at {data_dir}. Received: no "
            f"folder there. Give the one that holds the files of {task}."
        )
    wanted = {name.lower() for name in folder_names}
    incomplete: list[pathlib.Path] = []
    for folders in _levels(data_dir):
        named = [f for f in folders if not wanted or f.name.lower() in wanted]
        candidates = (
            [path for name in file_names if (path := folder / name).is_file()]
            for folder in named
        )
        found = [paths[0] for paths in candidates if paths]
        if len(found) > 1:
            raise errors.DataError(
                f"{data_dir} must hold one {file_names[0]} of {task}. "
                f"Received: {', '.join(map(str, found))}. Name the folder of "
                "one of them."
            )
        if found:
            return found[0]
        incomplete += named if wanted else []
    received = f"{incomplete[0]} without it" if incomplete else "none there"
    place = " or ".join(f"{name}/" for name in folder_names)
    raise FileNotFoundError(
        f"Expected a file of {task} in {data_dir}, at most {_MAX_DEPTH} levels "
        f"down: {place}{' or '.join(file_names)}. Received: {received}. Unpack "
        "the official archive there, or name another folder."
    )


def _levels(folder: pathlib.Path) -> Iterator[list[pathlib.Path]]:
    """The folder itself, then all folders one level down, and so on."""
    level = [folder.absolute()]
    yield level
    for _ in range(_MAX_DEPTH):
        children = (child for parent in level for child in parent.iterdir())
        level = sorted(child for child in children if child.is_dir())
        yield level


def warn_of_count(source: object, found: int, official: int) -> None:
    """Warns of a file with another number of examples than published."""
    if found != official:
        logging.warning(
            "%s holds %d examples, the official file %d: scores will not "
            "compare with published ones.",
            source,
            found,
            official,
        )


def read_lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yields line numbers from 1 and lines, without their ends.

    Only line feeds end lines (text may hold the other characters at which
    `str.splitlines` would cut); a carriage return before one is dropped, and so
    is a byte order mark. A `.gz` file is decompressed.
    """
    with path.open("rb") as file:
        lines = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        try:
            for number, raw in enumerate(lines, 1):
                line = raw.removesuffix(b"\n").removesuffix(b"\r")
                if number == 1:
                    line = line.removeprefix(_BYTE_ORDER_MARK)
                yield number, line.decode()
        except UnicodeDecodeError as error:
            place = f"{path}, line {number}"
            raise unexpected(
                place, "UTF-8", line[:60], "Save the file as UTF-8."
            ) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise unexpected(
                path, "compressed lines", error, "Download the file again."
            ) from error


def parse_object(line: str, place: str) -> dict:
    """Parses the object on a line of a JSON lines file."""
    try:
        record = json.loads(line)
    except ValueError as error:
        expected = f"a JSON object ({error})"
        raise unexpected(place, expected, line) from error
    if not isinstance(record, dict):
        raise unexpected(place, "a JSON object, one on every line", line)
    return record


def resolve_format(
    path: pathlib.Path,
    file_format: str,
    endings: Mapping[str, str] = ENDINGS,
) -> str:
    """Returns the format of a file, for `auto` by the ending of its name."""
    remedy = "Rename the file or give --config.own.file_format."
    if file_format == "auto":
        if path.suffix.lower() not in endings:
            expected = f"a name that ends with one of {', '.join(endings)}"
            raise unexpected(path, expected, path.suffix, remedy)
        return endings[path.suffix.lower()]
    if file_format not in endings.values():
        known = ", ".join(dict.fromkeys(endings.values()))
        expected = f"one of the formats {known}"
        raise unexpected(path, expected, file_format, remedy)
    return file_format


def read_table(
    path: pathlib.Path,
    file_format: str,
    columns: Sequence[str],
    optional_columns: Sequence[str] = (),
) -> list[Record]:
    """Reads the rows of a CSV, TSV or JSON lines file, in its order.

    CSV is quoted as usual; TSV has no quoting, a quotation mark is a character
    like any other. Both name their columns in the first line. Every row must
    have `columns`; `optional_columns` are read where they are.
    """
    resolved = resolve_format(path, file_format)
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected a {resolved} file at {path}. Received: no file there."
        )
    if resolved == "jsonl":
        found = _read_json(path, columns)
    else:
        rows = _read_quoted(path) if resolved == "csv" else read_unquoted(path)
        found = _read_named(path, rows, columns)
    names = (*columns, *optional_columns)
    records = [
        Record(path, line, {name: row[name] for name in names if name in row})
        for line, row in found
    ]
    if not records:
        raise unexpected(path, f"rows of {', '.join(columns)}")
    return records


def read_unquoted(path: pathlib.Path) -> Rows:
    """Yields numbers of lines and fields between tabs; no last blank lines."""
    for number, line in _without_last_blanks(path):
        yield number, line.split("\t")


def _without_last_blanks(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    blanks: list[tuple[int, str]] = []
    for number, line in read_lines(path):
        if not line.strip(" \r"):
            blanks.append((number, line))
            continue
        yield from blanks
        blanks.clear()
        yield number, line


def _read_named(
    path: pathlib.Path, rows: Rows, columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    _, header = next(rows, (0, []))
    if not header:
        expected = f"a first line with the columns {', '.join(columns)}"
        raise unexpected(path, expected)
    _require_columns(f"{path}, line 1", header, columns)
    for number, fields in rows:
        require_width(path, number, fields, len(header), ", ".join(header))
        yield number, dict(zip(header, fields, strict=True))


def require_width(
    path: pathlib.Path,
    line: int,
    fields: Sequence[str],
    width: int,
    what: str,
) -> None:
    """Raises `DataError` for a line with more or fewer fields than expected."""
    if len(fields) != width:
        place, found = f"{path}, line {line}", len(fields)
        expected = f"{width} fields ({what}) instead of {found}"
        raise unexpected(place, expected, " ".join(fields))


def _read_quoted(path: pathlib.Path) -> Rows:
    """Lines on which rows begin, and fields; blank lines are left out."""
    lines = (f"{line}\n" for _, line in read_lines(path))
    reader = csv.reader(lines, strict=True)
    # A context of question answering may be longer than the default limit.
    limit = csv.field_size_limit(sys.maxsize)
    begin = 1
    try:
        for fields in reader:
            if fields:
                yield begin, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        expected = (
            "fields between commas, those with commas, quotation marks or line "
            "ends in quotation marks, and quotation marks inside them doubled"
        )
        received = f"{error}, line {reader.line_num}"
        raise unexpected(f"{path}, line {begin}", expected, received) from error
    finally:
        csv.field_size_limit(limit)


def _read_json(
    path: pathlib.Path, columns: Sequence[str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _without_last_blanks(path):
        place = f"{path}, line {number}"
        row = parse_object(line, place)
        _require_columns(place, list(row), columns)
        yield number, row


def _require_columns(
    place: str, present: Sequence[str], columns: Sequence[str]
) -> None:
    for name in columns:
        count = present.count(name)
        if count != 1:
            expected = f"one column {name!r} instead of {count}"
            remedy = "Rename the column, or name it in the config's `own`."
            hint = schema.suggest(name, present)
            raise unexpected(place, expected, None, f"{hint} {remedy}")
