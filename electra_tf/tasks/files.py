"""Finds and reads the files of tasks: lines, tables, JSON, fastText.

Every error names the file and the line, what was expected, what was received,
and a remedy.
"""

import ast
import contextlib
import csv
import dataclasses
import gzip
import importlib.resources
import itertools
import json
import math
import pathlib
import re
import sys
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from absl import logging

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.records import readers

ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
}
"""Maps the ending of a file name to the format of the table."""
_FASTTEXT = "__label__"  # begins the lines of fastText's files
_FASTTEXT_LABEL = re.compile(rf"(?:^|(?<=\s)){_FASTTEXT}(\S+)")
_SPREADSHEETS = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"  # .xlsx, .ods; .xls
_RULE = re.compile(r"[\s:|+-]*--[\s:|+-]*")  # under the names of columns
_MAX_DEPTH = 3  # levels below the given folder that are searched
_MAX_PYTHON = 1 << 24  # characters; Python's parser takes much memory
_MAX_LINE_BYTES = 1 << 28  # all of SQuAD is one line
_WITH_DATA = {"schema", "version"}  # members of JSON with its rows in `data`
_MAX_RATIO = 200  # largest ratio of text to compressed bytes


@dataclasses.dataclass(frozen=True)
class Record:
    """One row of a table."""

    place: str  # the file and the line on which the row begins, for errors
    values: dict[str, Any]  # column to cell, see `cells`: strings, or JSON


def unexpected(
    place: object,
    expected: str,
    received: object = None,
    remedy: str = "Repair the file.",
) -> errors.DataError:
    """Builds a `DataError`; `place` names a file, or a file and a line."""
    shown = "none" if received is None else str(received)
    if isinstance(received, str):
        shown = repr(shown if len(shown) <= 80 else f"{shown[:80]}...")
    return errors.DataError(
        f"{place}: expected {expected}. Received: {shown}. {remedy}"
    )


def list_some(items: Sequence[object]) -> str:
    """Joins the first twenty items by commas and counts the others."""
    more = f" and {len(items) - 20} more" if len(items) > 20 else ""
    return ", ".join(map(str, items[:20])) + more


def require_folder(folder: str | pathlib.Path, task: str) -> None:
    """Raises `FileNotFoundError` if a task's folder is not there."""
    # `pathlib` takes an empty path for the current folder.
    if not folder or not storage.path(folder).is_dir():
        raise FileNotFoundError(
            f"Expected a folder with the official files of {task}. Received: "
            f"{str(folder)!r}, no folder there. Set task.data_dir."
        )


def require_table(path: pathlib.Path) -> bytes:
    """Returns the first line of a file, or its beginning.

    Raises if the file is absent (`FileNotFoundError`) or a spreadsheet.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected a file with your own data. Received: {path}, no such "
            "file. Check the spelling and the current folder."
        )
    with path.open("rb") as file:
        start = file.readline(65_536)
    if start.startswith(_SPREADSHEETS):
        remedy = "Unpack it, or save the sheet as CSV in UTF-8."
        expected = "a text file, no archive or spreadsheet"
        raise unexpected(path, expected, path.suffix, remedy)
    return start


def find_file(
    data_dir: str | pathlib.Path,
    folder_names: Sequence[str],
    file_names: Sequence[str],
    task: str,
) -> pathlib.Path:
    """Finds the file of one split in a folder or up to three levels below.

    `folder_names` are spellings of the name of the file's folder; without any
    the folder may have any name. Case is ignored. `file_names` are names of the
    file, the usual one first. Raises `DataError` if there are two files at the
    same level, and `FileNotFoundError` if there is none.
    """
    require_folder(data_dir, task)
    top = storage.path(data_dir).absolute()
    lower_names = {name.lower() for name in folder_names}
    incomplete = []
    for depth in range(_MAX_DEPTH + 1):
        folders = sorted(top.glob("/".join("*" * depth))) if depth else [top]
        if lower_names:
            folders = [f for f in folders if f.name.lower() in lower_names]
            incomplete += [f for f in folders if f.is_dir()]
        paths = []
        for folder in folders:
            paths += [p for n in file_names if (p := folder / n).is_file()][:1]
        if len(paths) > 1:
            raise errors.DataError(
                f"{data_dir} must hold one {file_names[0]} of {task}. "
                f"Received: {', '.join(map(str, paths))}. Name the folder of "
                "one of them."
            )
        if paths:
            return paths[0]
    received = f"{incomplete[0]} without it" if incomplete else "none there"
    place = " or ".join(f"{name}/" for name in folder_names)
    raise FileNotFoundError(
        f"Expected a file of {task} in {data_dir}, at most {_MAX_DEPTH} levels "
        f"down: {place}{' or '.join(file_names)}. Received: {received}. Unpack "
        "the official archive there, or name another folder."
    )


def warn_of_count(source: object, count: int, *official: int) -> None:
    """Warns if a file does not have the published number of examples."""
    if count not in official:
        logging.warning(
            f"{source} holds {count} examples, the official file "
            f"{official[0]}: scores will not compare with published ones."
        )


def read_lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Yields line numbers, from 1, and lines.

    A line ends with a line feed. The function drops a carriage return before
    the line feed and a byte order mark, and decompresses a `.gz` file.
    """
    with path.open("rb") as file:
        is_gzip, num_bytes = path.suffix == ".gz", 0
        stream: Any = gzip.GzipFile(fileobj=file) if is_gzip else file
        lines = iter(lambda: stream.readline(_MAX_LINE_BYTES), b"")
        try:
            for number, raw in enumerate(lines, 1):
                num_bytes += len(raw)
                is_bomb = is_gzip and num_bytes > _MAX_RATIO * file.tell()
                if is_bomb or len(raw) == _MAX_LINE_BYTES:
                    expected = "lines below 256 MiB, compressed at most 200:1"
                    raise unexpected(f"{path}, line {number}", expected)
                line = raw.removesuffix(b"\n").removesuffix(b"\r")
                codec = "utf-8-sig" if number == 1 else "utf-8"
                yield number, line.decode(codec)
        except UnicodeDecodeError as error:
            place, remedy = f"{path}, line {number}", "Save the file as UTF-8."
            raise unexpected(place, "UTF-8", line[:60], remedy) from error
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            expected, remedy = "compressed lines", "Download the file again."
            raise unexpected(path, expected, error, remedy) from error


def read_filled_lines(path: pathlib.Path) -> list[tuple[int, str]]:
    """Reads lines as `read_lines`, without blank lines at the end."""
    lines = list(read_lines(path))
    while lines and not lines[-1][1].strip(" \r"):
        lines.pop()
    return lines


def read_values(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Yields place and value of each line, or of the whole of a JSON file.

    All lines after the first one must be objects.
    """
    lines = ((n, line) for n, line in read_lines(path) if line.strip())
    for index, (number, line) in enumerate(lines):
        place = f"{path}, line {number}"
        try:
            value = parse(line)
        except (ValueError, RecursionError) as error:
            if not index and (whole := _parse_whole(path)) is not None:
                yield whole
                return
            reason = str(error).replace("line 1 ", "")
            expected = f"a JSON object, one on every line ({reason})"
            raise unexpected(place, expected, line) from error
        yield place, _to_row(value, place) if index else value


def parse(text: str) -> Any:
    """Parses JSON, or else a list or a dict as Python writes it.

    Raises `ValueError`, or `RecursionError`.
    """
    try:
        return json.loads(text)
    except ValueError:
        if len(text) > _MAX_PYTHON or text.strip()[-1:] not in ("]", "}", ")"):
            raise
        # `literal_eval` raises errors of several unrelated types.
        with contextlib.suppress(Exception):
            value = json.loads(json.dumps(ast.literal_eval(text.strip())))
            if isinstance(value, list | dict):
                return value
        raise


def _parse_whole(path: pathlib.Path) -> tuple[str, Any] | None:
    """Parses a file as one JSON value; None if a `.jsonl` file is none."""
    try:
        lines = (line for _, line in read_lines(path))
        return str(path), parse("\n".join(lines))
    except (ValueError, RecursionError) as error:
        if path.suffix.lower() != ".json":
            return None
        place = str(path)
        if isinstance(error, json.JSONDecodeError):
            place += f", line {error.lineno}, character {error.colno}"
        raise unexpected(place, "JSON", error) from error


def _to_row(value: Any, place: str) -> dict:
    """Returns a row: an object, or what spaCy and Label Studio write."""
    match value:
        case [str(text), {} as found] if {"cats", "entities"} & {*found}:
            return {"text": text, "label": found, **found}
        case {"data": {} as data, "annotations": [*annotations]}:
            with contextlib.suppress(AttributeError, LookupError, TypeError):
                return data | _list_results(annotations)
        case {}:
            return value
    expected = "a JSON object, one on every line or in a list"
    raise unexpected(place, expected, json.dumps(value, ensure_ascii=False))


def _list_results(annotations: Sequence[Any]) -> dict[str, list]:
    """Maps the `from_name` of Label Studio's results to what was marked."""
    columns: dict[str, list] = {}
    for annotation in annotations:
        done = not annotation.get("was_cancelled")
        for result in annotation["result"] if done else ():
            if value := result.get("value"):  # A relation has none.
                number = value.get("rating", value.get("number", value))
                found = value.get("choices", [number])
                columns.setdefault(result["from_name"], []).extend(found)
    return columns


def parse_number(value: Any) -> float:
    """Converts a string or a value of JSON to a number, or to NaN."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (OverflowError, TypeError, ValueError):
        return math.nan


def resolve_format(
    path: pathlib.Path, file_format: str, endings: Mapping[str, str] = ENDINGS
) -> str:
    """Returns the format of a file; the ending of its name resolves `auto`."""
    start = require_table(path)
    name, formats = file_format, dict.fromkeys(endings.values())
    if file_format == "auto":
        name = (
            path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
        )
        if start.startswith(_FASTTEXT.encode()) and endings is ENDINGS:
            return "fasttext"
    resolved = endings.get(name.lower(), name)
    if resolved not in formats:
        expected = (
            f"a name that ends with one of {', '.join(endings)}, or as "
            f"own.file_format one of {', '.join(formats)}"
        )
        remedy = "Save it as one of them, with a name for each column."
        raise unexpected(path, expected, name, remedy)
    return resolved


def read_table(
    path: pathlib.Path,
    file_format: str,
    columns: Sequence[str],
    optional_columns: Sequence[str] = (),
) -> list[Record]:
    """Reads the rows of a CSV, TSV or JSON lines file.

    Rows must have `columns` and may have `optional_columns`.
    """
    resolved = resolve_format(path, file_format)
    names, num_left_out = (*columns, *optional_columns), 0
    records = []
    for place, row in read_rows(path, resolved, columns):
        # Spreadsheets write rows of empty cells, Prodigy what was rejected.
        is_prodigy, answer = "_input_hash" in row, row.get("answer", "accept")
        is_empty = all(cell == "" for cell in row.values())
        if is_empty or (is_prodigy and answer != "accept"):
            num_left_out += 1
            continue
        values = {name: row[name] for name in names if name in row}
        records.append(Record(place, values))
    if num_left_out:
        logging.warning(
            f"{path}: {num_left_out} rows are left out, which are empty or "
            "whose `answer` is not accept."
        )
    if not records:
        raise unexpected(path, f"rows of {', '.join(columns)}")
    return records


def read_rows(
    path: pathlib.Path,
    file_format: str,
    columns: Sequence[str],
    remedy: str = "",
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the place of each row of a table, and a dict of its cells.

    The first line of CSV and TSV names the columns. The delimiter of CSV is the
    sign that occurs most often in that line: a comma, semicolon, tab or `|`.
    TSV has quotation marks around cells if it has them around all names. Rows
    must have `columns`. A `remedy` says how to name columns, which must then
    all differ.
    """
    if file_format in ("jsonl", "fasttext"):
        is_json = file_format == "jsonl"
        for place, row in (_read_objects if is_json else _read_fasttext)(path):
            _require_columns(place, list(row), columns, remedy)
            yield place, row
        return
    delimiter = _find_delimiter(path, file_format)
    if delimiter:
        rows = _read_quoted(path, delimiter)
    else:
        rows = ((n, line.split("\t")) for n, line in read_filled_lines(path))
    _, header = next(rows, (0, []))
    if header == ["sep=", ""]:  # Excel names the delimiter.
        _, header = next(rows, (0, []))
    header = [name.strip() for name in header]
    if not any(header):
        expected = f"a first line with the columns {', '.join(columns)}"
        raise unexpected(path, expected)
    for names in (columns, header if remedy else ()):
        _require_columns(f"{path}, line 1", header, names, remedy, True)
    num_quoted = 0
    for number, fields in rows:
        place = f"{path}, line {number}"
        require_width(place, fields, len(header), ", ".join(header))
        is_header = [field.strip() for field in fields] == header
        if is_header or _RULE.fullmatch("".join(fields)):
            expected = "the names of columns in the first line alone"
            remedy = "Remove the line."
            raise unexpected(place, expected, " ".join(fields), remedy)
        num_quoted += not delimiter and any(map(_is_quoted, fields))
        yield place, dict(zip(header, fields, strict=True))
    if num_quoted:
        logging.warning(
            f"{path}: in {num_quoted} rows quotation marks around a cell are "
            "read as text. Save the file as CSV if they only quote the cell."
        )


def _find_delimiter(path: pathlib.Path, file_format: str) -> str:
    """Returns the delimiter of quoted fields, or "" for TSV without quotes."""
    _, line = next(read_lines(path), (1, ""))
    if file_format == "tsv":
        return "\t" * all(map(_is_quoted, line.split("\t")))
    return readers.split_header(line)[0]


def _is_quoted(field: str) -> bool:
    return len(field) > 1 and field[0] == field[-1] == '"'


def _read_objects(path: pathlib.Path) -> Iterator[tuple[str, dict]]:
    """Yields place and object: one per line, or the rows of one value."""
    for place, value in read_values(path):
        if (items := _list_rows(value)) == [value]:
            yield place, _to_row(value, place)
            continue
        places = [f"{path}, object {n}" for n, _ in enumerate(items, 1)]
        rows = list(map(_to_row, items, places))
        # A text without annotations has no list of them.
        empty = dict.fromkeys(itertools.chain(*rows))
        yield from ((p, empty | r) for p, r in zip(places, rows, strict=True))


def _read_fasttext(path: pathlib.Path) -> Iterator[tuple[str, dict]]:
    """Yields place and columns of lines such as `__label__a the text`."""
    for number, line in read_filled_lines(path):
        labels = _FASTTEXT_LABEL.findall(line)
        text = _FASTTEXT_LABEL.sub("", line).strip()
        yield f"{path}, line {number}", {"text": text, "label": labels}


def _list_rows(value: Any) -> list:
    """Returns the items of a list or of `data`, or rows as pandas orients."""
    match value:
        case {"columns": [*names], "data": [*rows]}:
            return [dict(zip(names, row, strict=False)) for row in rows]
        case {"data": [{}, *_] as rows, **rest} if rest.keys() <= _WITH_DATA:
            return rows
        case [str(), {}]:
            return [value]
        case [*rows]:
            return rows
    columns = value.values() if isinstance(value, dict) else ()
    if not columns or not all(isinstance(part, dict) for part in columns):
        return [value]
    first, *_ = columns
    if all(map(str.isdecimal, value)):
        return list(columns)
    if not first or not all(map(str.isdecimal, first)):
        return [value]
    return [{n: cells.get(key) for n, cells in value.items()} for key in first]


def _read_quoted(
    path: pathlib.Path, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yields the number of each row's first line, and the row's fields."""
    lines = (f"{line}\n" for _, line in read_lines(path))
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    # A context of question answering may be longer than the default limit.
    limit = csv.field_size_limit(sys.maxsize)
    begin = 1
    try:
        for fields in reader:
            if len(fields) > 1 or "".join(fields).strip():
                yield begin, fields
            begin = reader.line_num + 1
    except csv.Error as error:
        expected = f"fields between {delimiter!r}, quotation marks doubled"
        received = f"{error}, line {reader.line_num}"
        raise unexpected(f"{path}, line {begin}", expected, received) from error
    finally:
        csv.field_size_limit(limit)


def require_width(
    place: str, fields: Sequence[str], width: int, names: str
) -> None:
    """Raises `DataError` unless a line has `width` fields."""
    if len(fields) != width:
        expected = f"{width} fields ({names}) instead of {len(fields)}"
        raise unexpected(place, expected, " ".join(fields))


def _require_columns(
    place: str,
    present: Sequence[str],
    columns: Sequence[str],
    remedy: str = "",
    is_header: bool = False,
) -> None:
    for name in columns:
        if (count := present.count(name)) != 1:
            hint = f"{schema.suggest(name, present)} Rename it"
            is_other = is_header and not set(present) & set(columns)
            if is_other and hint.startswith("Known"):
                hint = f"Line 1 must name the columns. {hint}"
            hint = "Rename the others" if count else hint
            change = f"change the setting of the section `own` that is {name!r}"
            remedy = f"{hint}, or {remedy or change}."
            if name in ("label", "labels"):
                remedy += " If each label has a column, list them: a,b,c."
            raise unexpected(place, f"one column {name!r}", count, remedy)


def read_published(kind: str) -> dict[str, dict[str, Any]]:
    """Reads the table `kind` of `published.toml`."""
    folder = importlib.resources.files("electra_tf.tasks")
    content = folder.joinpath("published.toml").read_text("utf-8")
    return tomllib.loads(content)[kind]
