"""The cells of a user's table: texts, names, labels, numbers, lists.

CSV and TSV hold strings alone, JSON lines also numbers, truth values and lists.
Every function raises `DataError`, which names the file and the line, for a cell
that it cannot read.
"""

import contextlib
import json
from collections.abc import Sequence
from typing import Any

from electra_tf.tasks import files


def is_empty(record: files.Record, column: str) -> bool:
    """Whether a row has no such cell, or nothing in it."""
    return record.values.get(column) in (None, "")


def read_text(record: files.Record, column: str) -> str:
    """Reads a text; JSON may hold a whole number, for an id say."""
    value = record.values[column]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        expected = f"a text in column {column!r}"
        raise files.unexpected(record.place, expected, value)
    return value


def read_name(record: files.Record, column: str) -> str:
    """Reads an id, which JSON may hold as a number."""
    return _to_name(record, column, record.values[column])


def read_labels(
    record: files.Record, column: str, separator: str = ""
) -> tuple[str, ...]:
    """Reads the label of a row, or all of them.

    A `separator` stands between the labels in a string; a list of JSON needs
    none. If it is empty there is exactly one label.
    """
    cell: Any = record.values.get(column)
    values = [cell]
    if separator and isinstance(cell, list):
        values = cell
    elif separator:
        parts = "" if cell is None else str(cell)
        values = [p for part in parts.split(separator) if (p := part.strip())]
    for value in values:
        if isinstance(value, list | dict | None) or not str(value).strip():
            raise files.unexpected(record.place, "a label", value)
    names = (_to_name(record, column, value) for value in values)
    return tuple(dict.fromkeys(names))


def _to_name(record: files.Record, column: str, value: Any) -> str:
    name = value if isinstance(value, str) else json.dumps(value)
    if set(name) & set("\t\r\n"):
        # Predictions are written with it, in a table with tabs.
        expected = f"no tabs and line ends in column {column!r}"
        raise files.unexpected(record.place, expected, name)
    return name


def read_number(
    record: files.Record, column: str, low: float, high: float
) -> float:
    """Reads a number of a range."""
    value = record.values.get(column)
    number = files.parse_number(value)
    if not low <= number <= high:
        expected = f"a number from {low} to {high} as {column!r}"
        flags = "--config.own.min_value and --config.own.max_value"
        remedy = f"Repair the row, or set {flags}."
        raise files.unexpected(record.place, expected, value, remedy)
    return number


def read_words(record: files.Record, column: str) -> tuple[str, ...]:
    """Reads a list of strings, or the parts of a string between blanks."""
    items: Any = record.values[column]
    if isinstance(items, str) and items.lstrip().startswith('["'):
        with contextlib.suppress(ValueError, RecursionError):
            items = json.loads(items)
    elif isinstance(items, str):
        items = items.split()
    if not (items and isinstance(items, list)) or not all(
        isinstance(item, str) and item.strip() and not set(item) & set("\t\n")
        for item in items
    ):
        expected = (
            f"in {column!r} a list of strings, none of them empty or with tabs "
            "or line ends, or a string of parts between blanks"
        )
        raise files.unexpected(record.place, expected, record.values[column])
    return tuple(items)


def read_choices(record: files.Record, columns: Sequence[str]) -> list[str]:
    """Reads the choices of a row: a list, or the first filled cells."""
    cells: Any = [record.values[name] for name in columns]
    if len(cells) == 1 and isinstance(cells[0], list):
        cells = cells[0]
    texts = [cell if isinstance(cell, str) else "" for cell in cells]
    count = sum(bool(text.strip()) for text in texts)
    if count < 2 or not all(text.strip() for text in texts[:count]):
        expected = f"two or more texts in {','.join(columns)!r}, none empty"
        remedy = "Repair the row; --config.own.choices_column names columns."
        raise files.unexpected(record.place, expected, str(cells), remedy)
    return texts[:count]
