"""Sentences of words with tags in columns, the form of CoNLL's tasks.

Every line holds a word with its tags, and a blank line ends a sentence.
"""

import collections
import functools
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from absl import logging

from electra_tf.tasks import files

# The first field of a line that only says that a document begins.
_DOCUMENT_START = "-DOCSTART-"
_CHUNKING_FOLDERS = ("conll2000", "chunk", "chunking")
# Sentences of the published files.
_OFFICIAL_COUNTS = {"train.txt": 8_936, "test.txt": 2_012}
# How a first line that names the columns calls those of words and of tags.
_WORD_NAMES = ("word", "words", "token", "tokens", "form", "text")
_TAG_NAMES = re.compile(r".*(tag|label|pos|ner|chunk|entity|bio|iob).*", re.I)
# First fields of numbered words; those with a hyphen or a point are ranges and
# empty nodes of CoNLL-U, and no words.
_NUMBER = re.compile(r"\d+([-.]\d+)?")
_NO_TAG = "_"
# First fields of comments that may have as many fields as words.
_COMMENTS = "#", "#begin", "#end"


class Sentence(NamedTuple):
    """One example of a tagging task."""

    words: tuple[str, ...]  # as they are in the file
    # One for every word, as in the file; None where it has none
    tags: tuple[str, ...] | None
    place: str = ""  # the file and the line where the sentence begins


class Sentences(list[Sentence]):
    """The sentences of a file, and notes on what was understood of it."""

    notes: tuple[str, ...] = ()
    are_texts: bool = False  # whether the file has texts in place of words


class _Line(NamedTuple):
    number: int
    fields: list[str]
    text: str


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


def read_columns(
    path: pathlib.Path,
    needs_tags: bool = True,
    word_column: int | None = None,
    tag_column: int | None = None,
) -> Sentences:
    """Reads the sentences of a CoNLL file, in its order.

    Columns are separated by tabs (so a word may hold blanks) or by blanks, and
    count from 0, or from the end if negative. Words are in the first, or in the
    second if the first numbers them; tags are in the last, in CoNLL-U in that
    of parts of speech (3). Without `needs_tags` one column is one of words.
    Lines with `-DOCSTART-` end sentences. A note tells the columns and what
    else is no word: comments, headings, ranges and empty nodes of CoNLL-U.
    """
    lines = [_Line(n, _split(t), t) for n, t in files.read_lines(path)]
    rows = [line for line in lines if _is_row(line)]
    widths = collections.Counter(
        len(row.fields) for row in rows if not row.text.startswith("#")
    )
    if not widths:
        expected = "sentences, a word with its tag on every line"
        raise files.unexpected(path, expected)
    width = widths.most_common(1)[0][0]
    first = [row.fields[0] for row in rows if len(row.fields) == width]
    share = sum(bool(_NUMBER.fullmatch(f)) for f in first) / len(first)
    is_numbered = word_column != 0 and width > 2 and share > 0.5
    if word_column is None:
        word_column = int(is_numbered)
    if tag_column is None:
        tag_column = 3 if is_numbered and width == 10 else -1
    columns = [word_column, tag_column][: 1 + (needs_tags or width > 1)]
    example = next(row for row in rows if len(row.fields) == width)
    place = f"{path}, line {example.number}"
    if width < len(columns) or not set(columns) <= set(range(-width, width)):
        expected = f"a word and its tag in the columns {tuple(columns)}"
        raise files.unexpected(place, expected, example.text)
    reader = _Reader(path, rows, width, columns, is_numbered)
    own = [_join(path, part, columns) for part in reader.split(lines)]
    tags = {tag for sentence in own for tag in sentence.tags or ()}
    if tags == {_NO_TAG} and not needs_tags:
        own = [sentence._replace(tags=None) for sentence in own]
    sentences = Sentences(own)
    sentences.notes = reader.describe()
    return sentences


def _split(line: str) -> list[str]:
    """Splits a line at tabs, or else at blanks of ASCII alone."""
    line = line.strip(" \t") if line.strip() else ""
    parts = line.split("\t" if "\t" in line else " ")
    return [part.strip(" ") for part in parts if part.strip(" ")]


def _is_row(line: _Line) -> bool:
    return bool(line.fields) and not line.fields[0].startswith(_DOCUMENT_START)


def _join(
    path: pathlib.Path, rows: Sequence[_Line], columns: Sequence[int]
) -> Sentence:
    words, *tags = (tuple(row.fields[c] for row in rows) for c in columns)
    place = f"{path}, line {rows[0].number}"
    return Sentence(words, tags[0] if tags else None, place)


class _Reader:
    """Finds which lines of a file are words, and where sentences end."""

    def __init__(
        self,
        path: pathlib.Path,
        rows: Sequence[_Line],
        width: int,
        columns: Sequence[int],
        is_numbered: bool,
    ) -> None:
        self._path, self._width, self._columns = path, width, columns
        self._is_numbered = is_numbered
        self._left_out: dict[str, list[_Line]] = {}
        self._tags = collections.Counter(
            row.fields[columns[-1]]
            for row in rows
            if len(row.fields) == width and not row.text.startswith("#")
        )

    def split(self, lines: Sequence[_Line]) -> Iterator[list[_Line]]:
        """Yields the words of each sentence; raises `DataError`."""
        rows: list[_Line] = []
        for line in (*lines, _Line(0, [], "")):
            if not _is_row(line):
                if rows:
                    yield rows
                rows = []
            elif what := self._find_other(line, not rows):
                self._left_out.setdefault(what, []).append(line)
            else:
                self._require_word(line)
                rows.append(line)

    def _find_other(self, line: _Line, is_first: bool) -> str:
        """What a line holds in the place of a word; empty for a word."""
        fields = line.fields
        if is_first and line.text.startswith("#") and self._is_comment(line):
            return "comments"
        if self._is_numbered and set(fields[0]) & set("-."):
            return "ranges or empty nodes" * bool(_NUMBER.fullmatch(fields[0]))
        is_heading = (
            line.number == 1
            and len(fields) == self._width > 1
            and fields[self._columns[0]].lower() in _WORD_NAMES
            and _TAG_NAMES.fullmatch(tag := fields[self._columns[-1]])
            and self._tags[tag] == 1
        )
        return "line of headings" if is_heading else ""

    def _is_comment(self, line: _Line) -> bool:
        fields = line.fields
        if len(fields) != self._width or "\t" in line.text:
            return len(fields) != self._width or " " in fields[0]
        # A word "#" has a tag of other words, or is tagged "#" itself.
        is_known = fields[self._columns[-1]] in (*self._tags, "#")
        may_be_word = is_known or fields[0] not in _COMMENTS
        return not may_be_word or "=" in fields[1:2]

    def _require_word(self, line: _Line) -> None:
        place, number = f"{self._path}, line {line.number}", line.fields[0]
        if "\r" in line.text:
            expected, remedy = "line feeds between lines", "Save the file so."
            raise files.unexpected(place, expected, line.text, remedy)
        if self._is_numbered and not _NUMBER.fullmatch(number):
            expected = "the word's number in the first column, as elsewhere"
            raise files.unexpected(place, expected, line.text)
        if len(line.fields) != self._width:
            expected = (
                f"{self._width} fields between blanks or tabs, as on most "
                f"lines, instead of {len(line.fields)}"
            )
            remedy = "Repair the line; a blank one ends a sentence."
            if line.text.startswith("#"):
                remedy = "Put a blank line before a comment."
            raise files.unexpected(place, expected, line.text, remedy)
        if " " in line.fields[self._columns[-1]] and len(self._columns) > 1:
            expected = "a word and its tag, without blanks, on a line"
            remedy = (
                "A table of sentences names its columns and ends with .tsv."
            )
            raise files.unexpected(place, expected, line.text, remedy)

    def describe(self) -> tuple[str, ...]:
        """Says which columns were read, and what was left out."""
        if self._width < 3 and not self._left_out:
            return ()
        places = [column % self._width for column in self._columns]
        told = zip(("words", "tags"), places, strict=False)
        text = ", ".join(f"{name} in column {place}" for name, place in told)
        text += f" of {self._width}, from 0"
        for what, lines in self._left_out.items():
            text += f"; left out: {len(lines)} {what}, as {lines[0].text!r}"
        return (f"{text}.",)
