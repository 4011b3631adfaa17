"""JSON files whose records are checked field by field.

Every error says where: file, record, key, and what was there instead.
"""

import gzip
import json
import pathlib
import zlib
from collections.abc import Iterator
from typing import Any

from electra_tf.tasks import files
from electra_tf.tasks.task import TaskDataError

_KINDS = {str: "a string", int: "a whole number", list: "a list", dict: "an "
          "object", bool: "true or false"}  # fmt: skip


def get(record: Any, key: str, kind: type, place: str) -> Any:
    """A value of a JSON object, which must be there and of a kind.

    Args:
        record: the object, as parsed.
        key: of the value.
        kind: `str`, `int`, `bool`, `list` or `dict`.
        place: file and record, for errors.

    Raises:
        TaskDataError: if it is not.
    """
    if not isinstance(record, dict):
        raise TaskDataError(
            f"{place}: expected an object with {key!r}. Received: "
            f"{str(record)[:60]!r}."
        )
    if key not in record:
        raise TaskDataError(
            f"{place}: expected the key {key!r}. Received only: "
            f"{', '.join(map(repr, record)) or 'none'}."
        )
    return require(record[key], kind, key, place)


def require(value: Any, kind: type, key: str, place: str) -> Any:
    """The value itself, if it is of a kind; as `get`."""
    # In JSON true is no number.
    is_kind = isinstance(value, kind) and not (
        kind is int and isinstance(value, bool)
    )
    if not is_kind:
        raise TaskDataError(
            f"{place}: expected {key!r} to be {_KINDS[kind]}. Received: "
            f"{str(value)[:60]!r}."
        )
    return value


def parse_json(path: pathlib.Path) -> Any:
    """The content of a JSON file.

    Raises:
        FileNotFoundError: if there is no such file.
        TaskDataError: names line and character of what is no JSON.
    """
    try:
        return json.loads("\n".join(line for _, line in files.read_lines(path)))
    except json.JSONDecodeError as error:
        raise TaskDataError(
            f"{path}, line {error.lineno}, character {error.colno}: expected "
            f"JSON of SQuAD's form. Received: {error.msg}. Take the official "
            "file."
        ) from error


def parse_line(line: str, place: str) -> dict:
    """The object on a line of a JSON lines file.

    Args:
        line: without its end.
        place: file and line, for errors.

    Raises:
        TaskDataError: if it is none.
    """
    try:
        record = json.loads(line)
    except ValueError as error:
        raise TaskDataError(
            f"{place}: expected a JSON object. Received: {line[:60]!r} "
            f"({error}). Repair the line."
        ) from error
    if not isinstance(record, dict):
        raise TaskDataError(
            f"{place}: expected a JSON object. Received: {line[:60]!r}."
        )
    return record


def read_lines(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Line numbers from 1 and lines; of a `.gz` file the lines inside.

    Raises:
        FileNotFoundError: if there is no such file.
        TaskDataError: if it is damaged, or no UTF-8.
    """
    if path.suffix != ".gz":
        yield from files.read_lines(path)
        return
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            yield from enumerate(file, 1)
    except (
        EOFError,
        gzip.BadGzipFile,
        zlib.error,
        UnicodeDecodeError,
    ) as error:
        raise TaskDataError(
            f"{path}: expected compressed JSON lines. Received: {error}. "
            "Download the file again."
        ) from error
