"""The cells of a user's table: texts, names, labels, numbers, lists.

CSV and TSV hold strings alone, JSON lines also numbers, truth values, lists and
objects. `understand` is the one place that decides what a cell is. All other
functions raise `DataError`, which names the file and the line, for a cell that
they cannot read.
"""

import ast
import contextlib
import itertools
import json
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from absl import logging

from electra_tf.tasks import files

MISSING = ("NaN", "nan", "NA", "N/A", "n/a", "<NA>", "#N/A", "NaT", "null",
           "NULL", "None")  # fmt: skip
"""How programs write that there is no label, as pandas reads it."""
_BLANKS = " \t\r\n\v\f\xa0\u200b\ufeff"
# One item of a list: in quotes, a number or a truth value.
_ITEM = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w+-][\w.+-]*)\s*,?""",
    re.DOTALL,
)
# What NumPy writes around an item.
_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")
# A list that is not whole, or of another program; bytes of Python.
_REST = re.compile(r"""[\[{]|(\w+\(\[?|b)['"]""")
# Three zeros may be those of thousands.
_WHOLE = re.compile(r"(-?\d+)\.(?!000$)0+")
# A number with a point that may stand before thousands.
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
# A string that may be a list: a bracket, then a quote or a number.
_STARTS_LIST = re.compile(r"""\s*((\w[\w.]*)?[\[(]\s*)+(b?['"]|[-\d.])""")
# What is left of a list that was split at blanks in the place of a tag.
_BROKEN_TAG = re.compile(r"""[\[({'"]+\w.*|.*\w[\])}'"]+,?""")
# A list that is not closed, or one of numbers, in the place of words.
_BROKEN_LIST = re.compile(
    r"""\s*\[(\s*b?['"]|-?\d+[,\s].*\d\]\s*$)""", re.DOTALL
)
_COMMAS = re.compile(r"""[^\s,"(){}[\]]+(,\s*[^\s,"(){}[\]]+)+""")
# What holds the labels in an object, if it has no 0 or 1 for each.
_LABEL_KEYS = "labels", "choices"
TRUE = {"1", "true"}
BOOLEANS = {"0", "false", *TRUE}
YES, NO = {*TRUE, "yes", "y", "x"}, {"0", "false", "no", "n"}
"""What cells say of what their column is called, in lower case."""
_STARTS = {"start", "start_offset"}


def understand(cell: Any) -> Any:
    """What a cell is: None, a string, a number, a list or an object.

    A string that is a list or an object in JSON, Python or NumPy is one. Other
    strings lose quotes and blanks around them. NaN and empty strings are None,
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
    plain = _SCALAR.sub(r"\1", text)
    is_quoted = plain[:1] in ("'", '"')
    plain = f"[{plain}]" if is_quoted else plain
    value: Any = [] if plain == "set()" else None
    if plain[:1] + plain[-1:] in ("[]", "{}"):
        # NumPy puts no commas, and Python would glue its strings together.
        items = _ITEM.sub(r"\1, ", plain[1:-1])
        value = _evaluate(f"[{items}]")
    if value is None and plain[:1] in ("[", "{", "("):
        value = _evaluate(plain)
    if is_quoted and value and len(value) == 1:
        return value[0]
    return (text or None) if value is None else value


def _evaluate(text: str) -> Any:
    """The list or the object that a string is in Python, if it is one."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None
    value = list(value) if isinstance(value, tuple) else value
    return value if isinstance(value, list | dict) else None


def is_empty(record: files.Record, column: str) -> bool:
    """Whether a row has no such cell, or nothing in it."""
    return understand(record.values.get(column)) is None


def read_text(record: files.Record, column: str) -> str:
    """Reads a text; JSON may hold a whole number, for an id say."""
    value = record.values[column]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    expected, remedy = f"a text in column {column!r}", "Remove the row."
    # pandas writes a missing text so that was made a string.
    if value in ("nan", "NaN"):
        raise files.unexpected(record.place, expected, value, remedy)
    if not isinstance(value, str):
        if is_empty(record, column):
            raise files.unexpected(record.place, expected, "null", remedy)
        remedy = 'Write a row for each text (in pandas, orient="records").'
        raise files.unexpected(record.place, expected, value, remedy)
    return value


def read_name(record: files.Record, column: str) -> str:
    """Reads an id, which JSON may hold as a number."""
    if is_empty(record, column):
        raise files.unexpected(record.place, f"an id in column {column!r}")
    return _to_name(record, column, record.values[column])


def read_labels(
    record: files.Record,
    column: str,
    separator: str = "",
    known: Collection[str] = (),
) -> tuple[str, ...]:
    """Reads the labels of a row, none where they are missing.

    They are in a list, in an object, between `separator`s, or alone. Spellings
    of one thing become one (`1.0` is `1`, `True` is `true`), unless they are
    `known` as they stand.
    """
    cell = record.values.get(column)
    if label_name(cell, known) in known:
        return (str(label_name(cell, known)),)
    value = understand(cell)
    if isinstance(value, dict):
        key = next((key for key in _LABEL_KEYS if key in value), None)
        held = (name for name in value if read_truth(record, name, value))
        value = value[key] if key else list(held)
    values = value if isinstance(value, list) else [value]
    if isinstance(value, str) and separator:
        values = value.split(separator)
    for item in values:
        is_share = isinstance(item, float) and item % 1 and item is not value
        is_rest = isinstance(item, str) and _REST.match(item)
        is_none = isinstance(item, list | dict) or is_share or is_rest
        if is_none and label_name(item) not in known:
            expected = "a label, a list of labels, or an object of 0 and 1"
            remedy = "Repair it, or list all labels in --config.own.labels."
            raise files.unexpected(record.place, expected, f"{cell}", remedy)
    names = (label_name(value, known) for value in values)
    return tuple(
        _to_name(record, column, name) for name in names if name is not None
    )


def read_truth(
    record: files.Record,
    label: str,
    held: Mapping[str, Any],
    empty: bool | None = None,
) -> bool:
    """Reads whether a row has a label, from the cell that is called like it.

    `empty` is what an empty cell says, None if it is refused.
    """
    word = (label_name(held.get(label)) or "").lower()
    if not word and empty is not None:
        return empty
    if word not in YES | NO | {label.lower()}:
        expected = f"0 or 1, no or yes, or false or true as {label!r}"
        raise files.unexpected(record.place, expected, held.get(label))
    return word not in NO


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


def _to_name(record: files.Record, column: str, value: Any) -> str:
    name = value if isinstance(value, str) else json.dumps(value)
    if set(name) & set("\t\r\n"):
        # Predictions are written with it, in a table with tabs.
        expected = f"no tabs and line ends in column {column!r}"
        raise files.unexpected(record.place, expected, name)
    return name


def read_number(
    record: files.Record,
    column: str,
    low: float = -math.inf,
    high: float = math.inf,
) -> float:
    """Reads a finite number of a range."""
    value = record.values.get(column)
    number = files.parse_number(value)
    if not low <= number <= high or math.isinf(number):
        bounds = f" from {low} to {high}" * math.isfinite(high - low)
        expected = f"a number{bounds} as {column!r}"
        remedy = "Write a plain number, such as 1234.5, or remove the row."
        if math.isfinite(number):
            flags = "--config.own.min_value and --config.own.max_value"
            remedy = f"Repair the row, or set {flags}."
        raise files.unexpected(record.place, expected, value, remedy)
    return number


def refuse_thousands(records: Sequence[files.Record], column: str) -> None:
    """Raises if points of a column seem to stand before thousands.

    They do in 1.234 beside 950; if all numbers are such, it is but told.
    """
    texts = [record.values.get(column) for record in records]
    found = [t for t in texts if isinstance(t, str) and "." in t]
    if not found or not all(map(_THOUSANDS.fullmatch, found)):
        return
    place = records[texts.index(found[0])].place
    remedy = "Write thousands without a point, as 1234"
    if len(found) == len(texts):
        told = f"{place}: {found[0]!r} is read as {float(found[0]):g}."
        logging.warning(f"{told} {remedy}, if it is one of them.")
        return
    expected = f"numbers in {column!r} whose points are surely decimal"
    remedy += "; if they are decimal, set own.min_value and own.max_value."
    raise files.unexpected(place, expected, found[0], remedy)


def read_words(
    record: files.Record, column: str, are_tags: bool = False
) -> tuple[str, ...]:
    """Reads a list of words or tags, or the parts of a string between blanks.

    A string may be written as a list. Tags may be numbers of classes.
    """
    cell = items = record.values[column]
    if not isinstance(cell, str) or _STARTS_LIST.match(cell):
        items = understand(cell)
    items = items if isinstance(items, list) else []
    takes_numbers = are_tags or any(isinstance(item, str) for item in items)
    # Numbers in brackets are words in a text, as in "[ 1 ]".
    if isinstance(cell, str) and not (items and takes_numbers):
        items = cell.split()
        is_broken = are_tags and any(map(_BROKEN_TAG.fullmatch, items))
        items = [] if is_broken or _BROKEN_LIST.match(cell) else items
    words: list[Any] = [
        label_name(item)
        if takes_numbers and isinstance(item, int | float)
        else item
        for item in items
    ]
    if are_tags:
        words = [w.strip() if isinstance(w, str) else w for w in words]
    if not words or not all(isinstance(w, str) and w for w in words):
        expected = f"in {column!r} a list of strings, none of them empty"
        remedy = "Write a JSON list, or put blanks between the strings."
        if isinstance(cell, str) and "..." in cell:
            remedy = "Write whole lists: NumPy left some out for its `...`."
        raise files.unexpected(record.place, expected, cell, remedy)
    return tuple(words)


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


def read_choices(
    record: files.Record, columns: Sequence[str]
) -> dict[str, str]:
    """Reads the choices of a row, by the names that they have.

    They are the first filled cells, or a list, of objects or not, or an object
    in one. What has no name is called by its place and a full stop.
    """
    pairs: Any = [(name, record.values[name]) for name in columns]
    value = understand(pairs[0][1]) if len(pairs) == 1 else None
    if isinstance(value, dict) and isinstance(value.get("text"), list):
        names = value.get("label", [])  # as in ARC
        pairs = list(itertools.zip_longest(names, value["text"]))
    elif isinstance(value, dict):
        pairs = list(value.items())
    elif isinstance(value, list):
        parts = [c if isinstance(c, dict) else {"text": c} for c in value]
        pairs = [(c.get("label", c.get("key")), c.get("text")) for c in parts]
    choices = {
        label_name(name) or f"{place}.": cell
        if isinstance(cell, str)
        else ""
        if understand(cell) is None
        else json.dumps(cell)
        for place, (name, cell) in enumerate(pairs)
    }
    count = sum(bool(text.strip()) for text in choices.values())
    filled = dict(itertools.islice(choices.items(), count))
    is_whole = all(text.strip() for text in filled.values())
    if count < 2 or not is_whole or len(choices) < len(pairs):
        expected = f"two or more texts in {','.join(columns)!r}, none empty"
        remedy = "Repair the row; --config.own.choices_column names columns."
        received = str([record.values[name] for name in columns])
        raise files.unexpected(record.place, expected, received, remedy)
    return filled
