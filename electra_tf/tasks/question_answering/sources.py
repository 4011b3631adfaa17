"""Where questions are read from: the published files, or a user's own.

Published folders are those of the original (`squad/train.json`,
`newsqa/dev.jsonl`) or of the publishers (`train-v2.0.json`;
`train/NewsQA.jsonl.gz`). What they may have wrong, own data may not: an answer
that is not in its context is an error there.
"""

import dataclasses
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from electra_tf import errors
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import files
from electra_tf.tasks import tfds_source
from electra_tf.tasks.question_answering import records

SQUAD1 = "squad1"
SQUAD2 = "squad2"
MRQA = "mrqa"
SPLITS = ("train", "dev")

# Names of a folder, none for any folder, and names of a file in it.
_Place = tuple[Sequence[str], Sequence[str]]
_TFDS_SPLITS = {"train": "train", "dev": "validation"}
# The ending of an own file's name to its format.
_ENDINGS = {**files.ENDINGS, ".json": "squad", ".gz": "mrqa"}


@dataclasses.dataclass(frozen=True)
class Source:
    """The files of one published data set."""

    name: str  # of its task
    form: str  # `SQUAD1`, `SQUAD2` or `MRQA`: of the file, and of the scores
    # Split to where its file may be; the first that is there counts
    places: Mapping[str, Sequence[_Place]]
    # Split to the number of the published file
    num_questions: Mapping[str, int]
    tfds_name: str = ""  # in TensorFlow Datasets, or empty

    def read(self, data_dir: str, split: str) -> list[records.Example]:
        """Reads the questions of a split, in the order of the file.

        Training questions without their answer in the context are left out,
        with a warning. `data_dir` is a folder, or `tfds`.
        """
        source: object
        if data_dir == tfds_source.DATA_DIR:
            source = self.tfds_name
            examples = self._read_tfds(split)
        elif self.form == MRQA:
            source = path = self.find(data_dir, split)
            examples = records.read_mrqa(path)
        else:
            source = path = self.find(data_dir, split)
            needs_flag = self.form == SQUAD2 and split == "train"
            examples = records.read_squad(path, needs_flag)
        files.warn_of_count(source, len(examples), self.num_questions[split])
        if split == "train":
            return records.keep_answered(examples, source)
        return examples

    def find(self, data_dir: str, split: str) -> pathlib.Path:
        """Finds the file of a split; an error names the publisher's file."""
        if not data_dir:
            raise FileNotFoundError(
                f"Expected a folder with the files of {self.name}. Received: "
                "none. Name it: --config.task.data_dir."
            )
        absences = []
        for folders, names in self.places[split]:
            try:
                return files.find_file(
                    pathlib.Path(data_dir), folders, names, self.name
                )
            except FileNotFoundError as error:
                absences.append(error)
        raise absences[0]

    def _read_tfds(self, split: str) -> list[records.Example]:
        if not self.tfds_name:
            raise errors.DataError(
                f"{self.name} is not read from TensorFlow Datasets. Download "
                "its files from mrqa.github.io and name their folder: "
                "--config.task.data_dir."
            )
        read = tfds_source.read(self.tfds_name, _TFDS_SPLITS[split])
        return records.from_tfds(read, self.tfds_name)


def _squad(
    name: str, version: str, folders: Sequence[str], counts: tuple[int, int]
) -> Source:
    """SQuAD; also parts of it that name the version in the same way."""
    endings = ("", ".rebuilt", ".standin")
    places = {
        split: (
            ((), [f"{split}-{version}{ending}.json" for ending in endings]),
            (folders, [f"{split}.json"]),
        )
        for split in SPLITS
    }
    num_questions = dict(zip(SPLITS, counts, strict=True))
    return Source(name, name, places, num_questions, f"squad/{version}")


def _mrqa(name: str, published: str, counts: tuple[int, int]) -> Source:
    names = [f"{published}.jsonl.gz", f"{published}.jsonl"]
    folders = {"train": ["train"], "dev": ["dev", "dev-indomain"]}
    places = {
        split: (
            ([name], [f"{split}.jsonl", f"{split}.jsonl.gz"]),
            (folders[split], names),
        )
        for split in SPLITS
    }
    return Source(name, MRQA, places, dict(zip(SPLITS, counts, strict=True)))


_ALL = (
    _squad(SQUAD1, "v1.1", ["squad1", "squadv1"], (87_599, 10_570)),
    _squad(SQUAD2, "v2.0", ["squad2", "squadv2", "squad"], (130_319, 11_873)),
    _mrqa("newsqa", "NewsQA", (74_160, 4_212)),
    _mrqa("naturalqs", "NaturalQuestionsShort", (104_071, 12_836)),
    _mrqa("triviaqa", "TriviaQA-web", (61_688, 7_785)),
    _mrqa("searchqa", "SearchQA", (117_384, 16_980)),
)
SOURCES: Mapping[str, Source] = {source.name: source for source in _ALL}
"""Task name to its files; the counts are those of the published ones."""


def read_own(
    settings: finetuning_config.OwnTaskConfig, split: str
) -> list[records.Example]:
    """Reads the questions of a user's own file, in its order.

    `train` and `dev` must have answers, `test` may. `DataError` for the first
    record that is not as expected, or whose answer is not in its context.
    """
    path = pathlib.Path(settings.files[split])
    file_format = files.resolve_format(path, settings.file_format, _ENDINGS)
    has_answers = split != "test"
    if file_format == "squad":
        examples = records.read_squad(path)
    elif file_format == "mrqa":
        examples = records.read_mrqa(path)
    else:
        examples = _read_table(path, file_format, settings, has_answers)
    if has_answers:
        missing = set(records.find_unanswered(examples, path))
        for example in examples:
            if example.id in missing and example.answer is not None:
                place = f"{path}, question {example.id!r}"
                _require_answer(place, example.context, example.answer)
    if split == "train":
        return records.keep_answered(examples, path)
    return examples


def _require_answer(place: str, context: str, answer: records.Answer) -> None:
    start = max(answer.start, 0)
    there = context[start : start + len(answer.text)]
    if there != answer.text or answer.start < 0:
        expected = f"the answer {answer.text[:60]!r} in the context"
        if answer.start >= 0:
            expected += f" at character {answer.start}"
        remedy = (
            "Repair the answer or its place, or remove the question; without "
            "a column of places (--config.own.answer_start_column=) the first "
            "occurrence counts."
        )
        raise files.unexpected(place, expected, there, remedy)


def _read_table(
    path: pathlib.Path,
    file_format: str,
    settings: finetuning_config.OwnTaskConfig,
    has_answers: bool,
) -> list[records.Example]:
    required = [settings.question_column, settings.context_column]
    if settings.id_column:
        required.append(settings.id_column)
    answer = [settings.answer_column, settings.answer_start_column]
    answer = [column for column in answer if column]
    contexts: dict[str, str] = {}
    examples = []
    for number, row in enumerate(
        files.read_table(
            path, file_format, required + answer * has_answers, answer
        )
    ):
        texts = {name: _require_text(row, name) for name in required}
        context = texts[settings.context_column]
        identity = texts.get(settings.id_column, str(number))
        examples.append(
            records.Example(
                identity,
                texts[settings.question_column],
                # One object for equal texts.
                contexts.setdefault(context, context),
                **_read_answer(row, settings, context),
            )
        )
    return records.check(examples, path)


def _read_answer(
    row: files.Record,
    settings: finetuning_config.OwnTaskConfig,
    context: str,
) -> Mapping[str, Any]:
    """The fields of an example that tell its answer."""
    if settings.answer_column not in row.values:
        return {}
    if row.values[settings.answer_column] in (None, ""):
        return {"golds": (), "is_impossible": True}
    text = _require_text(row, settings.answer_column)
    place = row.place
    if settings.id_column:
        place += f" (question {row.values[settings.id_column]!r})"
    start = context.find(text)
    value = row.values.get(settings.answer_start_column)
    if value is not None:
        start = _parse_start(value, place, settings.answer_start_column)
    answer = records.Answer(text, start)
    _require_answer(place, context, answer)
    return {"golds": (text,), "answer": answer}


def _parse_start(value: Any, place: str, column: str) -> int:
    try:
        start = int(value) if isinstance(value, str) else value
        if isinstance(start, bool) or start != int(start) or start < 0:
            raise ValueError
    except (ValueError, TypeError) as error:
        expected = f"{column!r} to be the number of a character, from 0"
        raise files.unexpected(place, expected, value) from error
    return int(start)


def _require_text(row: files.Record, column: str) -> str:
    text = row.text(column)
    if not text.strip():
        raise files.unexpected(row.place, f"a text in column {column!r}", text)
    return text
