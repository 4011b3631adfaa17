"""Reads the sentences of a user's files: CoNLL columns and tables.

A row of a table holds one of three things: a sentence as lists or strings of
words and tags; a text with a list of spans; a word with a sentence id.
"""

import bisect
import re
from collections.abc import Sequence
from typing import Any

from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks import rows as rows_lib
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging import spans
from electra_tf.tasks.tagging import words as words_lib

_ENDINGS = {
    **files.ENDINGS,
    **dict.fromkeys(
        (".conll", ".conllu", ".txt", ".iob", ".iob2", ".bio"), "conll"
    ),
}
_SPAN_REMEDY = (
    "Repair the span. If parts of words are tagged, give lists of these parts, "
    "or of characters, with their tags instead of spans."
)
_UNSEEN = re.compile(r"\s|\\n")  # Label Studio writes a line end as \n
_MAX_EXTENDED = 0.2  # share of spans that may begin or end inside a word

Own = finetuning_config.OwnTaskConfig


def read_own(own: Own, split: str) -> conll.Sentences:
    """Reads the file of a split; the split `test` needs no tags."""
    path, needs_tags = storage.path(own.files[split]), split != "test"
    file_format = files.resolve_format(path, own.file_format, _ENDINGS)
    if (own.file_format, file_format) == ("auto", "tsv"):
        # Blank lines separate sentences in CoNLL columns; tables have none.
        lines = files.read_filled_lines(path)
        file_format = "tsv" if all(n.strip() for _, n in lines) else "conll"
    if file_format == "conll":
        sentences = conll.read_columns(path, needs_tags, *_read_places(own))
    else:
        columns = own.text_column, *[own.label_column] * needs_tags
        required = [*columns, *[own.id_column] * bool(own.id_column)]
        records = files.read_table(
            path, file_format, required, [own.label_column]
        )
        sentences = _read_records(records, own, needs_tags)
    tags = {tag for sentence in sentences for tag in sentence.tags or ()}
    if split == "train" and len(tags) < 2:
        expected, received = "two or more different tags", "".join(tags)
        remedy = "Name their column by own.label_column."
        raise files.unexpected(sentences[0].place, expected, received, remedy)
    words = {word for sentence in sentences for word in sentence.words}
    if spans.mark_spans(words) or {word[-1] for word in words} <= {*",;|"}:
        expected = "words in their column, without signs between columns"
        remedy = (
            "Separate columns by tabs or blanks, and name them by "
            "own.text_column and own.label_column."
        )
        raise files.unexpected(sentences[0].place, expected, min(words), remedy)
    names = own.label_names
    are_numbers = all(tag.removeprefix("-").isdecimal() for tag in tags)
    if are_numbers and not tags <= {*names} and (names or split == "train"):
        name_of = {str(number): name for number, name in enumerate(names)}
        if unknown := tags - name_of.keys():
            places = (s.place for s in sentences if unknown & {*(s.tags or ())})
            expected = "tags, or indices of tags that own.labels lists"
            remedy = (
                "List the tags in the order of their indices, from 0, as "
                "own.labels=O,B-X,I-X. If the names of the tags are unknown, "
                "list the indices: 0,1,2."
            )
            raise files.unexpected(next(places), expected, min(unknown), remedy)
        sentences[:] = [
            row._replace(tags=row.tags and tuple(name_of[t] for t in row.tags))
            for row in sentences
        ]
    return sentences


def _read_places(own: Own) -> list[int | None]:
    """Returns the indices of a CoNLL file's columns, None for defaults."""
    pairs = (
        (own.text_column, Own.text_column),
        (own.label_column, Own.label_column),
    )
    try:
        if own.id_column:
            raise ValueError("own.id_column")
        return [None if name == usual else int(name) for name, usual in pairs]
    except ValueError as error:
        raise ValueError(
            "`own.text_column` and `own.label_column` of a file in CoNLL "
            "columns must be numbers, from 0, or from the end if negative, and "
            f"`own.id_column` empty. Received: {error}. Change the settings, "
            "or name another own.file_format."
        ) from None


def _read_records(
    records: Sequence[files.Record], own: Own, needs_tags: bool
) -> conll.Sentences:
    """Reads the rows of a table: words, texts with spans, or sentences.

    A table without tags holds texts if the training file holds texts.
    """
    label_cells = [record.values.get(own.label_column) for record in records]
    tagged = [cell not in (None, "", []) for cell in label_cells]
    if own.id_column:
        columns = [own.text_column]
        columns += [own.label_column] * (needs_tags or any(tagged))
        return _join_rows(records, columns, own.id_column)
    texts = [record.values[own.text_column] for record in records]
    if all(isinstance(text, str) for text in texts):
        has_train = not needs_tags and storage.path(own.train_file).is_file()
        if any(map(cells.open_spans, label_cells)) or (
            has_train and read_own(own, "train").are_texts
        ):
            return _read_spans(records, own)
    sentences = conll.Sentences(
        _read_lists(record, own, needs_tags or is_tagged)
        for record, is_tagged in zip(records, tagged, strict=True)
    )
    pairs = zip(texts, sentences, strict=True)
    count = sum(isinstance(t, str) and len(s.words) == 1 for t, s in pairs)
    if needs_tags and 1 < len(texts) < 1.1 * count:
        expected = "a sentence in a row"
        received = f"one word in {count} of {len(texts)} rows"
        remedy = (
            "If each row is a word, name the column of sentence ids by "
            "own.id_column. If blank lines separate sentences, set "
            "own.file_format=conll."
        )
        raise files.unexpected(records[0].place, expected, received, remedy)
    return sentences


def _read_lists(
    record: files.Record, own: Own, has_tags: bool
) -> conll.Sentence:
    words = cells.read_words(record, own.text_column)
    if not has_tags:
        return conll.Sentence(words, None, record.place)
    columns = own.text_column, own.label_column
    tags = cells.read_words(record, own.label_column, are_tags=True)
    # Commas may separate the tags, or both the words and the tags. A text in
    # Chinese may have a tag for each character.
    comma_words, comma_tags = (
        cells.split_commas(record.values[column]) for column in columns
    )
    is_chinese = len(words) == 1 and not words[0].isascii()
    for pair in (
        (comma_words, comma_tags),
        (words, comma_tags),
        (words, tags),
        (tuple(words[0]) if is_chinese else (), tags),
    ):
        if pair[0] and len(pair[0]) == len(pair[1]):
            return conll.Sentence(*pair, record.place)
    expected = f"a tag for every word in {own.label_column!r}"
    received = f"{len(words)} words, {len(tags)} tags"
    remedy = "Repair the row, or write words and tags as JSON lists."
    raise files.unexpected(record.place, expected, received, remedy)


def _join_rows(
    records: Sequence[files.Record], columns: Sequence[str], id_column: str
) -> conll.Sentences:
    """Joins rows of one word; an empty id means that of the row before."""
    rows: dict[str, list[tuple[str, ...]]] = {}
    name = ""
    for record in records:
        parts = [cells.read_text(record, c).strip() for c in columns]
        is_same = cells.is_empty(record, id_column)
        new = name if is_same else cells.read_name(record, id_column)
        if not new or (new != name and new in rows):
            expected = f"rows of one {id_column!r} one after another"
            remedy = "Sort the rows, and give every sentence an id of its own."
            raise files.unexpected(record.place, expected, new, remedy)
        name = new
        rows.setdefault(name, []).append((record.place, *parts))
    found = (zip(*sentence, strict=True) for sentence in rows.values())
    return conll.Sentences(
        conll.Sentence(words, next(iter(tags), None), places[0])
        for places, words, *tags in found
    )


def _read_spans(records: Sequence[files.Record], own: Own) -> conll.Sentences:
    """Splits texts into words and converts spans of characters to BIO tags.

    A span includes each word that it overlaps. If no text has spans, the
    sentences have no tags.
    """
    texts = rows_lib.encode(
        [cells.read_text(record, own.text_column) for record in records]
    )
    split = words_lib.split_text(texts, True, True)
    sentences, num_spans = conll.Sentences(), 0
    extended, num_short, num_bare = list[str](), 0, 0
    sentences.are_texts = True
    columns = texts.numpy(), split.starts.to_list(), split.ends.to_list()
    for record, text, *bounds in zip(records, *columns, strict=True):
        character_of = words_lib.character_places(text)
        starts, ends = (character_of[byte].tolist() for byte in bounds)
        if not starts:
            raise files.unexpected(record.place, "a text with words", text)
        tags = [spans.OUTSIDE] * len(starts)
        items = cells.open_spans(record.values.get(own.label_column)) or ()
        # Two annotators may mark the same.
        marked = dict.fromkeys(_read_span(record, own, item) for item in items)
        num_bare += not marked
        for first, last, kind in marked:
            begin = bisect.bisect_right(ends, first)
            inside = range(begin, bisect.bisect_left(starts, last))
            if not inside or any(tags[n] != spans.OUTSIDE for n in inside):
                expected = "spans that hold words and do not share a word"
                received = f"{first} to {last}, {kind}"
                raise files.unexpected(
                    record.place, expected, received, _SPAN_REMEDY
                )
            for number in inside:
                tags[number] = f"{'I' if number > begin else 'B'}-{kind}"
            start, end = starts[begin], ends[inside[-1]]
            extended += [record.place] * (start < first or last < end)
            num_short += (start, end) == (first, last + 1)
            num_spans += 1
        string = record.values[own.text_column]
        words = tuple(map(string.__getitem__, map(slice, starts, ends)))
        sentences.append(conll.Sentence(words, tuple(tags), record.place))
    count = f"{len(extended)} of {num_spans} spans begin or end inside a word"
    if len(extended) > _MAX_EXTENDED * num_spans:
        expected = "spans that begin and end between words"
        is_short = num_short > len(extended) / 2
        hint = "If ends are the indices of last characters, add 1. " * is_short
        remedy = hint + _SPAN_REMEDY
        raise files.unexpected(extended[0], expected, count, remedy)
    if not num_spans:
        return conll.Sentences(row._replace(tags=None) for row in sentences)
    sentences.notes = (
        f"{records[0].place.rpartition(',')[0]}: texts are split at blanks and "
        "punctuation, and Chinese, Japanese or Thai into characters; "
        f"{count}, which then belongs to the span; {num_bare} texts have none.",
    )
    return sentences


def _read_span(record: files.Record, own: Own, item: Any) -> tuple:
    """Returns a span's first character, the character after it, its kind."""
    text = record.values[own.text_column]
    match item:
        case [int(start), int(end), str(label) | [str(label)], *rest]:
            quoted = _UNSEEN.sub("", next(filter(None, rest), ""))
            if quoted and _UNSEEN.sub("", text[start:end]) != quoted:
                # Programs in a browser count two for an emoji.
                units = text.encode("utf-16-le")
                start, end = (
                    len(units[: 2 * n].decode("utf-16-le", "ignore"))
                    for n in (start, end)
                )
            is_same = quoted in ("", _UNSEEN.sub("", text[start:end]))
            if label.strip() and 0 <= start < end <= len(text) and is_same:
                return start, end, label.strip()
    expected = (
        f"in {own.label_column!r} spans of the text: the first character, from "
        "0, the character after the last, and a label"
    )
    raise files.unexpected(record.place, expected, str(item))
