"""Questions with their documents and answers, from SQuAD and MRQA files.

SQuAD 1.1 and 2.0 are one JSON object: articles, their paragraphs, and the
questions of each. MRQA is JSON lines: a header, then one document a line with
its questions; plain or compressed. Official evaluation looks at the texts of
all answers, training at the place of the first.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from absl import logging

from electra_tf.tasks.question_answering import documents
from electra_tf.tasks.question_answering import json_fields
from electra_tf.tasks.task import TaskDataError

# Ids that a warning shows.
_NUM_SHOWN = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An answer in its document.

    Attributes:
        text: as annotated.
        start: the character of the context at which it is said to begin.
    """

    text: str
    start: int


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """One question about one document.

    Attributes:
        id: of the question, as the file has it; predictions carry it.
        question: its text.
        context: the document's text; one object for all its questions.
        golds: texts of the answers that evaluation accepts, none if the
            question is unanswerable; None if that is not known.
        answer: the answer to learn, None without one.
        is_impossible: whether the question is said to be unanswerable.
    """

    id: str
    question: str
    context: str
    golds: tuple[str, ...] | None = None
    answer: Answer | None = None
    is_impossible: bool = False


def read_squad(
    path: pathlib.Path, needs_is_impossible: bool = False
) -> list[Example]:
    """The questions of a SQuAD file, in its order.

    Args:
        path: JSON of SQuAD 1.1 or 2.0.
        needs_is_impossible: whether every question must say if it is
            unanswerable, as in the training file of 2.0.

    Raises:
        FileNotFoundError: if there is no such file.
        TaskDataError: for JSON that is malformed or lacks a key, an id that
            occurs twice, or a file without questions. Names the record.
    """
    content = json_fields.parse_json(path)
    examples = []
    for a, article in enumerate(
        json_fields.get(content, "data", list, str(path)), 1
    ):
        place = f"{path}, article {a}"
        for p, paragraph in enumerate(
            json_fields.get(article, "paragraphs", list, place), 1
        ):
            here = f"{place}, paragraph {p}"
            context = json_fields.get(paragraph, "context", str, here)
            for q, record in enumerate(
                json_fields.get(paragraph, "qas", list, here), 1
            ):
                examples.append(
                    _squad_example(
                        record,
                        context,
                        f"{here}, question {q}",
                        needs_is_impossible,
                    )
                )
    return _checked(examples, path)


def read_mrqa(path: pathlib.Path) -> list[Example]:
    """The questions of an MRQA file, in its order.

    Args:
        path: JSON lines, plain, or compressed if the name ends with `.gz`.

    Raises:
        FileNotFoundError: if there is no such file.
        TaskDataError: as for `read_squad`; names the line.
    """
    examples = []
    for number, line in json_fields.read_lines(path):
        place = f"{path}, line {number}"
        if not line.strip():
            continue
        record = json_fields.parse_line(line, place)
        if "header" in record:
            continue
        context = json_fields.get(record, "context", str, place)
        for q, question in enumerate(
            json_fields.get(record, "qas", list, place), 1
        ):
            examples.append(
                _mrqa_example(question, context, f"{place}, question {q}")
            )
    return _checked(examples, path)


def from_tfds(records: Sequence[Mapping[str, Any]], name: str) -> list[Example]:
    """Questions of a TensorFlow Datasets data set of SQuAD's form.

    Args:
        records: as `tfds_source.read` gives them.
        name: of the data set, for errors.

    Raises:
        TaskDataError: for an id that occurs twice, or no records.
    """
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
    return _checked(examples, name)


def keep_answered(examples: Sequence[Example], source: object) -> list[Example]:
    """The examples that can be learned from, with one warning of the others.

    Left out are, as in the original, those whose answer is not where it is
    said to be (`documents.find_answer`): about one in 1,500 of SQuAD.

    Args:
        examples: of a training file.
        source: the file, for messages.

    Raises:
        TaskDataError: for a question that has neither an answer nor is said to
            be unanswerable.
    """
    missing = find_unanswered(examples, source)
    if missing:
        shown = ", ".join(missing[:_NUM_SHOWN])
        rest = len(missing) - _NUM_SHOWN
        logging.warning(
            "%s: %d of %d questions are left out of training, because the "
            "words of the context at the place given do not hold their "
            "answer: %s%s.",
            source,
            len(missing),
            len(examples),
            shown,
            f" and {rest} more" if rest > 0 else "",
        )
    left_out = set(missing)
    return [example for example in examples if example.id not in left_out]


def find_unanswered(examples: Sequence[Example], source: object) -> list[str]:
    """Ids of those whose answer is not in the context at the place given.

    Raises:
        TaskDataError: as for `keep_answered`.
    """
    for example in examples:
        if example.answer is None and not example.is_impossible:
            raise TaskDataError(
                f"{source}, question {example.id!r}: expected an answer, "
                "or `is_impossible`. Received: neither. Name a file with "
                "answers; unanswerable questions are those of squad2 and "
                "own."
            )
    return [
        example.id
        for example, words in zip(
            examples, locate_answers(examples), strict=True
        )
        if words is None and not example.is_impossible
    ]


def locate_answers(
    examples: Sequence[Example],
) -> list[tuple[int, int] | None]:
    """The words of every answer (`documents.find_answer`).

    None for an unanswerable question, or where the answer is not there.
    """
    located: list[tuple[int, int] | None] = []
    context, words = "", documents.split_words("")
    for example in examples:
        found = None
        if example.answer and not example.is_impossible:
            # Questions of one document follow each other.
            if example.context is not context:
                context = example.context
                words = documents.split_words(context)
            found = documents.find_answer(
                context, words, example.answer.text, example.answer.start
            )
        located.append(found)
    return located


def require_unique(examples: Sequence[Example], source: object) -> None:
    """Raises if an id occurs twice, for predictions go by it.

    Raises:
        TaskDataError: names the first such id.
    """
    seen: dict[str, int] = {}
    for number, example in enumerate(examples, 1):
        if example.id in seen:
            raise TaskDataError(
                f"{source}: expected every question to have an id of its own. "
                f"Received {example.id!r} for questions {seen[example.id]} "
                f"and {number} of the file. Rename one."
            )
        seen[example.id] = number


def _checked(examples: list[Example], source: object) -> list[Example]:
    if not examples:
        raise TaskDataError(f"{source}: expected questions. Received: none.")
    require_unique(examples, source)
    return examples


def _squad_example(
    record: Any, context: str, place: str, needs_is_impossible: bool
) -> Example:
    identity = json_fields.get(record, "id", str, place)
    place = f"{place} ({identity})"
    question = json_fields.get(record, "question", str, place)
    is_impossible = False
    if needs_is_impossible or "is_impossible" in record:
        is_impossible = json_fields.get(record, "is_impossible", bool, place)
    if "answers" not in record and "is_impossible" not in record:
        return Example(identity, question, context)
    answers = [
        Answer(
            json_fields.get(answer, "text", str, f"{place}, answer {number}"),
            json_fields.get(
                answer, "answer_start", int, f"{place}, answer {number}"
            ),
        )
        for number, answer in enumerate(
            json_fields.get(record, "answers", list, place), 1
        )
    ]
    if not answers and "is_impossible" not in record:
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
    identity = json_fields.get(record, "qid", str, place)
    place = f"{place} ({identity})"
    question = json_fields.get(record, "question", str, place)
    golds = None
    if "answers" in record:
        texts = json_fields.get(record, "answers", list, place)
        golds = tuple(
            json_fields.require(text, str, "answer", place) for text in texts
        )
    answer = None
    if record.get("detected_answers"):
        # Of the first answer the first place.
        detected = json_fields.get(record, "detected_answers", list, place)[0]
        text = json_fields.get(
            detected, "text", str, f"{place}, detected_answers"
        )
        spans = json_fields.get(
            detected, "char_spans", list, f"{place}, detected_answers"
        )
        try:
            start = json_fields.require(spans[0][0], int, "char_spans", place)
        except (IndexError, TypeError, KeyError) as error:
            raise TaskDataError(
                f"{place}: expected `char_spans` to begin with a pair of "
                f"characters, first and last. Received: {spans!r}."
            ) from error
        answer = Answer(text, start)
    return Example(identity, question, context, golds, answer)
