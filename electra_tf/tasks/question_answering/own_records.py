"""A user's own questions: SQuAD or MRQA files, or tables.

What official data may have wrong, own data may not: an answer that is not in
its context is an error here.
"""

import pathlib
from collections.abc import Mapping
from typing import Any

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import tables
from electra_tf.tasks.question_answering import records

ENDINGS = {**tables.ENDINGS, ".json": "squad", ".gz": "mrqa"}
"""The ending of a file's name to its format."""


def read_own(
    path: pathlib.Path,
    settings: finetuning_config.OwnTaskConfig,
    split: str,
) -> list[records.Example]:
    """The questions of a file, in its order.

    Args:
        path: the file.
        settings: its format and columns.
        split: what it is for: `train` and `dev` must have answers, `test` may.

    Raises:
        FileNotFoundError: if there is no such file.
        DataError: for the first record that is not as expected, or whose
            answer is not in its context.
    """
    file_format = tables.resolve_format(path, settings.file_format, ENDINGS)
    has_answers = split != "test"
    if file_format == "squad":
        examples = records.read_squad(path)
    elif file_format == "mrqa":
        examples = records.read_mrqa(path)
    else:
        examples = _read_table(path, file_format, settings, has_answers)
    if has_answers:
        _require_in_context(examples, path)
    if split == "train":
        return records.keep_answered(examples, path)
    return examples


def _require_in_context(
    examples: list[records.Example], path: pathlib.Path
) -> None:
    missing = set(records.find_unanswered(examples, path))
    for example in examples:
        answer = example.answer
        if example.id not in missing or answer is None:
            continue
        there = example.context[answer.start :][: len(answer.text)]
        if there != answer.text or answer.start < 0:
            raise errors.DataError(
                f"{path}, question {example.id!r}: expected the answer "
                f"{answer.text[:60]!r} in the context at character "
                f"{answer.start}. Received: {there[:60]!r} there. Repair the "
                "answer or its place, or remove the question."
            )


def _read_table(
    path: pathlib.Path,
    file_format: str,
    settings: finetuning_config.OwnTaskConfig,
    has_answers: bool,
) -> list[records.Example]:
    answer_columns = [settings.answer_column]
    if settings.answer_start_column:
        answer_columns.append(settings.answer_start_column)
    columns = [settings.question_column, settings.context_column]
    if settings.id_column:
        columns.append(settings.id_column)
    rows = tables.read_table(
        path,
        file_format,
        columns + (answer_columns if has_answers else []),
        () if has_answers else answer_columns,
    )
    contexts: dict[str, str] = {}
    examples = []
    for number, row in enumerate(rows):
        texts = {name: _require_text(path, row, name) for name in columns}
        context = texts[settings.context_column]
        examples.append(
            records.Example(
                texts.get(settings.id_column, str(number)),
                texts[settings.question_column],
                # One object for equal texts.
                contexts.setdefault(context, context),
                **_read_answer(path, row, settings, context),
            )
        )
    records.require_unique(examples, path)
    return examples


def _read_answer(
    path: pathlib.Path,
    row: tables.Record,
    settings: finetuning_config.OwnTaskConfig,
    context: str,
) -> Mapping[str, Any]:
    """The fields of an example that tell its answer."""
    if settings.answer_column not in row.values:
        return {}
    text = row.values[settings.answer_column]
    if text is None or text == "":
        return {"golds": (), "is_impossible": True}
    text = _require_text(path, row, settings.answer_column)
    place = _place(path, row, settings)
    start = context.find(text)
    value = row.values.get(settings.answer_start_column)
    if settings.answer_start_column and value is not None:
        start = _parse_start(value, place, settings.answer_start_column)
    if start < 0 or context[start : start + len(text)] != text:
        there = context[max(start, 0) : max(start, 0) + len(text)]
        raise errors.DataError(
            f"{place}: expected the answer {text[:60]!r} in the context"
            f"{f' at character {start}' if start >= 0 else ''}. Received: "
            f"{there[:60]!r} there. Repair the answer or its place; without "
            "a column of places (--config.own.answer_start_column=) the first "
            "occurrence counts."
        )
    return {"golds": (text,), "answer": records.Answer(text, start)}


def _parse_start(value: Any, place: str, column: str) -> int:
    try:
        start = int(value) if isinstance(value, str) else value
        if isinstance(start, bool) or start != int(start) or start < 0:
            raise ValueError
    except (ValueError, TypeError) as error:
        raise errors.DataError(
            f"{place}: expected {column!r} to be the number of a character, "
            f"from 0. Received: {value!r}."
        ) from error
    return int(start)


def _require_text(path: pathlib.Path, row: tables.Record, name: str) -> str:
    value = row.values[name]
    if isinstance(value, int) and not isinstance(value, bool):
        # JSON lines may have numbers for ids and answers.
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise errors.DataError(
            f"{path}, line {row.line}: expected text in {name!r}. Received: "
            f"{str(value)[:60]!r}."
        )
    return value


def _place(
    path: pathlib.Path,
    row: tables.Record,
    settings: finetuning_config.OwnTaskConfig,
) -> str:
    place = f"{path}, line {row.line}"
    if settings.id_column:
        place += f" (question {row.values[settings.id_column]!r})"
    return place
