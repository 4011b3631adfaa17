"""Questions with their documents and answers, and the files they are in.

SQuAD is one JSON object, MRQA JSON lines with one document each; a user's own
may be tables, too. Official evaluation looks at the texts of all answers,
training at the place of the first.
"""

import contextlib
import dataclasses
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Annotated, Any, Generic, TypeVar

import pydantic
from absl import logging

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.rows import QUESTION_BLANKS

SQUAD1 = "squad1"
SQUAD2 = "squad2"
MRQA = "mrqa"
SPLITS = ("train", "dev")

# The ending of an own file's name to its format.
_ENDINGS = {**files.ENDINGS, ".json": "squad", ".gz": "mrqa"}
_OwnTaskConfig = finetuning_config.OwnTaskConfig
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


class _Json(pydantic.BaseModel, strict=True):
    """An object of a file; it may have other keys, too."""


_T = TypeVar("_T")
_Content = TypeVar("_Content", bound=_Json)
_NotEmpty = Annotated[list[_T], pydantic.Field(min_length=1)]


class _Paragraph(_Json, Generic[_T]):
    context: str
    qas: list[_T]


class _SquadAnswer(_Json):
    text: str
    answer_start: int


class _SquadQuestion(_Json):
    id: str
    question: str
    answers: list[_SquadAnswer] | None = None
    is_impossible: bool | None = None

    def to_example(self, context: str) -> Example:
        """Without answers nothing is told, unless the flag says more."""
        is_told = bool(self.answers)
        if self.is_impossible is not None:
            is_told = self.is_impossible or self.answers is not None
        if not is_told:
            return Example(self.id, self.question, context)
        answers = [Answer(a.text, a.answer_start) for a in self.answers or ()]
        golds = tuple(answer.text for answer in answers)
        what = golds, answers[0] if answers else None, bool(self.is_impossible)
        return Example(self.id, self.question, context, *what)


class _SquadArticle(_Json):
    paragraphs: list[_Paragraph[_SquadQuestion]]


class _SquadFile(_Json):
    data: list[_SquadArticle]


class _MrqaSpan(_Json):
    text: str
    # Pairs of characters; of the first answer the first place counts.
    char_spans: _NotEmpty[_NotEmpty[int]]


class _MrqaQuestion(_Json):
    qid: str
    question: str
    answers: list[str] | None = None
    detected_answers: list[_MrqaSpan] | None = None

    def to_example(self, context: str) -> Example:
        """All answers are gold; the first that was detected is learned."""
        answer = None
        if self.detected_answers:
            first = self.detected_answers[0]
            answer = Answer(first.text, first.char_spans[0][0])
        golds = None if self.answers is None else tuple(self.answers)
        return Example(self.qid, self.question, context, golds, answer)


def read_squad(
    path: pathlib.Path, needs_is_impossible: bool = False
) -> list[Example]:
    """Reads the questions of a SQuAD file, 1.1 or 2.0, in its order.

    With `needs_is_impossible` every question must say if it is unanswerable.
    """
    text = "\n".join(line for _, line in files.read_lines(path))
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        place, remedy = str(path), "Take the official file."
        if isinstance(error, json.JSONDecodeError):
            place += f", line {error.lineno}, character {error.colno}"
        expected = "JSON of SQuAD's form"
        raise files.unexpected(place, expected, error, remedy) from error
    examples = []
    for article in _parse(_SquadFile, content, path).data:
        for paragraph in article.paragraphs:
            for question in paragraph.qas:
                if needs_is_impossible and question.is_impossible is None:
                    place = f"{path}, question {question.id!r}"
                    raise files.unexpected(place, "the key 'is_impossible'")
                examples.append(question.to_example(paragraph.context))
    return _check(examples, path)


def read_mrqa(path: pathlib.Path) -> list[Example]:
    """Reads the questions of an MRQA file, plain or `.gz`, in its order."""
    examples = []
    for number, line in files.read_lines(path):
        place = f"{path}, line {number}"
        record = files.parse_object(line, place) if line.strip() else {}
        if line.strip() and "header" not in record:
            content = _parse(_Paragraph[_MrqaQuestion], record, place)
            examples += [q.to_example(content.context) for q in content.qas]
    return _check(examples, path)


def _parse(kind: type[_Content], content: Any, place: object) -> _Content:
    try:
        return kind.model_validate(content)
    except pydantic.ValidationError as error:
        problem = schema.describe(kind, error.errors(include_url=False)[0])
        raise errors.DataError(
            f"{place}: {problem} Repair the file, or take the official one."
        ) from error


def from_tfds(name: str, split: str) -> list[Example]:
    """Reads a data set of TensorFlow Datasets that has SQuAD's form."""
    examples = []
    for record in files.read_tfds(name, split.replace("dev", "validation")):
        answers = record["answers"]
        places = zip(answers["text"], answers["answer_start"], strict=True)
        question = _SquadQuestion(
            id=record["id"],
            question=record["question"],
            answers=[_SquadAnswer(text=t, answer_start=s) for t, s in places],
            is_impossible=record.get("is_impossible"),
        )
        examples.append(question.to_example(record["context"]))
    return _check(examples, name)


def _check(examples: list[Example], source: object) -> list[Example]:
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

    As in the original, about one in 1,500 of SQuAD is left out.
    """
    missing = find_unanswered(examples, source)
    if missing:
        logging.warning(
            f"{source}: {len(missing)} of {len(examples)} questions are left "
            "out of training, because the words of the context at the place "
            f"given do not hold their answer: {files.list_some(missing)}."
        )
    left_out = set(missing)
    return [example for example in examples if example.id not in left_out]


def find_unanswered(examples: Sequence[Example], source: object) -> list[str]:
    """Lists the ids whose answer is not in the context at the place given."""
    answerable = [e for e in examples if not e.is_impossible]
    for example in (e for e in answerable if e.answer is None):
        raise files.unexpected(
            f"{source}, question {example.id!r}",
            "an answer, or `is_impossible`",
            remedy="Name a file with answers; unanswerable questions are those "
            "of squad2 and own.",
        )
    return [e.id for e in answerable if find_answer(e) is None]


def find_answer(example: Example) -> tuple[int, int] | None:
    """Finds where the words that cover an answer begin and end.

    Its offset may be wrong: what counts is that the answer, in lower case and
    with single blanks, is in the words that cover the characters said. None if
    it is not, or there is no answer.
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


@schema.frozen
class Source:
    """A published data set; `published.toml` explains its fields."""

    name: str  # of its task
    form: str
    published: str
    folders: tuple[str, ...]
    counts: dict[str, int]  # by split
    tfds: str = ""  # empty if it is not there

    def read_split(self, data_dir: str, split: str) -> list[Example]:
        """Reads the questions of a split, those for training with answers."""
        source: object = self.tfds
        is_training = split == "train"
        if data_dir == files.TFDS:
            if not source:
                raise errors.DataError(
                    f"{self.name} is not read from TensorFlow Datasets. "
                    "Download its files from mrqa.github.io and name their "
                    "folder: --config.task.data_dir."
                )
            examples = from_tfds(self.tfds, split)
        else:
            source = path = self.find(data_dir, split)
            if self.form == MRQA:
                examples = read_mrqa(path)
            else:
                examples = read_squad(path, self.form == SQUAD2 and is_training)
        files.warn_of_count(source, len(examples), self.counts[split])
        return keep_answered(examples, source) if is_training else examples

    def find(self, data_dir: str, split: str) -> pathlib.Path:
        """Finds the file of a split, in the original's or official folders."""
        # Names of a folder, none for any folder, and names of a file in it.
        places: list[tuple[Sequence[str], list[str]]]
        if self.form == MRQA:
            folders = ["train"] if split == "train" else ["dev", "dev-indomain"]
            names = [f"{self.published}.jsonl.gz", f"{self.published}.jsonl"]
            own = [f"{split}.jsonl", f"{split}.jsonl.gz"]
            places = [(self.folders, own), (folders, names)]
        else:
            # Parts and rebuilt files name the version in the same way.
            endings = (".json", ".rebuilt.json", ".standin.json")
            names = [f"{split}-{self.published}{ending}" for ending in endings]
            places = [((), names), (self.folders, [f"{split}.json"])]
        try:
            return files.find_file(data_dir, *places[0], self.name)
        except FileNotFoundError as error:
            with contextlib.suppress(FileNotFoundError):
                return files.find_file(data_dir, *places[1], self.name)
            raise error


SOURCES = {
    name: schema.build(Source, {"name": name} | entry)
    for name, entry in files.read_published("questions").items()
}
"""Task name to its files."""


def read_own(settings: _OwnTaskConfig, split: str) -> list[Example]:
    """Reads the questions of a user's own file, in its order.

    `train` and `dev` must have answers that are in their contexts.
    """
    path = storage.path(settings.files[split])
    file_format = files.resolve_format(path, settings.file_format, _ENDINGS)
    if file_format == "squad":
        examples = read_squad(path)
    elif file_format == "mrqa":
        examples = read_mrqa(path)
    else:
        examples = _read_table(path, file_format, settings, split != "test")
    if split == "test":
        return examples
    missing = set(find_unanswered(examples, path))
    for example in (e for e in examples if e.id in missing):
        place = f"{path}, question {example.id!r}"
        _require_answer(place, example.context, example.answer)
    return keep_answered(examples, path) if split == "train" else examples


def _require_answer(place: str, context: str, answer: Answer | None) -> None:
    text, start = (answer.text, answer.start) if answer else ("", 0)
    there = context[max(start, 0) :][: len(text)]
    if there != text or start < 0:
        expected = f"the answer {text[:60]!r} in the context"
        expected += f" at character {start}" if start >= 0 else ""
        remedy = (
            "Repair the answer or its place, or remove the question; without "
            "a column of places (--config.own.answer_start_column=) the first "
            "occurrence counts."
        )
        raise files.unexpected(place, expected, there, remedy)


def _read_table(
    path: pathlib.Path,
    file_format: str,
    settings: _OwnTaskConfig,
    has_answers: bool,
) -> list[Example]:
    required = [settings.question_column, settings.context_column]
    required += [settings.id_column] * bool(settings.id_column)
    answer = [settings.answer_column, settings.answer_start_column]
    answer = [column for column in answer if column]
    contexts: dict[str, str] = {}
    examples = []
    needed = required + answer * has_answers
    rows = files.read_table(path, file_format, needed, answer)
    for number, row in enumerate(rows):
        question, context, *ids = (_text_of(row, name) for name in required)
        # One object for equal texts.
        context = contexts.setdefault(context, context)
        example = Example(ids[0] if ids else str(number), question, context)
        examples.append(_add_answer(example, row, settings))
    return _check(examples, path)


def _add_answer(
    example: Example, row: files.Record, settings: _OwnTaskConfig
) -> Example:
    if settings.answer_column not in row.values:
        return example
    if cells.is_empty(row, settings.answer_column):
        return dataclasses.replace(example, golds=(), is_impossible=True)
    text = _text_of(row, settings.answer_column)
    place = f"{row.place} (question {example.id!r})"
    start = example.context.find(text)
    value = row.values.get(settings.answer_start_column)
    if value is not None:
        number = files.parse_number(value)
        if not (number >= 0 and number.is_integer()):
            column = settings.answer_start_column
            expected = f"{column!r} to be the number of a character, from 0"
            raise files.unexpected(place, expected, value)
        start = int(number)
    answer = Answer(text, start)
    _require_answer(place, example.context, answer)
    return dataclasses.replace(example, golds=(text,), answer=answer)


def _text_of(row: files.Record, column: str) -> str:
    text = cells.read_text(row, column)
    if not text.strip():
        raise files.unexpected(row.place, f"a text in column {column!r}", text)
    return text
