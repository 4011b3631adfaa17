"""Reads tagged sentences in CoNLL columns.

A line holds a word and its tag. A blank line ends a sentence.
"""

import collections
import functools
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from absl import logging

from electra_tf.tasks import files

# The first field of a line that separates documents.
_DOCUMENT_START = "-DOCSTART-"
_CHUNKING_FOLDERS = ("conll2000", "chunk", "chunking")
# Number of sentences in the published files.
_OFFICIAL_COUNTS = {"train.txt": 8_936, "test.txt": 2_012}
# Names of the column of words, if the first line names the columns.
_NAMES = "word", "words", "token", "tokens", "form"
# The number of a word. In CoNLL-U a hyphen marks a range of words and a point
# an empty node.
_NUMBER = re.compile(r"\d+([-.]\d+)?")


class Sentence(NamedTuple):
    """One example of a tagging task."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None  # a tag for each word; None if there are none
    place: str = ""  # file and line, for errors


class Sentences(list[Sentence]):
    """The sentences of a file, with notes on how it was read."""

    notes: tuple[str, ...] = ()
    are_texts: bool = False  # whether the file has texts with spans, not words


class _Line(NamedTuple):
    number: int
    fields: list[str]
    text: str


class _Layout(NamedTuple):
    width: int  # number of fields on most lines
    columns: Sequence[int]  # column of the words, and of the tags if any
    is_numbered: bool  # whether the first column numbers the words
    tags: collections.Counter[str]


def read_chunking(data_dir: str, split: str) -> list[Sentence]:
    """Reads a split of CoNLL-2000: `train.txt` and `test.txt` in `conll2000`.

    The original's files are `chunk/{train,dev,test}.txt`. Without `dev.txt`,
    the dev split is the test file: its scores compare with published ones, but
    must not be used to choose settings.
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
    """Reads the sentences of a CoNLL file.

    Tabs separate columns (then a word may hold blanks), or else blanks. Lines
    with `-DOCSTART-` end sentences. `Sentences.notes` lists the columns and the
    lines that were left out: comments, headings, and ranges and empty nodes of
    CoNLL-U.

    Columns count from 0, negative ones from the end. By default words are in
    column 0, or in column 1 if column 0 numbers them; tags are in the last
    column, or in column 3 (parts of speech) of CoNLL-U. Without `needs_tags` a
    single column holds words.
    """
    lines = [_Line(n, _split(t), t) for n, t in files.read_lines(path)]
    layout = _find_layout(path, lines, needs_tags, word_column, tag_column)
    sentences, rows = Sentences(), list[_Line]()
    left_out: dict[str, list[_Line]] = {}
    for line in (*lines, _Line(0, [], "")):
        if not line.fields or line.fields[0].startswith(_DOCUMENT_START):
            if rows:
                fields = [*zip(*(row.fields for row in rows), strict=True)]
                words, *tags = (fields[column] for column in layout.columns)
                place = f"{path}, line {rows[0].number}"
                tag_row = next(iter(tags), None)
                sentences.append(Sentence(words, tag_row, place))
            rows = []
        elif category := _find_category(layout, line, not rows):
            left_out.setdefault(category, []).append(line)
        else:
            _require_word(path, layout, line)
            rows.append(line)
    if {*layout.tags} == {"_"} and not needs_tags:
        sentences[:] = [row._replace(tags=None) for row in sentences]
    if layout.width > 2 or left_out:
        columns = [column % layout.width for column in layout.columns]
        pairs = zip(("words", "tags"), columns, strict=False)
        note = ", ".join(f"{name} in column {column}" for name, column in pairs)
        note = f"{path}: {note} of {layout.width}, from 0"
        for category, group in left_out.items():
            note += f"; left out: {len(group)} {category}, as {group[0].text!r}"
        sentences.notes = (f"{note}.",)
    return sentences


def _split(line: str) -> list[str]:
    """Splits a line at tabs, or else at ASCII spaces; a word may be a space."""
    first = [" "] if line.startswith(" \t") and line.strip() else []
    line = line.strip(" \t") if line.strip() else ""
    parts = line.split("\t" if "\t" in line else " ")
    return first + [part.strip(" ") for part in parts if part.strip(" ")]


def _find_layout(
    path: pathlib.Path,
    lines: Sequence[_Line],
    needs_tags: bool,
    word_column: int | None,
    tag_column: int | None,
) -> _Layout:
    ignored = "#", _DOCUMENT_START
    rows = [r for r in lines if r.fields and not r.text.startswith(ignored)]
    if not rows:
        expected = "sentences, a word with its tag on every line"
        raise files.unexpected(path, expected)
    if lines[0].text.startswith("#FORMAT=WebAnno"):
        expected, remedy = "CoNLL columns", "Export it as CoNLL 2002."
        raise files.unexpected(path, expected, lines[0].text, remedy)
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
    return _Layout(width, columns, is_numbered, tags)


def _find_category(layout: _Layout, line: _Line, is_first: bool) -> str:
    """Returns the category of a line that holds no word; "" for a word."""
    fields, has_width = line.fields, len(line.fields) == layout.width
    tag = fields[layout.columns[-1]] if has_width else ""
    if is_first and line.text.startswith("#"):
        # A word "#" has a tag that also other words have, or the tag "#".
        is_word = fields[0] != "#" or "\t" in line.text or tag == "#"
        is_word &= not fields[0].startswith("##")
        if not has_width or not (is_word or tag in layout.tags):
            return "comments"
    if layout.is_numbered and _NUMBER.fullmatch(fields[0]):
        return "ranges or empty nodes" if {*fields[0]} & {*"-."} else ""
    may_be_heading = line.number == 1 and layout.tags[tag] == 1
    is_heading = may_be_heading and fields[layout.columns[0]].lower() in _NAMES
    return "line of headings" if is_heading else ""


def _require_word(path: pathlib.Path, layout: _Layout, line: _Line) -> None:
    fields, expected = line.fields, ""
    remedy = "Repair the line; a blank line ends a sentence."
    if len(fields) != layout.width:
        expected = (
            f"{layout.width} fields between blanks or tabs, as on most lines, "
            f"instead of {len(fields)}"
        )
        if line.text.startswith("#"):
            remedy = "Put a blank line before a comment."
    elif layout.is_numbered and not _NUMBER.fullmatch(fields[0]):
        expected = "the word's number in the first column, as elsewhere"
    elif len(layout.columns) > 1 and " " in fields[layout.columns[1]]:
        expected = "a word and its tag, without blanks, on a line"
        remedy = "A table of sentences names its columns and ends with .tsv."
    if expected:
        place = f"{path}, line {line.number}"
        raise files.unexpected(place, expected, line.text, remedy)
