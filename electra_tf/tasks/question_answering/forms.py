"""Reads questions from files of several formats into records.

A file of SQuAD is one JSON object; MRQA has JSON lines with a document each.
Hugging Face's format has a row for each question, with its answers as
`{"text": [...], "answer_start": [...]}`. A table has an answer and its first
character. A record has those columns of `_NAMES` that the file has.
"""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import cells
from electra_tf.tasks import files

Place = tuple[str, int]
"""The text of an answer, and its first character; -1: unknown."""
_OwnTaskConfig = finetuning_config.OwnTaskConfig

# Maps a column of records to the setting with its name in the file, followed by
# its names in published formats.
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
    "Rename the members, or set own.question_column, context_column "
    'and answer_column; pandas writes such rows with orient="records".'
)


def read(
    path: pathlib.Path,
    own: _OwnTaskConfig = _PUBLISHED,
    file_format: str = "json",
    has_answers: bool = False,
) -> Iterator[files.Record]:
    """Yields the questions of a file: JSON, JSON lines, CSV or TSV.

    `own` names the members of rows that are in no published format. A table
    `has_answers` if it must have a column of them, and one of their first
    characters if `own` names that.
    """
    values = files.read_values(path)
    if file_format in ("csv", "tsv"):
        columns = [own.question_column, own.context_column, own.id_column]
        is_named = own.answer_start_column != _PUBLISHED.answer_start_column
        columns += [own.answer_start_column] * (has_answers and is_named)
        values = files.read_rows(path, file_format, [*filter(None, columns)])
    for place, value in values:
        try:
            yield from _list_questions(value, place, own)
        except RecursionError as error:
            raise files.unexpected(place, _EXPECTED, "deep lists") from error


def _list_questions(
    value: Any, place: str, own: _OwnTaskConfig, context: Any = None
) -> Iterator[files.Record]:
    """Yields the questions in a JSON value; `context` is that of a parent."""
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
    """Renames the members of a row to columns of `_NAMES`."""
    values: dict[str, Any] = {}
    for column, (setting, *published_names) in _NAMES.items():
        for name in (getattr(own, setting, ""), *published_names):
            if name and name in row:
                values[column] = row[name]
                break
    return values


def read_answers(record: files.Record) -> list[Place]:
    """Reads the answers of a question, except empty ones.

    The value is a text, an object with `text` and `answer_start` (each may be a
    list), or a list of texts or objects. A table holds it as JSON or Python.
    """
    if cells.is_empty(record, "answers"):
        return []
    value = record.values["answers"]
    starts = _parse_cell(record.values.get("answer_start"))
    # `NA` or `[1]` may be words of the context.
    is_text = isinstance(value, str) and value in record.values["context"]
    if not is_text or (starts is None and value in cells.MISSING):
        value = _parse_cell(value)
    return [] if value is None else list(_list_answers(record, value, starts))


def _parse_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value.strip()[:1] in ("[", "{"):
        return cells.understand(value)
    return None if value in cells.MISSING else value


def _list_answers(
    record: files.Record, value: Any, starts: Any
) -> Iterator[Place]:
    if isinstance(value, Mapping):
        if value and "text" not in value:
            expected = "answers with `text` and `answer_start`"
            received = "the members " + ", ".join(value)
            raise files.unexpected(record.place, expected, received)
        starts = value.get("answer_start", value.get("start"))
        value = value.get("text")
    texts = value if isinstance(value, list) else [value]
    starts = starts if isinstance(starts, list) else [starts] * len(texts)
    if len(starts) != len(texts):
        expected = f"{len(texts)} numbers `answer_start`, one for each answer"
        raise files.unexpected(record.place, expected, len(starts))
    for text, start in zip(texts, starts, strict=True):
        if isinstance(text, Mapping):
            yield from _list_answers(record, text, None)
        elif text not in (None, "") and text == text:
            yield _read_answer(record, text, start)


def _read_answer(record: files.Record, text: Any, start: Any) -> Place:
    if isinstance(text, bool | list | Mapping):
        expected = "the text of an answer"
        raise files.unexpected(record.place, expected, json.dumps(text))
    # `str.find` returns -1 if a text is absent.
    if start in (None, "", -1, "-1") or start != start:
        return str(text), -1
    number = files.parse_number(start)
    if not (number >= 0 and number.is_integer()):
        expected = "`answer_start` to be the number of a character, from 0"
        raise files.unexpected(record.place, expected, str(start))
    return str(text), int(number)


def read_detected(record: files.Record) -> list[Place] | None:
    """Reads the first occurrence of each of MRQA's `detected_answers`.

    Returns None if the question has no such list.
    """
    items: Any = record.values.get("detected_answers")
    if items is None:
        return None
    try:
        pairs = [(item["text"], item["char_spans"][0][0]) for item in items]
    except (LookupError, TypeError) as error:
        expected = "`detected_answers` to have `text` and `char_spans`"
        raise files.unexpected(
            record.place, expected, json.dumps(items)
        ) from error
    return [_read_answer(record, *pair) for pair in pairs]


def read_flag(record: files.Record) -> bool | None:
    """Reads `is_impossible`: whether a question is unanswerable, or None."""
    name = "is_impossible"
    is_known = cells.label_name(record.values.get(name)) is not None
    return cells.read_truth(record, name, record.values) if is_known else None
