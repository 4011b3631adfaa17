"""Questions with their documents and answers, and the files they are in.

Official evaluation looks at the texts of all answers, training at the place of
the first.
"""

import contextlib
import dataclasses
import functools
import pathlib
import re
import unicodedata
from collections.abc import Iterable, Sequence

from absl import logging

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.question_answering import forms
from electra_tf.tasks.rows import QUESTION_BLANKS

SQUAD1 = "squad1"
SQUAD2 = "squad2"
MRQA = "mrqa"
SPLITS = ("train", "dev")
_LATIN = r"[^\W_\u0300-\u1dff\u1f00-\U0010ffff]"
OTHER_SCRIPTS = re.compile(r"[^\W\d_\u0000-\u02ff\u1e00-\u1eff]")
"""A letter that is not Latin: there, words may not stand between blanks."""

# The ending of an own file's name to its format.
_ENDINGS = {**files.ENDINGS, ".json": "squad", ".gz": "mrqa"}
_OwnTaskConfig = finetuning_config.OwnTaskConfig
ANY_BLANKS = re.compile(f"[{QUESTION_BLANKS}]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """An answer in its document."""

    text: str  # as annotated
    # The character of the context at which it is said to begin; -1: not said
    start: int
    # The one after its last, where `start` was verified: it is learned as the
    # pieces of just these characters. None: as the original's words have it
    end: int | None = None


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


def read_squad(path: pathlib.Path) -> list[Example]:
    """Reads the questions of a file of JSON, or of JSON lines, in its order."""
    return _build(forms.read_json(path), path)


def _build(
    questions: Iterable[files.Record],
    source: object,
    own: _OwnTaskConfig | None = None,
) -> list[Example]:
    """Builds the examples of a file, whose ids differ.

    Those of a user's `own` file are numbered if its ids do not.
    """
    examples: list[Example] = []
    places: dict[str, str] = {}
    contexts: dict[str, str] = {}
    for number, record in enumerate(questions):
        example = _to_example(record, number, contexts)
        if own and not (example.question.strip() and example.context.strip()):
            expected = "a text as question and as context"
            raise files.unexpected(record.place, expected, " ")
        if example.id in places and not (own and not own.id_column):
            both = f"{places[example.id]}, and {record.place}"
            remedy = "Several answers of a question are a list in its row."
            raise files.unexpected(both, "different ids", example.id, remedy)
        places[example.id] = record.place
        examples.append(example)
    if not examples:
        raise files.unexpected(source, "questions")
    if len(places) < len(examples):
        logging.warning(
            f"{source}: {len(examples)} questions have {len(places)} ids. They "
            "are numbered from 0 instead; rows of one question are several."
        )
        examples = [
            dataclasses.replace(example, id=str(number))
            for number, example in enumerate(examples)
        ]
    return examples


def _to_example(
    record: files.Record, number: int, contexts: dict[str, str]
) -> Example:
    """Without answers nothing is told, unless the flag says more."""
    has_id = not cells.is_empty(record, "id")
    name = cells.read_name(record, "id") if has_id else str(number)
    question, context = (
        cells.read_text(record, column) for column in ("question", "context")
    )
    # One object for equal texts.
    context = contexts.setdefault(context, context)
    answers, is_impossible = forms.read_answers(record), forms.read_flag(record)
    is_told = bool(answers)
    if is_impossible is not None:
        has_answers = record.values.get("answers") is not None
        is_told = is_impossible or has_answers
    if not is_told:
        return Example(name, question, context)
    golds = tuple(text for text, _ in answers)
    learned = forms.read_detected(record)
    text, start = next(iter(answers if learned is None else learned), ("", -1))
    answer = Answer(text, start) if text else None
    return Example(name, question, context, golds, answer, bool(is_impossible))


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
    left_out, kept = set(missing), []
    for example in examples:
        words = find_answer(example) or (0, 0)
        if OTHER_SCRIPTS.search(example.context, *words):
            # The original's rule does not know these words.
            place = place_answer(example) or example.answer
            example = dataclasses.replace(example, answer=place)
        if example.id not in left_out:
            kept.append(example)
    return kept


def find_unanswered(examples: Sequence[Example], source: object) -> list[str]:
    """Lists the ids whose answer is not in the context at the place given."""
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
            remedy="Give it an answer, or `is_impossible` as true (of squad2 "
            "and own alone), or name a file with answers.",
        )


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
    covering = ANY_BLANKS.sub(" ", context[begin:end])
    if " ".join(answer.text.split()).lower() not in covering.lower():
        return None
    return begin, end


def _find_word(context: str, place: int) -> int:
    """Where the word of a character begins (of a blank, the one before)."""
    end = len(context[: place + 1].rstrip(QUESTION_BLANKS))
    if not end:
        return -1
    return 1 + max(context.rfind(blank, 0, end) for blank in QUESTION_BLANKS)


def place_answer(example: Example) -> Answer | None:
    """Finds the occurrence of an answer that is nearest to its place.

    Without a place it is the first one. Only if there is none may it be inside
    a word, and then differ in case and blanks; None if nothing is found.
    """
    context, answer = example.context, example.answer
    if answer is None:
        return None
    end = answer.start + len(answer.text)
    if answer.start >= 0 and context[answer.start : end] == answer.text:
        return dataclasses.replace(answer, end=end)
    pattern = r"\s+".join(map(re.escape, answer.text.split()))
    whole = f"(?<!{_LATIN}){pattern}(?!{_LATIN})"
    for wanted in (whole, pattern, f"(?i:{pattern})"):
        # Ahead, so that occurrences may overlap.
        found = re.finditer(f"(?=({wanted}))", context)
        spans = [match.span(1) for match in found]
        if spans:
            nearest = min(spans, key=lambda span: abs(span[0] - answer.start))
            return Answer(answer.text, *nearest)
    return None


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
        source = self.tfds
        if data_dir == files.TFDS:
            if not source:
                raise errors.DataError(
                    f"{self.name} is not read from TensorFlow Datasets. "
                    "Download its files from mrqa.github.io and name their "
                    "folder: --config.task.data_dir."
                )
            rows = files.read_tfds(source, split.replace("dev", "validation"))
            parts = (files.Record(source, forms.rename(row)) for row in rows)
            examples = _build(parts, source)
        else:
            path = self.find(data_dir, split)
            source, examples = str(path), read_squad(path)
        files.warn_of_count(source, len(examples), self.counts[split])
        if split == "train":
            return keep_answered(examples, source)
        return examples

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


def read_own(own: _OwnTaskConfig, split: str) -> list[Example]:
    """Reads the questions of a user's own file, in its order.

    If the file has answers, questions without one are unanswerable. `train` and
    `dev` must have them. What is learned is where the context holds it, and
    warnings say which answers were elsewhere, or nowhere.
    """
    path = storage.path(own.files[split])
    file_format = files.resolve_format(path, own.file_format, _ENDINGS)
    if file_format in ("csv", "tsv"):
        rows = forms.read_table(path, file_format, own, split != "test")
    else:
        rows = forms.read_json(path, own)
    examples = _build(rows, path, own=own)
    if any(example.golds for example in examples):
        denied = [e.id for e in examples if e.is_impossible and e.golds]
        if denied:
            logging.warning(
                f"{path}: {len(denied)} questions have answers, but "
                f"`is_impossible` is true: {files.list_some(denied)}. They are "
                "learned as unanswerable."
            )
        examples = [_settle(e, bool(own.answer_start_column)) for e in examples]
    if split == "test":
        return examples
    _require_answers(examples, path)
    return _place_answers(examples, path, split == "train")


def _settle(example: Example, has_places: bool) -> Example:
    """Decides what is not told of a question in a file with answers."""
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
    """Writes an answer with the characters of Unicode that a context has."""
    forms = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    return next((form for form in (text, *forms) if form in context), text)


def _place_answers(
    examples: Sequence[Example], path: pathlib.Path, is_training: bool
) -> list[Example]:
    """Verifies all places, and warns of answers that are not at theirs."""
    placed: list[Example] = []
    moved: list[tuple[int, str]] = []
    missing: list[str] = []
    num_guessed = num_answers = 0
    for example in examples:
        said, found = example.answer, place_answer(example)
        num_answers += said is not None
        if said and found and said.start < 0:
            num_guessed += example.context.count(said.text) > 1
        elif said and found and said.start != found.start:
            told = f"{said.text[:40]!r} of question {example.id!r} begins at "
            told += f"{found.start}, not at {said.start}"
            moved.append((abs(said.start - found.start), told))
        elif said and not found:
            missing.append(f"{example.id!r} ({said.text[:40]!r})")
        if found or not (said and is_training):
            placed.append(dataclasses.replace(example, answer=found or said))
    nowhere = f"are nowhere in their contexts: {files.list_some(missing)}."
    if 2 * len(missing) > num_answers:
        raise errors.DataError(
            f"{path}: {len(missing)} of {num_answers} answers {nowhere} Are "
            "contexts complete, and is it the right column?"
        )
    fate = "left out of training" if is_training else "kept, and never right"
    for count, told in (
        (num_guessed, "have no `answer_start` and are in their contexts "
         "several times; the first time is learned."),
        (len(moved), "do not begin where `answer_start` says, in characters of "
         "the context from 0. The nearest place is learned; the farthest: "
         f"{max(moved, default=(0, ''))[1]}."),
        (len(missing), f"{nowhere} These questions are {fate}."),
    ):  # fmt: skip
        if count:
            logging.warning(f"{path}: {count} of {num_answers} answers {told}")
    return placed
