"""Answers for every row of a table: the same rows, with columns added.

Parts of the answer are kept beside the file until all is there, so the same
command goes on where it was stopped.
"""

import contextlib
import csv
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from absl import flags
from absl import logging

from electra_tf import installed
from electra_tf import storage
from electra_tf import version
from electra_tf.config import finetuning as finetuning_config
from electra_tf.processes import atomic
from electra_tf.processes import locks
from electra_tf.processes import progress
from electra_tf.tasks import cells
from electra_tf.tasks import files

Texts = dict[str, list[str]]
"""Name of an input of a model to a text of each row."""
_Row = tuple[dict[str, Any], list[str]]  # its cells, and its texts or ""
# Rows whose answers are kept together.
_PART = 1_024
_DELIMITERS = {"csv": ",", "tsv": "\t"}


@dataclasses.dataclass(frozen=True)
class AnsweredTable:
    """A table of texts, and the one that is made of it."""

    source: pathlib.Path
    target: pathlib.Path  # its ending says in which format it is written

    def __post_init__(self) -> None:
        flags = ("--input_file", self.source), ("--output_file", self.target)
        for flag, path in flags:
            if path.suffix.lower() not in files.ENDINGS:
                expected = (
                    f"as {flag} a name that ends with one of "
                    f"{', '.join(files.ENDINGS)}"
                )
                remedy = "Save it as one of them, or name it so."
                raise files.unexpected(path, expected, path.suffix, remedy)
        files.require_table(self.source)
        if self.target.exists():
            raise FileExistsError(
                f"Answers go into a new file. Received: {self.target}, which "
                "is there. Give another --output_file, or remove that one."
            )

    def write(
        self,
        columns: Mapping[str, str],
        answer: Callable[[Texts], Iterable[Mapping[str, Any]]],
        key: str,
    ) -> None:
        """Writes all rows with the columns that `answer` gives for each.

        All texts are looked at before the first answer; `DataError` names file
        and line. Rows without a text have none of the columns.

        Args:
            columns: of the table, by input of the model.
            answer: takes some rows' texts.
            key: tells the model apart: parts that another one left do not
                count.
        """
        parts_read = self._read_parts(columns)
        are_filled = [any(texts) for rows in parts_read for _, texts in rows]
        total = len(are_filled)
        if not any(are_filled):
            expected = f"rows of {', '.join(columns.values())}"
            raise files.unexpected(self.source, expected)
        if count := are_filled.count(False):
            told = f"{count:,} of {total:,} rows have no text, and no answer"
            logging.warning(f"{self.source}: {told}.")
        with self.source.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        # Another version may answer otherwise.
        text = f"{version.VERSION} {key} {content} {sorted(columns.items())}"
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        folder = self.target.with_name(f".{self.target.name}.parts")
        parts = list[pathlib.Path]()
        with locks.hold(folder):
            with progress.WorkProgress("Answers", total, "rows") as shown:
                shown.advance(0, 0)  # starts the clock
                for rows in self._read_parts(columns):
                    parts.append(folder / f"{digest}-{len(parts):06d}.jsonl")
                    if not parts[-1].exists():
                        lines = self._add_columns(rows, columns, answer)
                        atomic.write_text(parts[-1], "".join(lines))
                    shown.advance(len(rows), len(rows))
            self._join(parts)
            for path in folder.glob("*.jsonl"):
                path.unlink()
        with contextlib.suppress(OSError):  # Another process may hold it.
            folder.rmdir()

    def _read_parts(self, columns: Mapping[str, str]) -> Iterator[list[_Row]]:
        rows, wanted = list[_Row](), list(columns.values())
        file_format = files.resolve_format(self.source, "auto")
        remedy = "name the right ones by --columns"
        found = files.read_rows(self.source, file_format, wanted, remedy)
        for place, row in found:
            try:
                json.dumps(row, ensure_ascii=False).encode()
            except UnicodeEncodeError as error:
                expected, received = "valid Unicode", ascii(row)
                raise files.unexpected(place, expected, received) from error
            record = files.Record(place, dict(row))
            texts = [self._read_text(record, column) for column in wanted]
            rows.append((record.values, texts))
            if len(rows) == _PART:
                yield rows
                rows = []
        if rows:
            yield rows

    def _read_text(self, record: files.Record, column: str) -> str:
        if record.values[column] in ("nan", "NaN"):
            return ""
        return cells.read_text(record, column, may_be_empty=True)

    def _add_columns(
        self,
        rows: Sequence[_Row],
        columns: Mapping[str, str],
        answer: Callable[[Texts], Iterable[Mapping[str, Any]]],
    ) -> Iterator[str]:
        filled = [texts for _, texts in rows if any(texts)]
        inputs = map(list, zip(*filled, strict=True))
        texts_of = dict(zip(columns, inputs, strict=False))
        answers = iter(answer(texts_of) if filled else ())
        for row, texts in rows:
            added = next(answers) if any(texts) else {}
            if common := set(row) & set(added):
                expected = f"no columns called {', '.join(sorted(added))}"
                received = ", ".join(sorted(common))
                remedy = "Rename them."
                raise files.unexpected(self.source, expected, received, remedy)
            yield json.dumps({**row, **added}, ensure_ascii=False) + "\n"

    def _join(self, parts: Sequence[pathlib.Path]) -> None:
        """Makes the file of all parts: it is there whole, or not at all."""
        delimiter = _DELIMITERS.get(files.ENDINGS[self.target.suffix.lower()])
        with (
            atomic.replacing_file(self.target) as partial,
            partial.open("w", encoding="utf-8", newline="") as stream,
        ):
            if delimiter is None:
                stream.writelines(path.read_text("utf-8") for path in parts)
                return
            names: dict[str, None] = {}
            for row in _read_objects(parts):
                names |= dict.fromkeys(row)
            # A TSV whose names are in quotes is read as one with quotes.
            is_tsv = delimiter == "\t"
            table = csv.DictWriter(
                stream,
                list(names),
                delimiter=delimiter,
                quoting=csv.QUOTE_ALL if is_tsv else csv.QUOTE_MINIMAL,
            )
            table.writeheader()
            for row in _read_objects(parts):
                table.writerow({n: _to_cell(row[n]) for n in row})


def _read_objects(parts: Iterable[pathlib.Path]) -> Iterator[dict[str, Any]]:
    for path in parts:
        with path.open(encoding="utf-8", newline="\n") as lines:
            yield from map(json.loads, lines)


def _to_cell(value: Any) -> Any:
    is_nested = isinstance(value, list | dict | bool)
    return json.dumps(value, ensure_ascii=False) if is_nested else value


def define_flags(models: str) -> None:
    """Defines the flags that `check_flags` reads."""
    flags.DEFINE_string("model", "", models)
    flags.DEFINE_string("saved_model", "", "Folder made by electra-export.")
    flags.DEFINE_string("input_file", "", "Texts: .csv, .tsv or .jsonl.")
    flags.DEFINE_string("output_file", "", "A new file, as --input_file.")
    flags.DEFINE_list("columns", [], "Of --input_file; empty: as in training.")


def check_flags(has_texts: bool) -> tuple[AnsweredTable | None, pathlib.Path]:
    """Returns the table to answer, if any, and the folder of the model.

    Raises `ValueError` if flags clash; `has_texts` if some are given by flags.
    """
    given = flags.FLAGS
    if bool(given.model) == bool(given.saved_model):
        raise ValueError("Give --model or --saved_model.")
    paths = given.input_file, given.output_file
    if has_texts == any(paths) or any(paths) != all(paths):
        raise ValueError(
            "Give texts, by --text for example, or else --input_file and "
            "--output_file."
        )
    table = AnsweredTable(*map(storage.path, paths)) if paths[0] else None
    if given.saved_model or installed.is_export(given.model):
        return table, installed.find_export(given.saved_model or given.model)
    return table, installed.find_model(given.model)


def add_prefix(prediction: Any) -> dict[str, Any]:
    """Returns the columns that a prediction, a dataclass, is written in."""
    fields = dataclasses.asdict(prediction)
    return {f"predicted_{n}": _name_fields(v) for n, v in fields.items()}


def _name_fields(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return value._asdict()
    is_list = isinstance(value, list | tuple)
    return [_name_fields(item) for item in value] if is_list else value


def find_columns(
    inputs: Sequence[str],
    given: Sequence[str],
    own: finetuning_config.OwnTaskConfig | None = None,
) -> dict[str, str]:
    """Returns the column of each input of a model: given, or the usual one.

    `own` has those of the training file. Raises `ValueError` if the wrong
    number is given.
    """
    own = own or finetuning_config.OwnTaskConfig()
    usual = {
        "texts": own.text_column,
        "text_pairs": own.text_pair_column or "text_pair",
        "questions": own.question_column,
        "contexts": own.context_column,
    }
    if given and len(given) != len(inputs):
        raise ValueError(
            f"--columns must name a column for each of {', '.join(inputs)}. "
            f"Received: {','.join(given)}. Name {len(inputs)} between commas."
        )
    names = given or [usual.get(name, name) for name in inputs]
    return dict(zip(inputs, names, strict=True))
