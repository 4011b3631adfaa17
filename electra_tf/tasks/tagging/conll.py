"""Sentences of words with tags: CoNLL columns, and tables of lists.

CoNLL files have a word and its tags on every line, and a blank line after every
sentence; tables a row for each, with a column of words and one of tags.
"""

import functools
import pathlib
from typing import NamedTuple

from absl import logging

from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import cells
from electra_tf.tasks import files

# The first field of a line that only says that a document begins.
_DOCUMENT_START = "-DOCSTART-"
_CHUNKING_FOLDERS = ("conll2000", "chunk", "chunking")
# Sentences of the published files.
_OFFICIAL_COUNTS = {"train.txt": 8_936, "test.txt": 2_012}
_ENDINGS = {
    **files.ENDINGS,
    **dict.fromkeys((".conll", ".txt", ".iob", ".bio"), "conll"),
}


class Sentence(NamedTuple):
    """One example of a tagging task."""

    words: tuple[str, ...]  # as they are in the file
    # One for every word, as in the file; None where it has none
    tags: tuple[str, ...] | None
    place: str = ""  # the file and the line where the sentence begins


def read_chunking(data_dir: str, split: str) -> list[Sentence]:
    """Reads a split of CoNLL-2000, `train.txt` and `test.txt` in `conll2000`.

    The original's layout is `chunk/{train,dev,test}.txt`. Where there is no
    `dev.txt` the test file serves as dev split too: its scores are the
    published ones, but nothing may be chosen by them.
    """
    find = functools.partial(files.find_file, data_dir, _CHUNKING_FOLDERS)
    try:
        path = find([f"{split}.txt"], "chunking")
    except FileNotFoundError:
        if split != "dev":
            raise
        path = find(["test.txt"], "chunking")
        logging.info("There is no dev.txt: %s is the dev split.", path)
    sentences = read_columns(path)
    if path.name == "test.txt" or not path.with_name("dev.txt").is_file():
        files.warn_of_count(path, len(sentences), _OFFICIAL_COUNTS[path.name])
    return sentences


def read_own(
    own: finetuning_config.OwnTaskConfig, split: str
) -> list[Sentence]:
    """Reads a user's file; the one of `test` needs no tags."""
    path, needs_tags = storage.path(own.files[split]), split != "test"
    file_format = files.resolve_format(path, own.file_format, _ENDINGS)
    columns = own.text_column, own.label_column
    if file_format != "conll":
        return read_table(path, file_format, *columns, needs_tags)
    # Columns without names: numbers instead of the defaults of tables.
    defaults = finetuning_config.OwnTaskConfig()
    numbers = {defaults.text_column: "0", defaults.label_column: "-1"}
    try:
        places = [int(numbers.get(column, column)) for column in columns]
    except ValueError:
        raise ValueError(
            "`own.text_column` and `own.label_column` of a file in CoNLL "
            "columns must be numbers, from 0, or from the end if negative. "
            f"Received: {columns[0]!r} and {columns[1]!r}."
        ) from None
    return read_columns(path, needs_tags, *places)


def read_columns(
    path: pathlib.Path,
    needs_tags: bool = True,
    word_column: int = 0,
    tag_column: int = -1,
) -> list[Sentence]:
    """Reads the sentences of a CoNLL file, in its order.

    Columns are separated by tabs (so a word may hold blanks) or by blanks, and
    count from 0, or from the end if negative. Lines that begin with
    `-DOCSTART-` are left out. Without `needs_tags` one column is one of words.
    """
    sentences: list[Sentence] = []
    rows: list[list[str]] = []
    columns: tuple[int, ...] = ()
    begin = ""
    for number, line in (*files.read_lines(path), (0, "")):
        fields = _split_fields(line) if line.strip() else []
        if fields and fields[0] != _DOCUMENT_START:
            place = f"{path}, line {number}"
            if not columns:
                width = len(fields)
                has_tags = needs_tags or width > 1
                columns = (word_column, tag_column)[: 1 + has_tags]
                places = range(-width, width)
                if width < len(columns) or not set(columns) <= set(places):
                    expected = f"a word and its tag in the columns {columns}"
                    raise files.unexpected(place, expected, line)
            files.require_width(place, fields, width, "between blanks or tabs")
            begin = begin if rows else place
            rows.append(fields)
        elif rows and not fields:
            words, *tags = (tuple(row[c] for row in rows) for c in columns)
            sentences.append(Sentence(words, tags[0] if tags else None, begin))
            rows = []
    if not sentences:
        expected = "sentences, a word with its tag on every line"
        raise files.unexpected(path, expected)
    return sentences


def _split_fields(line: str) -> list[str]:
    """Splits a line at tabs, or else at blanks of ASCII alone."""
    line = line.strip(" \t")
    parts = line.split("\t" if "\t" in line else " ")
    return [part.strip(" ") for part in parts if part.strip(" ")]


def read_table(
    path: pathlib.Path,
    file_format: str,
    word_column: str,
    tag_column: str,
    needs_tags: bool = True,
) -> list[Sentence]:
    """Reads the sentences of a CSV, TSV or JSON lines file, in its order.

    The columns hold lists of strings (in CSV and TSV as JSON), or strings that
    are split at blanks. Without `needs_tags` that of tags may be absent, or
    empty.
    """
    required = (word_column, tag_column)[: 1 + needs_tags]
    sentences = []
    for record in files.read_table(path, file_format, required, [tag_column]):
        words, tags = cells.read_words(record, word_column), None
        has_tags = record.values.get(tag_column) not in (None, "", [])
        if needs_tags or has_tags:
            tags = cells.read_words(record, tag_column)
            if len(tags) != len(words):
                expected = f"a tag for every word in {tag_column!r}"
                received = f"{len(words)} words, {len(tags)} tags"
                raise files.unexpected(record.place, expected, received)
        sentences.append(Sentence(words, tags, record.place))
    return sentences
