"""Sentences of a user's own files: CoNLL columns, and tables.

A row of a table holds a sentence, words and tags as lists or in strings; or a
text with the places of spans; or a word, with the id of its sentence.
"""

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
_KEYS = ("start", "start_offset"), ("end", "end_offset"), ("label", "labels")
_APART = (
    "Remove or mend it. Where blanks do not part words, as in Chinese, give "
    "lists of words, or of characters, with their tags instead of spans."
)
_MAX_GROWN = 0.2  # share of spans that may begin or end inside a word

Own = finetuning_config.OwnTaskConfig


def read_own(own: Own, split: str) -> conll.Sentences:
    """Reads a user's file; the one of `test` needs no tags."""
    path, needs_tags = storage.path(own.files[split]), split != "test"
    file_format = files.resolve_format(path, own.file_format, _ENDINGS)
    if (own.file_format, file_format) == ("auto", "tsv"):
        # Blank lines separate sentences of columns, and never rows of a table.
        lines = files.read_filled_lines(path)
        is_table = all(line.strip() for _, line in lines)
        file_format = file_format if is_table else "conll"
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
        remedy = "Name their column by --config.own.label_column."
        raise files.unexpected(sentences[0].place, expected, received, remedy)
    words = {word for sentence in sentences for word in sentence.words}
    if spans.mark_spans(words) or {word[-1] for word in words} <= {*",;|"}:
        expected = "words in their column, without signs between columns"
        remedy = (
            "Separate columns by tabs or blanks, and name them by "
            "--config.own.text_column and --config.own.label_column."
        )
        shown = min(words)
        raise files.unexpected(sentences[0].place, expected, shown, remedy)
    are_numbers = all(tag.removeprefix("-").isdecimal() for tag in tags)
    names = own.label_names
    if not are_numbers or tags <= {*names} or not (names or split == "train"):
        return sentences
    known = {str(number): name for number, name in enumerate(names)}
    for tag in sorted(tags - known.keys()):
        place = next(r.place for r in sentences if tag in (r.tags or ()))
        expected = "tags, or numbers of those that own.labels lists"
        remedy = (
            "List the tags in the order of their numbers, from 0, as "
            "--config.own.labels=O,B-X,I-X; or the numbers, 0,1,2, if they "
            "are all that is known."
        )
        raise files.unexpected(place, expected, tag, remedy)
    sentences[:] = [
        row._replace(tags=row.tags and tuple(known[tag] for tag in row.tags))
        for row in sentences
    ]
    return sentences


def _read_places(own: Own) -> list[int | None]:
    """The columns of a file without names: numbers, None for the defaults."""
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
            f"`own.id_column` empty. Received: {error}. Set them so, or name "
            "another --config.own.file_format."
        ) from None


def _read_records(
    records: Sequence[files.Record], own: Own, needs_tags: bool
) -> conll.Sentences:
    """Reads the rows of a table: words, texts with spans, or sentences.

    Without `needs_tags` tags may be absent, or empty; texts are then split as
    those of the training file are.
    """
    cells_of = [record.values.get(own.label_column) for record in records]
    tagged = [cell not in (None, "", []) for cell in cells_of]
    if own.id_column:
        columns = [own.text_column]
        columns += [own.label_column] * (needs_tags or any(tagged))
        return _join_rows(records, columns, own.id_column)
    texts = [record.values[own.text_column] for record in records]
    if all(isinstance(text, str) for text in texts):
        has_train = not needs_tags and storage.path(own.train_file).is_file()
        first = cells_of[tagged.index(True) if any(tagged) else 0]
        if cells.open_spans(first) or (
            has_train and read_own(own, "train").are_texts
        ):
            return _read_spans(records, own)
    sentences = conll.Sentences(
        _read_lists(record, own, needs_tags or is_tagged)
        for record, is_tagged in zip(records, tagged, strict=True)
    )
    count = sum(isinstance(t, str) and len(t.split()) == 1 for t in texts)
    if needs_tags and 1 < len(texts) < 1.1 * count:
        expected = "a sentence in a row"
        received = f"one word in {count} of {len(texts)} rows"
        remedy = (
            "If rows are words, --config.own.id_column names the column that "
            "tells their sentences apart; if blank lines do, set "
            "--config.own.file_format=conll."
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
    # Tags, or both, may stand between commas.
    parts = [cells.split_commas(record.values[column]) for column in columns]
    if len(parts[0]) == len(parts[1]) > 1:
        words, tags = parts
    elif len(parts[1]) == len(words):
        tags = parts[1]
    if len(tags) != len(words):
        expected = f"a tag for every word in {own.label_column!r}"
        received = f"{len(words)} words, {len(tags)} tags"
        remedy = "Repair the row. JSON lists of both leave no doubt."
        raise files.unexpected(record.place, expected, received, remedy)
    return conll.Sentence(words, tags, record.place)


def _join_rows(
    records: Sequence[files.Record], columns: Sequence[str], id_column: str
) -> conll.Sentences:
    """Joins rows of one word each; an empty id is that of the row before."""
    rows: dict[str, list[tuple[str, ...]]] = {}
    name = ""
    for record in records:
        parts = [cells.read_text(record, c).strip() for c in columns]
        if not any(parts):
            continue
        if not all(parts):
            expected = f"a cell in each of the columns {', '.join(columns)}"
            raise files.unexpected(record.place, expected, " ".join(parts))
        is_same = cells.is_empty(record, id_column)
        new = name if is_same else cells.read_name(record, id_column)
        if not new or (new != name and new in rows):
            expected = f"rows of one {id_column!r} one after another"
            remedy = "Sort the rows, and give every sentence an id of its own."
            raise files.unexpected(record.place, expected, new, remedy)
        name = new
        rows.setdefault(name, []).append((record.place, *parts))
    sentences = conll.Sentences()
    for own in rows.values():
        places, words, *tags = zip(*own, strict=True)
        found = conll.Sentence(words, tags[0] if tags else None, places[0])
        sentences.append(found)
    return sentences


def _read_spans(records: Sequence[files.Record], own: Own) -> conll.Sentences:
    """Splits texts into words, which spans of characters tag in `BIO`.

    A span has all words that it has a part of. Where no text has spans, none
    has tags.
    """
    texts = rows_lib.encode(
        [cells.read_text(record, own.text_column) for record in records]
    )
    split = words_lib.split_text(texts, True)
    sentences, num_spans = conll.Sentences(), 0
    num_grown = num_short = 0
    sentences.are_texts = True
    columns = texts.numpy(), split.starts.to_list(), split.ends.to_list()
    for record, text, *bounds in zip(records, *columns, strict=True):
        place_of = words_lib.character_places(text)
        places = [place_of[own].tolist() for own in bounds]
        words = [*zip(*places, strict=True)]
        if not words:
            raise files.unexpected(record.place, "a text with words", text)
        tags = [spans.OUTSIDE] * len(words)
        for item in cells.open_spans(record.values.get(own.label_column)) or ():
            first, last, kind = _read_span(record, own, item)
            held = [
                n for n, (a, b) in enumerate(words) if a < last and first < b
            ]
            if not held or any(tags[n] != spans.OUTSIDE for n in held):
                expected = "spans that hold words, and none of another span's"
                received = f"{first} to {last}, {kind}"
                raise files.unexpected(record.place, expected, received, _APART)
            for number in held:
                tags[number] = f"{'I' if number > held[0] else 'B'}-{kind}"
            edges = {words[held[0]][0], words[held[-1]][1]}
            num_grown += not edges <= {first, last}
            num_short += edges == {first, last + 1}
            num_spans += 1
        cut = tuple(record.values[own.text_column][a:b] for a, b in words)
        sentences.append(conll.Sentence(cut, tuple(tags), record.place))
    place = records[0].place
    told = f"{num_grown} of {num_spans} spans begin or end inside a word"
    if num_grown > _MAX_GROWN * num_spans:
        expected = "spans that begin and end between words"
        is_short = num_short > num_grown / 2
        ends = "If ends are the places of last characters, add 1. " * is_short
        raise files.unexpected(place, expected, told, ends + _APART)
    if not num_spans:
        return conll.Sentences(row._replace(tags=None) for row in sentences)
    sentences.notes = (
        f"{place.rpartition(',')[0]}: texts are split at blanks and "
        f"punctuation; {told}, which then belongs to the span.",
    )
    return sentences


def _read_span(record: files.Record, own: Own, item: Any) -> tuple:
    """The first character of a span, the one after the last, the kind."""
    if isinstance(item, dict):  # of spaCy, Prodigy, Label Studio; of Doccano
        item = [item.get(a, item.get(b)) for a, b in _KEYS]
    match item:
        case [int(start), int(end), str(label) | [str(label)]]:
            size = len(record.values[own.text_column])
            if label.strip() and 0 <= start < end <= size:
                return start, end, label.strip()
    expected = (
        f"in {own.label_column!r} spans of the text: the first character, from "
        "0, the one after the last, and a label"
    )
    raise files.unexpected(record.place, expected, str(item))
