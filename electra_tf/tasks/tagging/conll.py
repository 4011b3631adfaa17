"""Sentences of words with tags in columns, the form of CoNLL's tasks.

Every line holds a word with its tags, and a blank line ends a sentence.
"""

import collections
import functools
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

from electra_tf.tasks import files

# The first field of a line that only says that a document begins.
_DOCUMENT_START = "-DOCSTART-"
_CHUNKING_FOLDERS = ("conll2000", "chunk", "chunking")
# Sentences of the published files.
_OFFICIAL_COUNTS = {"train.txt": 8_936, "test.txt": 2_012}
# How a first line that names the columns calls that of the words.
_NAMES = "word", "words", "token", "tokens", "form"
# First fields of numbered words; those with a hyphen or a point are ranges and
# empty nodes of CoNLL-U, and no words.
_NUMBER = re.compile(r"\d+([-.]\d+)?")


class Sentence(NamedTuple):
    """One example of a tagging task."""

    words: tuple[str, ...]  # as they are in the file
    tags: tuple[str, ...] | None  # one for every word; None where it has none
    place: str = ""  # the file and the line where the sentence begins


class Sentences(list[Sentence]):
    """The sentences of a file, and what is told of how it was understood."""

    notes: tuple[str, ...] = ()
    are_texts: bool = False  # whether the file has texts in place of words


class _Line(NamedTuple):
    number: int
    fields: list[str]
    text: str


class _Form(NamedTuple):
    """What the lines of most words have in common."""

    width: int  # the number of fields
    columns: Sequence[int]  # of words, and of tags if there are some
    is_numbered: bool  # whether the first column numbers the words
    tags: collections.Counter[str]


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
    form = _find_form(path, lines, needs_tags, word_column, tag_column)
    sentences, rows = Sentences(), list[_Line]()
    left_out: dict[str, list[_Line]] = {}
    for line in (*lines, _Line(0, [], "")):
        if not line.fields or line.fields[0].startswith(_DOCUMENT_START):
            if rows:
                fields = [*zip(*(row.fields for row in rows), strict=True)]
                words, *rest = (fields[column] for column in form.columns)
                place = f"{path}, line {rows[0].number}"
                tags = rest[0] if rest else None
                sentences.append(Sentence(words, tags, place))
            rows = []
        elif what := _find_other(form, line, not rows):
            left_out.setdefault(what, []).append(line)
        else:
            _require_word(path, form, line)
            rows.append(line)
    if {*form.tags} == {"_"} and not needs_tags:
        sentences[:] = [row._replace(tags=None) for row in sentences]
    if form.width > 2 or left_out:
        places = [column % form.width for column in form.columns]
        told = zip(("words", "tags"), places, strict=False)
        note = ", ".join(f"{name} in column {place}" for name, place in told)
        note = f"{path}: {note} of {form.width}, from 0"
        for what, own in left_out.items():
            note += f"; left out: {len(own)} {what}, as {own[0].text!r}"
        sentences.notes = (f"{note}.",)
    return sentences


def _split(line: str) -> list[str]:
    """Splits a line at tabs, or else at blanks of ASCII alone."""
    line = line.strip(" \t") if line.strip() else ""
    parts = line.split("\t" if "\t" in line else " ")
    return [part.strip(" ") for part in parts if part.strip(" ")]


def _find_form(
    path: pathlib.Path,
    lines: Sequence[_Line],
    needs_tags: bool,
    word_column: int | None,
    tag_column: int | None,
) -> _Form:
    no_words = "#", _DOCUMENT_START
    rows = [r for r in lines if r.fields and not r.text.startswith(no_words)]
    if not rows:
        expected = "sentences, a word with its tag on every line"
        raise files.unexpected(path, expected)
    widths = collections.Counter(len(row.fields) for row in rows)
    width = widths.most_common(1)[0][0]
    rows = [row for row in rows if len(row.fields) == width]
    share = sum(bool(_NUMBER.fullmatch(r.fields[0])) for r in rows) / len(rows)
    is_numbered = word_column != 0 and width > 2 and share > 0.5
    if word_column is None:
        word_column = int(is_numbered)
    if tag_column is None:
        tag_column = 3 if is_numbered and width == 10 else -1
    columns = [word_column, tag_column][: 1 + (needs_tags or width > 1)]
    if width < len(columns) or not {*columns} <= {*range(-width, width)}:
        place = f"{path}, line {rows[0].number}"
        expected = f"a word and its tag in the columns {tuple(columns)}"
        raise files.unexpected(place, expected, rows[0].text)
    tags = collections.Counter(row.fields[columns[-1]] for row in rows)
    return _Form(width, columns, is_numbered, tags)


def _find_other(form: _Form, line: _Line, is_first: bool) -> str:
    """What a line holds in the place of a word; empty for a word."""
    fields, has_width = line.fields, len(line.fields) == form.width
    tag = fields[form.columns[-1]] if has_width else ""
    if is_first and line.text.startswith("#"):
        # The word "#" has a tag of other words, or is tagged "#" itself.
        is_word = fields[0] != "#" or "\t" in line.text or tag == "#"
        if not has_width or not (is_word or tag in form.tags):
            return "comments"
    if form.is_numbered and _NUMBER.fullmatch(fields[0]):
        return "ranges or empty nodes" if {*fields[0]} & {*"-."} else ""
    may_be_heading = line.number == 1 and form.tags[tag] == 1
    is_heading = may_be_heading and fields[form.columns[0]].lower() in _NAMES
    return "line of headings" if is_heading else ""


def _require_word(path: pathlib.Path, form: _Form, line: _Line) -> None:
    fields, expected = line.fields, ""
    remedy = "Repair the line; a blank one ends a sentence."
    if len(fields) != form.width:
        expected = (
            f"{form.width} fields between blanks or tabs, as on most lines, "
            f"instead of {len(fields)}"
        )
        if line.text.startswith("#"):
            remedy = "Put a blank line before a comment."
    elif form.is_numbered and not _NUMBER.fullmatch(fields[0]):
        expected = "the word's number in the first column, as elsewhere"
    elif len(form.columns) > 1 and " " in fields[form.columns[1]]:
        expected = "a word and its tag, without blanks, on a line"
        remedy = "A table of sentences names its columns and ends with .tsv."
    if expected:
        place = f"{path}, line {line.number}"
        raise files.unexpected(place, expected, line.text, remedy)
