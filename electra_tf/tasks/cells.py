"""Reads the cells of a user's table: texts, ids, labels, numbers, lists.

CSV and TSV hold strings only; JSON lines also hold numbers, truth values, lists
and objects. `understand` converts a cell to a Python value. The functions
`read_...` raise `DataError`, with file and line, for a cell of another type.
"""

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

_LOST = ("nan", "NaN", "\\N", "#NAME?", "#VALUE!", "#REF!", "#DIV/0!",
         "#NUM!", "#NULL!")  # fmt: skip
MISSING = (*_LOST, "NA", "N/A", "n/a", "<NA>", "#N/A", "NaT", "null", "NULL",
           "None")  # fmt: skip
"""Strings that pandas, databases and Excel write for a missing value."""
# Blanks, invisible signs, marks that say where text runs from right to left.
_BLANKS = (
    " \t\r\n\v\f\xa0\xad\u200b\u200d\u2060\u3000\ufeff\u200e\u200f\u061c"
    "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)
# One item of a list: in quotes, a number or a truth value.
_ITEM = re.compile(
    r"""(?s)("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\w+-][\w.+-]*)\s*,?"""
)
# A NumPy scalar as NumPy 2 prints it: `np.int64(3)`.
_SCALAR = re.compile(r"\bnp\.\w+\(([^()]*)\)")
# A NumPy array as pandas writes it into a cell: `array([3], dtype=int32)`.
_ARRAY = re.compile(r"\barray\((\[.*?\])(?:,\s*dtype=\S+?)?\)", re.DOTALL)
# The beginning of a list that could not be parsed, or of Python's bytes; or
# labels between angles, `<python><java>`.
_UNPARSED = re.compile(r"""[\[{]|\w+\(['"\[{(]|b['"]|<[^<>]+>.*<""")
# Three zeros may follow a separator of thousands.
_WHOLE = re.compile(r"(-?\d+)\.(?!000$)0+")
# A number whose point may be a separator of thousands.
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}\.\d{3}")
# A string that may be a list: a bracket, then a quote or a number.
_STARTS_LIST = re.compile(r"""\s*((\w[\w.]*)?[\[(]\s*)+(b?['"]|[-\d.])""")
# A "tag" that is part of a list which was split at blanks.
_BROKEN_TAG = re.compile(r"""[\[({'"]+\w.*|.*\w[\])}'"]+,?""")
# A list without its end, or a list of numbers, where words are expected.
_BROKEN_LIST = re.compile(r"""(?s)\s*\[(\s*b?['"]|-?\d+[,\s].*\d\]\s*$)""")
_COMMAS = re.compile(r"""[^\s,"(){}[\]]+(,\s*[^\s,"(){}[\]]+)+""")
TRUE = {"1", "true"}
BOOLEANS = {"0", "false", *TRUE}
_FALSE = {"0", "false", "no", "n"}
# Spreadsheets and people translate truth values.
_YES = """yes y x t on wahr vrai verdadero vero waar ja oui s\xed \u2713 \u662f
verdadeiro \u0434\u0430 \u306f\u3044"""
_NO = """f off falsch faux falso onwaar nein non nee n\xe3o \u2717 \u5426
\u043d\u0435\u0442 \u3044\u3044\u3048"""
YES, NO = {*TRUE, *_YES.split()}, {*_FALSE, *_NO.split()}
"""Values of a column that is named for a label, in lower case."""
# Members of an object that is a span.
_SPAN_KEYS = (
    ("start", "start_offset", "begin"),
    ("end", "end_offset"),
    ("label", "labels", "tag", "type", "category", "entity_group"),
    ("text",),
)


def understand(cell: Any) -> Any:
    """Converts a cell to None, a string, a number, a list or an object.

    A string that holds a list or an object, in the syntax of JSON, Python or
    NumPy, is parsed. Other strings lose quotes and blanks at their ends. NaN
    and empty strings become None; `NA` (see `MISSING`) may be a word and stays.
    """
    if hasattr(cell, "tolist"):  # a NumPy array or scalar
        cell = cell.tolist()
    if isinstance(cell, float) and math.isnan(cell):
        return None
    if not isinstance(cell, str):
        return list(cell) if isinstance(cell, tuple) else cell
    text = cell.strip(_BLANKS)
    if text == "set()":
        return []
    if text[:1] + text[-1:] not in ("[]", "{}", "()", '""', "''"):
        return text or None
    plain = _ARRAY.sub(r"\1", _SCALAR.sub(r"\1", text))
    is_quoted = text[0] in "'\""
    # NumPy writes no commas, and Python would concatenate its strings.
    listed = _ITEM.sub(r"\1, ", plain if is_quoted else plain[1:-1])
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    for form in (*[f"[{listed}]"] * (text[0] != "("), plain):
        with contextlib.suppress(ValueError, RecursionError):
            value = files.parse(form)
            return value[0] if is_quoted and len(value) == 1 else value
    return text


def is_empty(record: files.Record, column: str) -> bool:
    """Returns whether a row lacks a column, or its cell is empty."""
    return understand(record.values.get(column)) is None


def read_text(
    record: files.Record, column: str, may_be_empty: bool = False
) -> str:
    """Reads a text; a number in JSON becomes a string."""
    value, has_text = record.values[column], not is_empty(record, column)
    if not has_text and may_be_empty:
        return ""
    if has_text and type(value) in (int, float):
        return json.dumps(value)
    # `astype(str)` of pandas turns a missing text into `nan`.
    if has_text and isinstance(value, str) and value not in _LOST:
        return value
    expected, remedy = f"a text in column {column!r}", "Remove the row."
    if isinstance(value, list | dict):
        remedy = 'Write a row for each text (in pandas, orient="records").'
    received = "null" if value is None else value
    raise files.unexpected(record.place, expected, received, remedy)


def read_name(record: files.Record, column: str) -> str:
    """Reads an id; a number in JSON becomes a string."""
    if is_empty(record, column):
        raise files.unexpected(record.place, f"an id in column {column!r}")
    return _to_name(record, column, record.values[column])


def read_labels(
    record: files.Record,
    column: str,
    separator: str = "",
    known: Collection[str] = (),
) -> tuple[str, ...]:
    """Reads the labels of a row; a missing label gives an empty tuple.

    The cell is a label, a list, an object, or labels between `separator`s.
    `label_name` unifies spellings of a label, unless the spelling is in
    `known`.
    """
    cell = record.values.get(column)
    if label_name(cell, known) in known:
        return (str(label_name(cell, known)),)
    value = understand(cell)
    if isinstance(value, dict):
        value = value.get("cats") or value  # spaCy's examples
        key = next((k for k in ("labels", "choices") if k in value), None)
        names = (name for name in value if read_truth(record, name, value))
        value = value[key] if key else list(names)
    values = value if isinstance(value, list) else [value]
    if isinstance(value, str) and separator:
        values = value.split(separator)
    for item in values:
        is_share = isinstance(item, float) and item % 1 and item is not value
        is_unparsed = isinstance(item, str) and _UNPARSED.match(item)
        is_no_label = isinstance(item, list | dict) or is_share or is_unparsed
        if is_no_label and label_name(item) not in known:
            expected = "a label, a list of labels, or an object of 0 and 1"
            remedy = "Repair it, or list all labels in own.labels."
            raise files.unexpected(record.place, expected, f"{cell}", remedy)
    names = (label_name(value, known) for value in values)
    return tuple(
        _to_name(record, column, name) for name in names if name is not None
    )


def read_truth(
    record: files.Record,
    label: str,
    cells: Mapping[str, Any],
    empty: bool | None = None,
) -> bool:
    """Returns whether the cell that is named for a label says yes.

    An empty cell means `empty`, or raises `DataError` if that is None.
    """
    word = (label_name(cells.get(label)) or "").lower()
    if not word and empty is not None:
        return empty
    if word not in YES | NO | {label.lower()}:
        expected = f"0 or 1, no or yes, or false or true as {label!r}"
        raise files.unexpected(record.place, expected, cells.get(label))
    return word not in NO or (word == label.lower() and word not in _FALSE)


def label_name(value: Any, known: Collection[str] = ()) -> str | None:
    """Returns the unified spelling of a label, or None if it is missing.

    `1.0` becomes `1`, and `True` becomes `true`. A name in `known` stays.
    """
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
    """Returns the values as numbers, except missing ones.

    Returns [] if any value is not a number. A truth value is not a number.
    """
    filled = [v for v in values if isinstance(v, list) or label_name(v)]
    numbers = [files.parse_number(value) for value in filled]
    return [] if any(map(math.isnan, numbers)) else numbers


def _to_name(record: files.Record, column: str, value: Any) -> str:
    name = value if isinstance(value, str) else json.dumps(value)
    if set(name) & set("\t\r\n"):
        # The name is written to a table of predictions between tabs.
        expected = f"no tabs and line ends in column {column!r}"
        raise files.unexpected(record.place, expected, name)
    return name


def read_number(
    record: files.Record,
    column: str,
    low: float = -math.inf,
    high: float = math.inf,
) -> float:
    """Reads a finite number from `low` to `high`."""
    cell = record.values.get(column)
    value = understand(cell)
    is_one = isinstance(value, list) and len(value) == 1
    number = files.parse_number(value[0] if is_one else value)
    if not low <= number <= high or math.isinf(number):
        bounds = f" from {low} to {high}" * math.isfinite(high - low)
        expected = f"a number{bounds} as {column!r}"
        remedy = "Write a plain number, such as 1234.5, or remove the row."
        if math.isfinite(number):
            flags = "own.min_value and own.max_value"
            remedy = f"Repair the row, or set {flags}."
        raise files.unexpected(record.place, expected, cell, remedy)
    return number


def refuse_thousands(records: Sequence[files.Record], column: str) -> None:
    """Raises `DataError` if points of a column seem to separate thousands.

    This is so if a column holds 1.234 and 950. If all its numbers look like
    1.234, the function only warns.
    """
    texts = [record.values.get(column) for record in records]
    pointed = [t for t in texts if isinstance(t, str) and "." in t]
    if not pointed or not all(map(_THOUSANDS.fullmatch, pointed)):
        return
    place = records[texts.index(pointed[0])].place
    remedy = "Write thousands without a point, as 1234"
    if len(pointed) == len(texts):
        reading = f"{pointed[0]!r} is read as {float(pointed[0]):g}"
        logging.warning(f"{place}: {reading}. {remedy}.")
        return
    expected = f"numbers in {column!r} with clear decimal points"
    remedy += "; if they are decimal, set own.min_value and own.max_value."
    raise files.unexpected(place, expected, pointed[0], remedy)


def read_words(
    record: files.Record, column: str, are_tags: bool = False
) -> tuple[str, ...]:
    """Reads words or tags: a list, or a string that is split at blanks.

    A string may hold a list. Tags may be indices of classes.
    """
    cell = items = record.values[column]
    if not isinstance(cell, str) or _STARTS_LIST.match(cell):
        items = understand(cell)
    items = items if isinstance(items, list) else []
    takes_numbers = are_tags or any(isinstance(item, str) for item in items)
    # A list of numbers may be a text: "[ 1 ]" holds three words.
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
        remedy = (
            "Write a JSON list, or put blanks between the strings; spans are "
            'lists of a start, an end and a label: [[0, 5, "PER"]].'
        )
        if isinstance(cell, str) and "..." in cell:
            remedy = "Write whole lists: NumPy shortened this one with `...`."
        raise files.unexpected(record.place, expected, cell, remedy)
    return tuple(words)


def open_spans(cell: Any) -> list[Any] | None:
    """Returns the spans that a cell lists; None if the cell is no such list.

    A span is a list of a start, an end, a label, and perhaps the text inside;
    objects of annotation programs are converted.
    """
    value = understand(cell)
    if isinstance(value, dict):  # spaCy's examples
        value = value.get("entities")
    if not isinstance(value, list):
        return None
    items = [
        [next((x[n] for n in names if n in x), None) for names in _SPAN_KEYS]
        if isinstance(x, dict) and {*_SPAN_KEYS[0]} & {*x}
        else x
        for x in value
    ]
    return items if all(isinstance(x, list | tuple) for x in items) else None


def split_commas(cell: Any) -> tuple[str, ...]:
    """Splits a string at commas; returns () for a string of another form.

    A comma after a blank is a word, or a tag.
    """
    is_list = isinstance(cell, str) and _COMMAS.fullmatch(cell.strip())
    return tuple(map(str.strip, cell.split(","))) if is_list else ()


def read_choices(
    record: files.Record, columns: Sequence[str]
) -> dict[str, str]:
    """Reads the choices of a row: maps the name of a choice to its text.

    The choices are in several columns, of which the last may be empty, or in
    one column: a list of texts, a list of objects, or an object. A choice
    without a name is named by its index and a full stop.
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
        label_name(name) or f"{index}.": cell
        if isinstance(cell, str)
        else ""
        if understand(cell) is None
        else json.dumps(cell)
        for index, (name, cell) in enumerate(pairs)
    }
    count = sum(bool(text.strip()) for text in choices.values())
    filled = dict(itertools.islice(choices.items(), count))
    is_whole = all(text.strip() for text in filled.values())
    if count < 2 or not is_whole or len(choices) < len(pairs):
        expected = f"two or more texts in {','.join(columns)!r}, none empty"
        remedy = "Repair the row; own.choices_column names columns."
        received = str([record.values[name] for name in columns])
        raise files.unexpected(record.place, expected, received, remedy)
    return filled
