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
from typing import Annotated
from typing import Any
from typing import TypeVar

import pydantic
from absl import logging

from electra_tf import errors
from electra_tf.config import schema
from electra_tf.tasks import files
from electra_tf.tasks.rows import QUESTION_BLANKS

_ANY_BLANKS = re.compile(f"[{QUESTION_BLANKS}]+")
_T = TypeVar("_T")
_NotEmpty = Annotated[list[_T], pydantic.Field(min_length=1)]
_Content = TypeVar("_Content", bound=pydantic.BaseModel)


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


class _SquadAnswer(pydantic.BaseModel):
    text: pydantic.StrictStr
    answer_start: pydantic.StrictInt


class _SquadQuestion(pydantic.BaseModel):
    id: pydantic.StrictStr
    question: pydantic.StrictStr
    answers: list[_SquadAnswer] | None = None
    is_impossible: pydantic.StrictBool | None = None

    def to_example(self, context: str) -> Example:
        """Without answers nothing is told, unless the flag says more."""
        if self.is_impossible is None:
            is_told = bool(self.answers)
        else:
            is_told = self.is_impossible or self.answers is not None
        if not is_told:
            return Example(self.id, self.question, context)
        answers = [Answer(a.text, a.answer_start) for a in self.answers or ()]
        return Example(
            self.id,
            self.question,
            context,
            tuple(answer.text for answer in answers),
            answers[0] if answers else None,
            bool(self.is_impossible),
        )


class _SquadParagraph(pydantic.BaseModel):
    context: pydantic.StrictStr
    qas: list[_SquadQuestion]


class _SquadArticle(pydantic.BaseModel):
    paragraphs: list[_SquadParagraph]


class _SquadFile(pydantic.BaseModel):
    data: list[_SquadArticle]


class _MrqaSpan(pydantic.BaseModel):
    text: pydantic.StrictStr
    # Pairs of characters; of the first answer the first place counts.
    char_spans: _NotEmpty[_NotEmpty[pydantic.StrictInt]]


class _MrqaQuestion(pydantic.BaseModel):
    qid: pydantic.StrictStr
    question: pydantic.StrictStr
    answers: list[pydantic.StrictStr] | None = None
    detected_answers: list[_MrqaSpan] | None = None


class _MrqaLine(pydantic.BaseModel):
    context: pydantic.StrictStr
    qas: list[_MrqaQuestion]


def read_squad(
    path: pathlib.Path, needs_is_impossible: bool = False
) -> list[Example]:
    """Reads the questions of a SQuAD file, 1.1 or 2.0, in its order.

    With `needs_is_impossible` every question must say if it is unanswerable, as
    in the training file of 2.0. `DataError` names what is not as expected.
    """
    text = "\n".join(line for _, line in files.read_lines(path))
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{path}, line {error.lineno}, character {error.colno}"
        raise files.unexpected(
            place, "JSON of SQuAD's form", error, "Take the official file."
        ) from error
    examples = []
    for article in _parse(_SquadFile, content, path).data:
        for paragraph in article.paragraphs:
            for question in paragraph.qas:
                if needs_is_impossible and question.is_impossible is None:
                    place = f"{path}, question {question.id!r}"
                    raise files.unexpected(place, "the key 'is_impossible'")
                examples.append(question.to_example(paragraph.context))
    return check(examples, path)


def read_mrqa(path: pathlib.Path) -> list[Example]:
    """Reads the questions of an MRQA file, plain or `.gz`, in its order."""
    examples = []
    for number, line in files.read_lines(path):
        place = f"{path}, line {number}"
        if not line.strip():
            continue
        record = files.parse_object(line, place)
        if "header" in record:
            continue
        content = _parse(_MrqaLine, record, place)
        for question in content.qas:
            answer, golds = None, question.answers
            if question.detected_answers:
                first = question.detected_answers[0]
                answer = Answer(first.text, first.char_spans[0][0])
            examples.append(
                Example(
                    question.qid,
                    question.question,
                    content.context,
                    None if golds is None else tuple(golds),
                    answer,
                )
            )
    return check(examples, path)


def _parse(kind: type[_Content], content: Any, place: object) -> _Content:
    """What a file holds, if it has the form of its kind."""
    try:
        return kind.model_validate(content)
    except pydantic.ValidationError as error:
        problem = schema.describe(kind, error.errors(include_url=False)[0])
        raise errors.DataError(
            f"{place}: {problem} Repair the file, or take the official one."
        ) from error


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
    """Returns the examples, if there are any and their ids are different."""
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

    Left out are, as in the original, those whose answer is not where it is said
    to be (`find_answer`): about one in 1,500 of SQuAD.
    """
    missing = find_unanswered(examples, source)
    if missing:
        logging.warning(
            "%s: %d of %d questions are left out of training, because the "
            "words of the context at the place given do not hold their "
            "answer: %s.",
            source,
            len(missing),
            len(examples),
            files.list_some(missing),
        )
    left_out = set(missing)
    return [example for example in examples if example.id not in left_out]


def find_unanswered(examples: Sequence[Example], source: object) -> list[str]:
    """Lists the ids whose answer is not in the context at the place given.

    `DataError` for one with no answer that is not said to be unanswerable.
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
    """Where the word of a character begins (of a blank, the one before)."""
    end = len(context[: place + 1].rstrip(QUESTION_BLANKS))
    if not end:
        return -1
    return 1 + max(context.rfind(blank, 0, end) for blank in QUESTION_BLANKS)
