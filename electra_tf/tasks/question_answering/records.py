"""Questions with their documents and answers, from SQuAD and MRQA files.

SQuAD 1.1 and 2.0 are one JSON object: articles, their paragraphs, and the
questions of each. MRQA is JSON lines: a header, then one document a line with
its questions; plain or compressed. Official evaluation looks at the texts of
all answers, training at the place of the first.
"""

import dataclasses
import json
import pathlib
import re
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from absl import logging

from electra_tf.tasks import files
from electra_tf.tasks.rows import QUESTION_BLANKS

# Ids that a warning shows.
_NUM_SHOWN = 10
_KINDS = {
    str: "a string",
    int: "a whole number",
    list: "a list",
    bool: "true or false",
}
_ANY_BLANKS = re.compile(f"[{QUESTION_BLANKS}]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An answer in its document."""

    text: str  # as annotated
    start: int  # the character of the context at which it is said to begin


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """One question about one document."""

    id: str  # of the question, as the file has it; predictions carry it
    question: str  # its text
    context: str  # the document's text; one object for all its questions
    # Texts of the answers that evaluation accepts, none if the question is
    # unanswerable; None if that is not known
    golds: tuple[str, ...] | None = None
    answer: Answer | None = None  # the answer to learn, None without one
    # Whether the question is said to be unanswerable
    is_impossible: bool = False


def read_squad(
    path: pathlib.Path, needs_is_impossible: bool = False
) -> list[Example]:
    """Reads the questions of a SQuAD file, in its order.

    Args:
        path: JSON of SQuAD 1.1 or 2.0.
        needs_is_impossible: whether every question must say if it is
            unanswerable, as in the training file of 2.0.

    Raises:
        FileNotFoundError: if there is no such file.
        DataError: for JSON that is malformed or lacks a key, an id that
            occurs twice, or a file without questions. Names the record.
    """
    content = _parse_json(path)
    examples = []
    for a, article in enumerate(_get(content, "data", list, str(path)), 1):
        place = f"{path}, article {a}"
        paragraphs = _get(article, "paragraphs", list, place)
        for p, paragraph in enumerate(paragraphs, 1):
            here = f"{place}, paragraph {p}"
            context = _get(paragraph, "context", str, here)
            for q, record in enumerate(_get(paragraph, "qas", list, here), 1):
                place_of_question = f"{here}, question {q}"
                if needs_is_impossible:
                    _get(record, "is_impossible", bool, place_of_question)
                examples.append(
                    _squad_example(record, context, place_of_question)
                )
    return check(examples, path)


def read_mrqa(path: pathlib.Path) -> list[Example]:
    """Reads the questions of an MRQA file, in its order.

    Args:
        path: JSON lines, plain, or compressed if the name ends with `.gz`.

    Raises:
        FileNotFoundError: if there is no such file.
        DataError: as for `read_squad`; names the line.
    """
    examples = []
    for number, line in files.read_lines(path):
        place = f"{path}, line {number}"
        if not line.strip():
            continue
        record = files.parse_object(line, place)
        if "header" in record:
            continue
        context = _get(record, "context", str, place)
        for q, question in enumerate(_get(record, "qas", list, place), 1):
            examples.append(
                _mrqa_example(question, context, f"{place}, question {q}")
            )
    return check(examples, path)


def from_tfds(records: Sequence[Mapping[str, Any]], name: str) -> list[Example]:
    """Converts records of TensorFlow Datasets that have SQuAD's form."""
    examples = []
    for record in records:
        texts = record["answers"]["text"]
        starts = record["answers"]["answer_start"]
        answers = [Answer(t, s) for t, s in zip(texts, starts, strict=True)]
        examples.append(
            Example(
                record["id"],
                record["question"],
                record["context"],
                tuple(texts),
                answers[0] if answers else None,
                bool(record.get("is_impossible", False)),
            )
        )
    return check(examples, name)


def check(examples: list[Example], source: object) -> list[Example]:
    """Returns the examples, if there are any and their ids are different.

    Predictions go by the ids.

    Raises:
        DataError: names the first id that occurs twice.
    """
    seen: dict[str, int] = {}
    for number, example in enumerate(examples, 1):
        if example.id in seen:
            place = f"{source}, questions {seen[example.id]} and {number}"
            raise files.unexpected(place, "different ids", example.id)
        seen[example.id] = number
    if not examples:
        raise files.unexpected(source, "questions")
    return examples


def keep_answered(examples: Sequence[Example], source: object) -> list[Example]:
    """Returns the examples to learn from, with one warning of the others.

    Left out are, as in the original, those whose answer is not where it is
    said to be (`find_answer`): about one in 1,500 of SQuAD.

    Raises:
        DataError: for a question that has neither an answer nor is said to
            be unanswerable.
    """
    missing = find_unanswered(examples, source)
    if missing:
        rest = len(missing) - _NUM_SHOWN
        logging.warning(
            "%s: %d of %d questions are left out of training, because the "
            "words of the context at the place given do not hold their "
            "answer: %s%s.",
            source,
            len(missing),
            len(examples),
            ", ".join(missing[:_NUM_SHOWN]),
            f" and {rest} more" if rest > 0 else "",
        )
    left_out = set(missing)
    return [example for example in examples if example.id not in left_out]


def find_unanswered(examples: Sequence[Example], source: object) -> list[str]:
    """Lists the ids whose answer is not in the context at the place given.

    Raises:
        DataError: as for `keep_answered`.
    """
    for example in examples:
        if example.answer is None and not example.is_impossible:
            place = f"{source}, question {example.id!r}"
            remedy = (
                "Name a file with answers; unanswerable questions are those of "
                "squad2 and own."
            )
            expected = "an answer, or `is_impossible`"
            raise files.unexpected(place, expected, None, remedy)
    return [
        example.id
        for example in examples
        if not example.is_impossible and find_answer(example) is None
    ]


def find_answer(example: Example) -> tuple[int, int] | None:
    """Finds the characters of the words that an answer lies in.

    An offset may be wrong: what counts is that the answer, in lower case and
    with single blanks, is in the words that cover the characters said.

    Returns:
        First character and the one after the last; None if the answer is not
        there, or there is none.
    """
    context, answer = example.context, example.answer
    if answer is None or not answer.text or answer.start < 0:
        return None
    last = answer.start + len(answer.text) - 1
    if last >= len(context):
        return None
    begin = _find_word(context, answer.start)
    last_begin = _find_word(context, last)
    ends = (context.find(blank, last_begin + 1) for blank in QUESTION_BLANKS)
    end = min((end for end in ends if end >= 0), default=len(context))
    if begin < 0 and not context[end:].strip(QUESTION_BLANKS):
        # Before the only word, which is meant, as in the original.
        begin = last_begin
    if begin < 0:
        return None
    covering = _ANY_BLANKS.sub(" ", context[begin:end])
    if " ".join(answer.text.split()).lower() not in covering.lower():
        return None
    return begin, end


def _find_word(context: str, place: int) -> int:
    """Finds where the word of a character begins; of a blank, the one before.

    -1 if there is none.
    """
    end = len(context[: place + 1].rstrip(QUESTION_BLANKS))
    if not end:
        return -1
    parted_at = QUESTION_BLANKS
    return 1 + max(context.rfind(blank, 0, end) for blank in parted_at)


def _squad_example(record: Any, context: str, place: str) -> Example:
    identity = _get(record, "id", str, place)
    place = f"{place} ({identity})"
    question = _get(record, "question", str, place)
    has_flag = "is_impossible" in record
    is_impossible = has_flag and _get(record, "is_impossible", bool, place)
    if "answers" not in record and not has_flag:
        return Example(identity, question, context)
    answers = []
    for number, answer in enumerate(_get(record, "answers", list, place), 1):
        here = f"{place}, answer {number}"
        text = _get(answer, "text", str, here)
        answers.append(Answer(text, _get(answer, "answer_start", int, here)))
    if not answers and not has_flag:
        # The test files of 2.0 have empty lists.
        return Example(identity, question, context)
    return Example(
        identity,
        question,
        context,
        tuple(answer.text for answer in answers),
        answers[0] if answers else None,
        is_impossible,
    )


def _mrqa_example(record: Any, context: str, place: str) -> Example:
    identity = _get(record, "qid", str, place)
    place = f"{place} ({identity})"
    question = _get(record, "question", str, place)
    golds = None
    if "answers" in record:
        texts = _get(record, "answers", list, place)
        golds = tuple(_require(text, str, "answer", place) for text in texts)
    answer = None
    if record.get("detected_answers"):
        # Of the first answer the first place.
        detected = _get(record, "detected_answers", list, place)[0]
        here = f"{place}, detected_answers"
        spans = _get(detected, "char_spans", list, here)
        try:
            start = _require(spans[0][0], int, "char_spans", here)
        except (IndexError, TypeError, KeyError) as error:
            expected = "`char_spans` to begin with a pair of characters"
            raise files.unexpected(here, expected, spans) from error
        answer = Answer(_get(detected, "text", str, here), start)
    return Example(identity, question, context, golds, answer)


def _parse_json(path: pathlib.Path) -> Any:
    try:
        return json.loads("\n".join(line for _, line in files.read_lines(path)))
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, character {error.colno}"
        raise files.unexpected(
            place, "JSON of SQuAD's form", error, "Take the official file."
        ) from error


def _get(record: Any, key: str, kind: type, place: str) -> Any:
    """A value of a JSON object, which must be there and of a kind."""
    if not isinstance(record, dict):
        expected = f"an object with {key!r}"
        raise files.unexpected(place, expected, record)
    if key not in record:
        raise files.unexpected(place, f"the key {key!r}", list(record))
    return _require(record[key], kind, key, place)


def _require(value: Any, kind: type, key: str, place: str) -> Any:
    """The value itself, if it is of a kind of `_KINDS`."""
    # In JSON true is no number.
    is_truth = isinstance(value, bool)
    if not isinstance(value, kind) or (is_truth and kind is not bool):
        expected = f"{key!r} to be {_KINDS[kind]}"
        raise files.unexpected(place, expected, value)
    return value
