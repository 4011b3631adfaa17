"""Reads questions with their documents and answers.

Official scores compare the texts of all answers; training uses the place of the
first answer.
"""

import contextlib
import dataclasses
import functools
import pathlib
import re
import sys
import unicodedata
from collections.abc import Iterable, Sequence

from absl import logging

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks import tfds
from electra_tf.tasks.question_answering import forms
from electra_tf.tasks.rows import QUESTION_BLANKS

SQUAD1 = "squad1"
SQUAD2 = "squad2"
MRQA = "mrqa"
SPLITS = ("train", "dev")
_LATIN = r"[^\W_\u0300-\u1dff\u1f00-\U0010ffff]"
OTHER_SCRIPTS = re.compile(r"[^\W\d_\u0000-\u02ff\u1e00-\u1eff]")
"""Matches a letter that is not Latin: blanks may not separate such words."""

_OwnTaskConfig = finetuning_config.OwnTaskConfig
ANY_BLANKS = re.compile(f"[{QUESTION_BLANKS}]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An answer in its document."""

    text: str  # as annotated
    start: int  # its first character in the context, as annotated; -1: unknown
    # The character after the last, if `start` was verified; the pieces of these
    # characters are learned. None: the original's rule applies (`questions.py`)
    end: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """One question about one document."""

    id: str  # the id in the file, which predictions repeat
    question: str
    context: str  # the document; questions share the string object
    # Texts of right answers; () if the question is unanswerable, None if the
    # answers are unknown
    golds: tuple[str, ...] | None = None
    answer: Answer | None = None  # the answer to learn
    is_impossible: bool = False  # whether the question is unanswerable


def read_squad(path: pathlib.Path) -> list[Example]:
    """Reads the questions of a JSON or JSON lines file."""
    return _build(forms.read(path), path)


def _build(
    questions: Iterable[files.Record],
    source: object,
    own: _OwnTaskConfig | None = None,
) -> list[Example]:
    """Builds the examples of a file; raises `DataError` if ids repeat.

    Examples of a user's `own` file get numbers as ids instead.
    """
    examples: list[Example] = []
    places: dict[str, str] = {}
    for number, record in enumerate(questions):
        example = _to_example(record, number, own is None)
        if example.id in places and not (own and not own.id_column):
            pair = f"{places[example.id]}, and {record.place}"
            remedy = "Put all answers of a question into one row, as a list."
            raise files.unexpected(pair, "different ids", example.id, remedy)
        places[example.id] = record.place
        examples.append(example)
    if not examples:
        raise files.unexpected(source, "questions")
    if len(places) < len(examples):
        logging.warning(
            f"{source}: {len(examples)} questions have {len(places)} ids. The "
            "ids are ignored: each row is a question with its number as id."
        )
        examples = [
            dataclasses.replace(example, id=str(number))
            for number, example in enumerate(examples)
        ]
    return examples


def _to_example(
    record: files.Record, number: int, is_published: bool
) -> Example:
    has_id = not cells.is_empty(record, "id")
    name = cells.read_name(record, "id") if has_id else str(number)
    question, context = (
        cells.read_text(record, column, is_published)
        for column in ("question", "context")
    )
    # Equal contexts share one string object.
    context = sys.intern(context)
    answers, is_impossible = forms.read_answers(record), forms.read_flag(record)
    is_known = bool(answers)
    if is_impossible is not None:
        has_answers = record.values.get("answers") is not None
        is_known = is_impossible or has_answers
    if not is_known:
        return Example(name, question, context)
    golds = tuple(text for text, _ in answers)
    detected = forms.read_detected(record)
    placed = answers if detected is None else detected
    text, start = next(iter(placed), ("", -1))
    answer = Answer(text, start) if text else None
    return Example(name, question, context, golds, answer, bool(is_impossible))


def keep_answered(examples: Sequence[Example], source: object) -> list[Example]:
    """Returns the examples whose answer is in the context, and warns once.

    As in the original, about one question in 1,500 of SQuAD is left out.
    """
    missing = find_unanswered(examples, source)
    if missing:
        logging.warning(
            f"{source}: {len(missing)} of {len(examples)} questions are left "
            "out of training, because the context does not hold their answer "
            f"at the annotated place: {files.list_some(missing)}."
        )
    left_out, kept = set(missing), []
    for example in examples:
        words = find_answer(example) or (0, 0)
        if OTHER_SCRIPTS.search(example.context, *words):
            # The original's rule is for words between blanks.
            place = place_answer(example) or example.answer
            example = dataclasses.replace(example, answer=place)
        if example.id not in left_out:
            kept.append(example)
    return kept


def find_unanswered(examples: Sequence[Example], source: object) -> list[str]:
    """Lists the ids of examples whose context does not hold the answer."""
    _require_answers(examples, source)
    answerable = [e for e in examples if not e.is_impossible]
    return [e.id for e in answerable if find_answer(e) is None]


def _require_answers(examples: Sequence[Example], source: object) -> None:
    bare = [e for e in examples if not e.is_impossible and not e.answer]
    if bare:
        names = files.list_some([repr(example.id) for example in bare])
        raise files.unexpected(
            f"{source}, question {names}",
            "an answer, or `is_impossible`",
            remedy="Add an answer, name their column by own.answer_column, set "
            "`is_impossible` to true (only in squad2 and own), or name a file "
            "with answers.",
        )


def find_answer(example: Example) -> tuple[int, int] | None:
    """Finds the words that overlap the annotated place of an answer.

    Returns the first character of the words and the character after the last.
    Returns None if the words do not contain the answer (compared in lower case,
    with single blanks), or if there is no answer.
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
        # As in the original, a place before the only word means that word.
        begin = last_begin
    if begin < 0:
        return None
    covering = ANY_BLANKS.sub(" ", context[begin:end])
    if " ".join(answer.text.split()).lower() not in covering.lower():
        return None
    return begin, end


def _find_word(context: str, place: int) -> int:
    """Returns the start of the word at a character; at a blank, the last."""
    end = len(context[: place + 1].rstrip(QUESTION_BLANKS))
    if not end:
        return -1
    return 1 + max(context.rfind(blank, 0, end) for blank in QUESTION_BLANKS)


def place_answer(example: Example) -> Answer | None:
    """Finds the occurrence of an answer that is nearest to its place.

    If the place is unknown, takes the first occurrence. An occurrence of whole
    words comes before one inside a word, and that before one in another case.
    Returns None if the context does not hold the answer.
    """
    context, answer = example.context, example.answer
    if answer is None:
        return None
    end = answer.start + len(answer.text)
    if answer.start >= 0 and context[answer.start : end] == answer.text:
        return dataclasses.replace(answer, end=end)
    pattern = r"\s+".join(map(re.escape, answer.text.split()))
    whole = f"(?<!{_LATIN}){pattern}(?!{_LATIN})"
    for regex in (whole, pattern, f"(?i:{pattern})"):
        # A look-ahead, so that occurrences may overlap.
        matches = re.finditer(f"(?=({regex}))", context)
        spans = [match.span(1) for match in matches]
        if spans:
            nearest = min(spans, key=lambda span: abs(span[0] - answer.start))
            return Answer(answer.text, *nearest)
    return None


@schema.frozen
class Source:
    """A published data set; `published.toml` explains the fields."""

    name: str  # the name of the task
    form: str
    published: str
    folders: tuple[str, ...]
    counts: dict[str, int]  # split to number of questions
    tfds: str = ""  # name in TensorFlow Datasets, if any

    def read_split(self, data_dir: str, split: str) -> list[Example]:
        """Reads the questions of a split; `train` keeps answered ones."""
        source = self.tfds
        if data_dir == tfds.DATA_DIR:
            if not source:
                raise errors.DataError(
                    f"{self.name} is not read from TensorFlow Datasets. "
                    "Download its files from mrqa.github.io and name their "
                    "folder: task.data_dir."
                )
            rows = tfds.read(source, split.replace("dev", "validation"))
            found = (files.Record(source, forms.rename(row)) for row in rows)
            examples = _build(found, source)
        else:
            path = self.find(data_dir, split)
            source, examples = str(path), read_squad(path)
        files.warn_of_count(source, len(examples), self.counts[split])
        if split == "train":
            return keep_answered(examples, source)
        return examples

    def find(self, data_dir: str, split: str) -> pathlib.Path:
        """Finds the file of a split in the official or original layout."""
        # Names of the folder (none for any folder), and names of the file.
        places: list[tuple[Sequence[str], list[str]]]
        if self.form == MRQA:
            folders = ["train"] if split == "train" else ["dev", "dev-indomain"]
            names = [f"{self.published}.jsonl.gz", f"{self.published}.jsonl"]
            short_names = [f"{split}.jsonl", f"{split}.jsonl.gz"]
            places = [(self.folders, short_names), (folders, names)]
        else:
            # Names of subsets and rebuilt files contain the version, too.
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
"""Maps the name of a task to its data set."""


def read_own(own: _OwnTaskConfig, split: str) -> list[Example]:
    """Reads the questions of a user's file.

    If the file has answers, questions without an answer are unanswerable. The
    files of `train` and `dev` must have answers. Warnings list the answers that
    are not at their annotated place, or not in the context.
    """
    path = storage.path(own.files[split])
    is_json = own.file_format in ("squad", "mrqa")
    named = "jsonl" if is_json else own.file_format
    file_format = files.resolve_format(path, named)
    rows = forms.read(path, own, file_format, split != "test")
    examples = _build(rows, path, own=own)
    if any(example.golds for example in examples):
        ids = [e.id for e in examples if e.is_impossible and e.golds]
        if ids:
            logging.warning(
                f"{path}: {len(ids)} questions have answers, but "
                f"`is_impossible` is true: {files.list_some(ids)}. They are "
                "learned as unanswerable."
            )
        has_places = bool(own.answer_start_column)
        examples = [_complete(example, has_places) for example in examples]
    if split == "test":
        return examples
    _require_answers(examples, path)
    return _place_answers(examples, path, split == "train")


def _complete(example: Example, has_places: bool) -> Example:
    """Marks a question without an answer as unanswerable."""
    answer = example.answer
    if example.is_impossible or example.golds is None:
        return dataclasses.replace(
            example, golds=(), answer=None, is_impossible=True
        )
    if answer and not has_places:
        answer = Answer(answer.text, -1)
    match = functools.partial(_match_form, context=example.context)
    if answer:
        answer = dataclasses.replace(answer, text=match(answer.text))
    golds = tuple(map(match, example.golds))
    return dataclasses.replace(example, golds=golds, answer=answer)


def _match_form(text: str, context: str) -> str:
    """Converts an answer to the Unicode normal form of its context."""
    forms = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    return next((form for form in (text, *forms) if form in context), text)


def _place_answers(
    examples: Sequence[Example], path: pathlib.Path, is_training: bool
) -> list[Example]:
    placed: list[Example] = []
    moved: list[tuple[int, str]] = []
    missing: list[str] = []
    num_guessed = num_answers = 0
    for example in examples:
        annotated, verified = example.answer, place_answer(example)
        num_answers += annotated is not None
        if annotated and verified and annotated.start < 0:
            num_guessed += example.context.count(annotated.text) > 1
        elif annotated and verified and annotated.start != verified.start:
            answer = f"{annotated.text[:40]!r} of question {example.id!r}"
            starts = f"{verified.start}, not at {annotated.start}"
            distance = abs(annotated.start - verified.start)
            moved.append((distance, f"{answer} begins at {starts}"))
        elif annotated and not verified:
            missing.append(f"{example.id!r} ({annotated.text[:40]!r})")
        if verified or not (annotated and is_training):
            answer_to_learn = verified or annotated
            placed.append(dataclasses.replace(example, answer=answer_to_learn))
    nowhere = f"are not in their contexts: {files.list_some(missing)}."
    if 2 * len(missing) > num_answers:
        raise errors.DataError(
            f"{path}: {len(missing)} of {num_answers} answers {nowhere} Check "
            "that contexts are complete, and the column of answers."
        )
    fate = "left out of training" if is_training else "kept, and never right"
    for count, problem in (
        (num_guessed, "have no `answer_start` and occur several times in their "
         "contexts; the first occurrence is learned."),
        (len(moved), "do not begin where `answer_start` says, in characters of "
         "the context from 0. The nearest place is learned; the farthest: "
         f"{max(moved, default=(0, ''))[1]}."),
        (len(missing), f"{nowhere} These questions are {fate}."),
    ):  # fmt: skip
        if count:
            logging.warning(
                f"{path}: {count} of {num_answers} answers {problem}"
            )
    return placed
