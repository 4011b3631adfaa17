"""The forms in which files hold questions, read as one.

SQuAD is one JSON object, MRQA JSON lines with one document each; Hugging Face's
form has a row for each question, with `{"text": [...], "answer_start": [...]}`
as its answers; a table has an answer and its place. From each a question
becomes a record with the same columns, as far as it has them: `_NAMES`.
"""

import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import cells
from electra_tf.tasks import files

Place = tuple[str, int]
"""An answer, and the character at which it is said to begin; -1: not said."""
_OwnTaskConfig = finetuning_config.OwnTaskConfig

# The name of a column to the setting of its name in rows, and to the names that
# it has in published forms.
_NAMES = {
    "id": ("id_column", "id", "qid"),
    "question": ("question_column", "question"),
    "context": ("context_column", "context"),
    "answers": ("answer_column", "answers", "answer"),
    "answer_start": ("answer_start_column",),
    "is_impossible": ("", "is_impossible"),
    "detected_answers": ("", "detected_answers"),
}
_GROUPS = "data", "paragraphs", "qas"
_PUBLISHED = _OwnTaskConfig()
_EXPECTED = (
    "questions in SQuAD's form, or objects with `question`, `context` and "
    "`answers`: one, a list, or one on every line"
)
_REMEDY = (
    "Rename the members, or name those of rows by --config.own.question_column "
    'and the like; pandas writes such rows with orient="records".'
)
# NumPy's `array([...], dtype=...)`, as pandas writes it into a cell.
_ARRAY = re.compile(r"\barray\((\[.*?\])(?:,\s*dtype=\S+?)?\)", re.DOTALL)


def read_json(
    path: pathlib.Path, own: _OwnTaskConfig = _PUBLISHED
) -> Iterator[files.Record]:
    """Yields the questions of a file of JSON, or of JSON lines.

    `own` names the members of rows that are not in a published form.
    """
    for place, value in files.read_values(path):
        try:
            yield from _list_questions(value, place, own)
        except RecursionError as error:
            raise files.unexpected(place, _EXPECTED, "deep lists") from error


def _list_questions(
    value: Any, place: str, own: _OwnTaskConfig, context: Any = None
) -> Iterator[files.Record]:
    """Yields the questions in a value of JSON, perhaps about one text."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _list_questions(item, f"{place}[{number}]", own, context)
        return
    if not isinstance(value, Mapping):
        raise files.unexpected(place, _EXPECTED, json.dumps(value), _REMEDY)
    received = "the members " + (", ".join(value) or "(none)")
    question = rename(value, own)
    context = question.get("context", context)
    if isinstance(question.get("question"), str):
        if not isinstance(context, str):
            expected = "a text as `context` beside `question`"
            raise files.unexpected(place, expected, received, _REMEDY)
        yield files.Record(place, question | {"context": context})
    elif group := next((name for name in _GROUPS if name in value), None):
        inside = f"{place} {group}"
        yield from _list_questions(value[group], inside, own, context)
    elif "header" not in value:
        raise files.unexpected(place, _EXPECTED, received, _REMEDY)


def rename(
    row: Mapping[str, Any], own: _OwnTaskConfig = _PUBLISHED
) -> dict[str, Any]:
    """Returns members of a row, by their names in `_NAMES`."""
    found: dict[str, Any] = {}
    for name, (setting, *others) in _NAMES.items():
        names = [getattr(own, setting, ""), *others]
        given = next((name for name in names if name and name in row), "")
        if given:
            found[name] = row[given]
    return found


def read_table(
    path: pathlib.Path, file_format: str, own: _OwnTaskConfig, has_answers: bool
) -> Iterator[files.Record]:
    """Yields the questions of a CSV or TSV file.

    With `has_answers` there must be a column of them; that of their places may
    be left out if it has no name of its own.
    """
    needed = [own.question_column, own.context_column, own.id_column]
    optional = [own.answer_column, "answers", "is_impossible"]
    start = own.answer_start_column
    is_needed = has_answers and start != _PUBLISHED.answer_start_column
    (needed if is_needed else optional).append(start)
    columns = list(filter(None, needed)), list(filter(None, optional))
    for number, row in enumerate(files.read_table(path, file_format, *columns)):
        record = files.Record(row.place, rename(row.values, own))
        if has_answers and "answers" not in record.values:
            expected = f"a column {own.answer_column!r} or 'answers'"
            remedy = "Rename it, or set --config.own.answer_column."
            raise files.unexpected(f"{path}, line 1", expected, remedy=remedy)
        record.values.setdefault("id", number)
        yield record


def read_answers(record: files.Record) -> list[Place]:
    """Reads the answers of a question, without empty ones.

    There is one, a list of them, an object with both parts of all, or a list of
    such objects; in a cell of a table it is as JSON or Python write it.
    """
    if cells.is_empty(record, "answers"):
        return []
    found = record.values["answers"]
    starts = _parse_cell(record.values.get("answer_start"))
    # `NA` or `[1]` may be words of the context.
    is_text = isinstance(found, str) and found in record.values["context"]
    if not is_text or (starts is None and found in cells.MISSING):
        found = _parse_cell(found)
    return [] if found is None else list(_list_answers(record, found, starts))


def _parse_cell(value: Any) -> Any:
    """Reads a cell that may be a list or an object written as a string."""
    if not isinstance(value, str):
        return value
    if value.strip()[:1] in ("[", "{"):
        return cells.understand(_ARRAY.sub(r"\1", value))
    return None if value in cells.MISSING else value


def _list_answers(
    record: files.Record, found: Any, starts: Any
) -> Iterator[Place]:
    if isinstance(found, Mapping):
        if found and "text" not in found:
            expected = "answers with `text` and `answer_start`"
            received = "the members " + ", ".join(found)
            raise files.unexpected(record.place, expected, received)
        found, starts = found.get("text"), found.get("answer_start")
    texts = found if isinstance(found, list) else [found]
    places = starts if isinstance(starts, list) else [starts] * len(texts)
    if len(places) != len(texts):
        expected = f"{len(texts)} places `answer_start`, one of each answer"
        raise files.unexpected(record.place, expected, len(places))
    for text, start in zip(texts, places, strict=True):
        if isinstance(text, Mapping):
            yield from _list_answers(record, text, None)
        elif text not in (None, "") and text == text:
            yield _read_answer(record, text, start)


def _read_answer(record: files.Record, text: Any, start: Any) -> Place:
    if isinstance(text, bool | list | Mapping):
        expected = "the text of an answer"
        raise files.unexpected(record.place, expected, json.dumps(text))
    # What `str.find` says of a text that is not there is no place.
    if start in (None, "", -1, "-1") or start != start:
        return str(text), -1
    number = files.parse_number(start)
    if not (number >= 0 and number.is_integer()):
        expected = "`answer_start` to be the number of a character, from 0"
        raise files.unexpected(record.place, expected, str(start))
    return str(text), int(number)


def read_detected(record: files.Record) -> list[Place] | None:
    """Reads the answers that MRQA found in the text; of each the first place.

    None if the question has no such list: those of `read_answers` have places.
    """
    found: Any = record.values.get("detected_answers")
    if found is None:
        return None
    try:
        parts = [(one["text"], one["char_spans"][0][0]) for one in found]
    except (LookupError, TypeError) as error:
        expected = "`detected_answers` to have `text` and `char_spans`"
        raise files.unexpected(
            record.place, expected, json.dumps(found)
        ) from error
    return [_read_answer(record, *part) for part in parts]


def read_flag(record: files.Record) -> bool | None:
    """Reads whether a question is said to be unanswerable, None if nothing."""
    name = "is_impossible"
    is_told = cells.label_name(record.values.get(name)) is not None
    return cells.read_truth(record, name, record.values) if is_told else None
