"""The cells of a user's table: texts, names, labels, numbers, lists.

CSV and TSV hold strings alone, JSON lines also numbers, truth values, lists and
objects. `understand` is the one place that decides what a cell is. All other
functions raise `DataError`, which names the file and the line, for a cell that
they cannot read.
"""

import ast
import collections
import contextlib
import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from electra_tf.tasks import files

MISSING = ("NaN", "nan", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaT", "null",
           "NULL", "None")  # fmt: skip
"""How programs write that there is no label, as pandas reads it."""
_BLANKS = " \t\r\n\v\f\xa0\u200b\ufeff"
_PAIRS = "[]", "()", "{}"
# One item of a list: in quotes, or bare up to the next comma or blank.
_ITEM = re.compile(
    r"""\s*(?:(b?(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))|"""
    r"""([^\s,'"\[\](){}:]+))\s*(,?)""",
    re.DOTALL,
)
# Calls around lists (NumPy, pandas, R) and around their items (NumPy).
_CALL = re.compile(
    r"(?:np\.|numpy\.)?(?:array|list|tuple|set|frozenset|Index|tensor|c)"
    r"\((.*?)(?:,\s*dtype=[^()]*)?\)",
    re.DOTALL,
)
_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")
_QUOTED = re.compile(r"""b?(['"]).*\1""", re.DOTALL)
_BITS = re.compile(r"[01](?:[\s,;|]+[01])+")
_WHOLE = re.compile(r"(-?\d+)\.0+")
# A string that may be a list: a bracket, then a quote or a number.
_STARTS_LIST = re.compile(r"""\s*((\w[\w.]*)?[\[(]\s*)+(b?['"]|[-\d.])""")
# What is left of a list that was split at blanks in the place of a tag.
_BROKEN_TAG = re.compile(r"""[\[({'"]+\w.*|.*\w[\])}'"]+,?""")
_COMMAS = re.compile(r"""[^\s,"(){}[\]]+(,\s*[^\s,"(){}[\]]+)+""")
# Of an object, what holds its labels, as label tools and libraries call it.
_LABEL_KEYS = "labels", "label", "choices", "choice", "value"
_TRUE = {"1", "true"}
_STARTS = {"start", "start_offset"}
_BOOLEANS = {"0", "false", *_TRUE}


def understand(cell: Any) -> Any:
    """What a cell is: None, a string, a number, a list or an object.

    A string that is written as a list or an object is one, as JSON, Python,
    NumPy or R write them; so are zeros and ones between blanks or commas.
    Strings lose quotes and blanks around them. NaN and empty strings are None,
    but a name such as `NA` (see `MISSING`) stays a string: it may be a word.
    """
    if hasattr(cell, "tolist"):
        cell = cell.tolist()  # of NumPy
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if not isinstance(cell, str):
        return list(cell) if isinstance(cell, tuple) else cell
    text = cell.strip(_BLANKS)
    if text[:1] in ("[", "{", '"'):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(text)
    if _BITS.fullmatch(text):
        return [int(bit) for bit in re.findall("[01]", text)]
    plain = _SCALAR.sub(r"\1", text)
    if called := _CALL.fullmatch(plain):
        plain = called[1].strip()
        plain = plain if plain[:1] + plain[-1:] in _PAIRS else f"[{plain}]"
    value = None
    if plain[:1] + plain[-1:] in _PAIRS:
        value = _split_list(plain) or _evaluate(plain)
    elif _QUOTED.fullmatch(plain):
        value = _split_list(f"[{plain}]")
        value = value[0] if value and len(value) == 1 else value
    return (text or None) if value is None else value


def _split_list(text: str) -> list[Any] | None:
    """The items of a flat list, with commas or, as in NumPy, without them.

    Python itself would glue the strings of NumPy's lists together.
    """
    body, place = text[1:-1].strip(), 0
    items, has_names, has_gaps = list[Any](), False, False
    while place < len(body):
        item = _ITEM.match(body, place)
        if item is None:
            return None
        quoted, bare, comma = item.groups()
        place = item.end()
        has_gaps |= not comma and place < len(body)
        value = _evaluate(quoted) if quoted else bare
        if bare in ("True", "False", "None", "nan"):
            value = {"True": True, "False": False}.get(bare)
        elif bare and not math.isnan(number := files.parse_number(bare)):
            value = int(number) if number.is_integer() else number
        elif bare:
            has_names = True
        items.append(value)
    is_word = text[0] == "(" and (has_names or len(items) == 1)
    return None if is_word or (has_names and has_gaps) else items


def _evaluate(text: str) -> Any:
    """What a string means in Python, if it is a list, an object or quoted."""
    try:
        value = ast.literal_eval(text)
        value = value.decode() if isinstance(value, bytes) else value
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if isinstance(value, tuple | set):
        value = list(value)
    return value if isinstance(value, str | list | dict) else None


def is_empty(record: files.Record, column: str) -> bool:
    """Whether a row has no such cell, or nothing in it."""
    cell = record.values.get(column)
    is_blank = isinstance(cell, str) and not cell.strip(_BLANKS)
    return cell is None or cell != cell or is_blank


def read_text(record: files.Record, column: str) -> str:
    """Reads a text; JSON may hold a whole number, for an id say."""
    value = record.values[column]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        expected, remedy = f"a text in column {column!r}", "Remove the row."
        if is_empty(record, column):
            raise files.unexpected(record.place, expected, "null", remedy)
        raise files.unexpected(record.place, expected, value)
    return value


def read_name(record: files.Record, column: str) -> str:
    """Reads an id, which JSON may hold as a number."""
    if is_empty(record, column):
        raise files.unexpected(record.place, f"an id in column {column!r}")
    return _to_name(record, column, record.values[column])


def read_labels(
    record: files.Record,
    columns: Sequence[str],
    separator: str = "",
    known: Collection[str] = (),
) -> tuple[str, ...]:
    """Reads the labels of a row, none where they are missing.

    They are in a list, in an object, between `separator`s, alone, or, if there
    are several `columns`, the names of those that hold 1 or true. Spellings of
    one thing become one (`1.0` is `1`, `True` is `true`), unless they are
    `known` as they stand.
    """
    if len(columns) > 1:
        held = {name: record.values.get(name) for name in columns}
        return tuple(_held_labels(record, held))
    cell = record.values.get(columns[0])
    if label_name(cell, known) in known:
        return (str(label_name(cell, known)),)
    value = understand(cell)
    values: list[Any] = [value]
    if isinstance(value, str) and separator:
        values = value.split(separator)
    elif isinstance(value, list | dict):
        values = _open_labels(record, value)
    names = (label_name(value, known) for value in values)
    found = tuple(name for name in names if name is not None)
    for name in found:
        remedy = "Repair the file."
        if separator:
            remedy = (
                "Are labels between them? Set --config.own.label_separator."
            )
        _to_name(record, columns[0], name, remedy)
        if name not in known and name[:1] in ("[", "{"):
            expected = f"a label or a whole list in {columns[0]!r}"
            remedy = "Repair it, or list all labels in --config.own.labels."
            raise files.unexpected(record.place, expected, name, remedy)
    return found


def _open_labels(record: files.Record, value: Any) -> list[Any]:
    """Returns what a list or an object has for labels, in one list."""
    found = list[Any]()
    for item in value if isinstance(value, list) else [value]:
        # What has a start is about a part of the text.
        if isinstance(item, dict) and not _STARTS & {*item}:
            key = next((key for key in _LABEL_KEYS if key in item), None)
            if key:
                found += _open_labels(record, item[key])
                continue
            if {label_name(cell) for cell in item.values()} <= _BOOLEANS:
                found += _held_labels(record, item)
                continue
        is_share = isinstance(item, float) and item % 1
        if is_share or isinstance(item, list | dict):
            expected = (
                "a label, a list of labels, or an object with one of "
                f"{', '.join(_LABEL_KEYS)}, or with 0 or 1 for each label"
            )
            raise files.unexpected(record.place, expected, value)
        found.append(item)
    return found


def _held_labels(record: files.Record, held: Mapping[str, Any]) -> list[str]:
    """The names that have 1 or true, of those with 0 or 1 each."""
    bits = {name: label_name(cell) for name, cell in held.items()}
    for name, bit in bits.items():
        if bit not in _BOOLEANS:
            expected = f"0 or 1 (or false or true) for the label {name!r}"
            raise files.unexpected(record.place, expected, held[name])
    return [name for name, bit in bits.items() if bit in _TRUE]


def label_name(value: Any, known: Collection[str] = ()) -> str | None:
    """The name of a label in its one spelling, or None if it is missing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    name = value if isinstance(value, str) else json.dumps(value, default=str)
    if name in known:
        return name
    name = unicodedata.normalize("NFC", name.strip(_BLANKS))
    if name in known:
        return name
    if whole := _WHOLE.fullmatch(name):
        name = whole[1]
    elif name in ("True", "TRUE", "False", "FALSE"):
        name = name.lower()
    return None if not name or name in MISSING else name


def find_numbers(values: Iterable[Any]) -> list[float]:
    """The numbers that all values are which are not missing, or an empty list.

    Truth values are none.
    """
    filled = [v for v in values if isinstance(v, list) or label_name(v)]
    numbers = [files.parse_number(value) for value in filled]
    return [] if any(map(math.isnan, numbers)) else numbers


def find_separator(
    names: Collection[str], signs: Iterable[str], needs_all: bool
) -> str:
    """The sign between the labels of a cell, if names look like several.

    It is the first of `signs` for which all parts of a name are also elsewhere,
    or, unless `needs_all`, for which a name has parts.
    """
    for sign in signs:
        parts = {name: {*_split(name, sign)} for name in names}
        counts = collections.Counter(p for own in parts.values() for p in own)
        for own in parts.values():
            is_repeated = all(counts[part] > 1 for part in own)
            if len(own) > 1 and (is_repeated or not needs_all):
                return sign
    return ""


def _split(name: str, sign: str) -> Iterator[str]:
    return filter(None, (part.strip(_BLANKS) for part in name.split(sign)))


def _to_name(
    record: files.Record,
    column: str,
    value: Any,
    remedy: str = "Repair the file.",
) -> str:
    name = value if isinstance(value, str) else json.dumps(value)
    if set(name) & set("\t\r\n"):
        # Predictions are written with it, in a table with tabs.
        expected = f"no tabs and line ends in column {column!r}"
        raise files.unexpected(record.place, expected, name, remedy)
    return name


def read_number(
    record: files.Record,
    column: str,
    low: float = -math.inf,
    high: float = math.inf,
) -> float:
    """Reads a finite number of a range."""
    value = record.values.get(column)
    cell = understand(value)
    is_one = isinstance(cell, list) and len(cell) == 1
    number = files.parse_number(cell[0] if is_one else cell)
    if not low <= number <= high or math.isinf(number):
        bounds = f" from {low} to {high}" * math.isfinite(high - low)
        expected = f"a number{bounds} as {column!r}"
        remedy = "Repair the row."
        if math.isfinite(number):
            flags = "--config.own.min_value and --config.own.max_value"
            remedy = f"Repair the row, or set {flags}."
        elif label_name(value) is None:
            remedy = "Remove the row, or give it a number."
        elif isinstance(value, str) and "," in value:
            remedy = "Write numbers with a decimal point, without commas."
        raise files.unexpected(record.place, expected, value, remedy)
    return number


def read_words(
    record: files.Record, column: str, are_tags: bool = False
) -> tuple[str, ...]:
    """Reads a list of words or tags, or the parts of a string between blanks.

    A string may be written as a list. Tags may be numbers of classes; words may
    be objects with a `text`.
    """
    cell = items = record.values[column]
    if not isinstance(cell, str) or _STARTS_LIST.match(cell):
        items = understand(cell)
    if isinstance(items, list) and isinstance(cell, str) and not are_tags:
        # A bracket around numbers may be words, as "[ 1 ]" and "(1)" are.
        are_numbers = all(isinstance(item, int | float) for item in items)
        is_text = cell.split()[-1] in ("]", ")") or len(items) < 2
        items = cell if are_numbers and is_text else items
    is_split = isinstance(items, str)
    if is_split and not re.match(r"\s*\[\s*b?['\"]", items):
        items = items.split()
    items = items if isinstance(items, list) else [None]
    takes_numbers = are_tags or any(isinstance(item, str) for item in items)
    words = [_to_word(item, are_tags, takes_numbers) for item in items]
    is_broken = is_split and are_tags and any(map(_BROKEN_TAG.fullmatch, words))
    if not words or "" in words or is_broken:
        expected = f"in {column!r} a list of strings, none of them empty"
        remedy = "Write a JSON list, or put blanks between the strings."
        if isinstance(cell, str) and "..." in cell:
            remedy = "Write whole lists: NumPy left some out for its `...`."
        raise files.unexpected(record.place, expected, cell, remedy)
    return tuple(words)


def _to_word(item: Any, is_tag: bool, takes_numbers: bool) -> str:
    """A word or tag of a list as a string; empty if it is none."""
    if isinstance(item, dict):
        item = item.get("text")
    is_number = isinstance(item, int | float) and not isinstance(item, bool)
    if takes_numbers and is_number:
        return label_name(item) or ""
    if not isinstance(item, str):
        return ""
    return item.strip() if is_tag else item


def open_spans(cell: Any) -> list[Any] | None:
    """The places of spans in a text that a cell lists, None if it does not.

    Each is a list, or an object with its start. An empty list has none.
    """
    value = understand(cell)
    if isinstance(value, dict):  # as in spaCy's examples
        value = value.get("entities")
    if not isinstance(value, list):
        return None
    are_spans = all(
        isinstance(item, list | tuple)
        or (isinstance(item, dict) and _STARTS & {*item})
        for item in value
    )
    return value if are_spans else None


def split_commas(cell: Any) -> tuple[str, ...]:
    """The parts of a string between commas alone, none of another string.

    Commas with a blank before them are words, or tags.
    """
    is_list = isinstance(cell, str) and _COMMAS.fullmatch(cell.strip())
    return tuple(map(str.strip, cell.split(","))) if is_list else ()


def read_choices(record: files.Record, columns: Sequence[str]) -> list[str]:
    """Reads the choices of a row: a list, or the first filled cells."""
    cells: Any = [record.values[name] for name in columns]
    if len(cells) == 1:
        value = understand(cells[0])
        value = value.get("text") if isinstance(value, dict) else value
        cells = value if isinstance(value, list) else cells
    texts = [
        cell if isinstance(cell, str) else json.dumps(cell)
        for cell in (
            "" if cell is None or cell != cell else cell for cell in cells
        )
    ]
    count = sum(bool(text.strip()) for text in texts)
    if count < 2 or not all(text.strip() for text in texts[:count]):
        expected = f"two or more texts in {','.join(columns)!r}, none empty"
        remedy = "Repair the row; --config.own.choices_column names columns."
        raise files.unexpected(record.place, expected, str(cells), remedy)
    return texts[:count]
