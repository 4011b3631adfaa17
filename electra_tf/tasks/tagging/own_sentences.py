"""Sentences of a user's own files: CoNLL columns, and tables.

A row of a table holds a sentence, words and tags as lists or in strings; or a
text with the places of spans; or a word, with the id of its sentence.
"""

import pathlib
from collections.abc import Sequence

from electra_tf import storage
from electra_tf.config import finetuning as finetuning_config
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.tagging import conll
from electra_tf.tasks.tagging import text_spans

_ENDINGS = {
    **files.ENDINGS,
    **dict.fromkeys(
        (".conll", ".conllu", ".txt", ".iob", ".iob2", ".bio"), "conll"
    ),
}
# How tables of words call the column that tells their sentences apart.
_SENTENCE_NAMES = (
    "Sentence #", "Sentence", "sentence", "sentence_id", "sent_id",
    "sentence_idx", "sentence_number", "SentenceId", "Sent_ID",
)  # fmt: skip


def read_own(
    own: finetuning_config.OwnTaskConfig, split: str
) -> conll.Sentences:
    """Reads a user's file; the one of `test` needs no tags."""
    path, needs_tags = storage.path(own.files[split]), split != "test"
    file_format = files.resolve_format(path, own.file_format, _ENDINGS)
    columns = own.text_column, own.label_column
    if (own.file_format, file_format) == ("auto", "tsv") and _has_gaps(path):
        file_format = "conll"
    if file_format == "conll":
        places = _read_places(own)
        sentences = conll.read_columns(path, needs_tags, *places)
    else:
        # Texts are split as those of the training file are.
        has_train = not needs_tags and storage.path(own.train_file).is_file()
        are_texts = has_train and read_own(own, "train").are_texts
        sentences = read_table(
            path, file_format, *columns, needs_tags, own.id_column, are_texts
        )
    notes = (f"{path}: {note}" for note in sentences.notes)
    named = _name_classes(sentences, own.label_names, split == "train")
    named.notes, named.are_texts = tuple(notes), sentences.are_texts
    if split == "train":
        _require_choice(named)
    return named


def _require_choice(sentences: conll.Sentences) -> None:
    """Raises `DataError` where all tags are the same, as in a wrong column."""
    place = sentences[0].place
    ends = {word[-1:] for sentence in sentences for word in sentence.words}
    if len(ends) == 1 and ends <= {",", ";", "|"}:
        expected, word = "blanks or tabs between columns", sentences[0].words[0]
        raise files.unexpected(place, expected, word)
    tags = {tag for sentence in sentences for tag in sentence.tags or ()}
    if len(tags) < 2:
        expected = "two or more different tags"
        remedy = "Name their column by --config.own.label_column."
        raise files.unexpected(place, expected, f"{tags.pop()} alone", remedy)


def _has_gaps(path: pathlib.Path) -> bool:
    """Whether blank lines separate lines, as in CoNLL and never in a table."""
    return not all(line.strip() for _, line in files.read_filled_lines(path))


def _read_places(own: finetuning_config.OwnTaskConfig) -> list[int | None]:
    """The columns of a file without names: numbers, None for the defaults."""
    names = own.text_column, own.label_column
    defaults = finetuning_config.OwnTaskConfig()
    known = defaults.text_column, defaults.label_column
    try:
        if own.id_column:
            raise ValueError
        return [
            None if name == default else int(name)
            for name, default in zip(names, known, strict=True)
        ]
    except ValueError:
        raise ValueError(
            "`own.text_column` and `own.label_column` of a file in CoNLL "
            "columns must be numbers, from 0, or from the end if negative, and "
            f"`own.id_column` empty. Received: {names[0]!r}, {names[1]!r}, "
            f"{own.id_column!r}. Set them so, or name another "
            "--config.own.file_format."
        ) from None


def _name_classes(
    sentences: conll.Sentences, names: Sequence[str], is_training: bool
) -> conll.Sentences:
    """Puts names, if they are listed, in the place of numbers of classes."""
    tags = {tag for sentence in sentences for tag in sentence.tags or ()}
    are_numbers = all(tag.removeprefix("-").isdecimal() for tag in tags)
    is_named = tags <= set(names) or not (names or is_training)
    if not are_numbers or is_named:
        return sentences
    known = {str(number): name for number, name in enumerate(names)}
    for sentence in sentences:
        for tag in sentence.tags or ():
            if tag not in known:
                expected = "tags, or numbers of those that own.labels lists"
                remedy = (
                    "List the tags in the order of their numbers, from 0, as "
                    "--config.own.labels=O,B-X,I-X; or the numbers, 0,1,2, if "
                    "they are all that is known."
                )
                raise files.unexpected(sentence.place, expected, tag, remedy)
    return conll.Sentences(
        s._replace(tags=s.tags and tuple(known[tag] for tag in s.tags))
        for s in sentences
    )


def read_table(
    path: pathlib.Path,
    file_format: str,
    word_column: str,
    tag_column: str,
    needs_tags: bool = True,
    id_column: str = "",
    are_texts: bool = False,
) -> conll.Sentences:
    """Reads the sentences of a CSV, TSV or JSON lines file, in its order.

    Words and tags are lists, or strings that are split at blanks; tags also
    spans of a text. With `id_column` every row is a word, and those of one id,
    one after another, are a sentence. Without `needs_tags` tags may be absent,
    or empty; `are_texts` then says that strings are texts for spans.
    """
    columns = [word_column, *[tag_column] * needs_tags]
    required = [*columns, *[id_column] * bool(id_column)]
    optional = tag_column, *_SENTENCE_NAMES
    records = files.read_table(path, file_format, required, optional)
    tagged = [r.values.get(tag_column) not in (None, "", []) for r in records]
    if id_column:
        columns = [word_column, *[tag_column] * (needs_tags or any(tagged))]
        return _join_rows(records, columns, id_column)
    texts = [record.values[word_column] for record in records]
    if all(isinstance(text, str) for text in texts):
        first = records[tagged.index(True) if any(tagged) else 0]
        if are_texts or cells.open_spans(first.values.get(tag_column)):
            return text_spans.read_sentences(records, word_column, tag_column)
    sentences = conll.Sentences(
        _read_lists(record, word_column, tag_column * (needs_tags or is_tagged))
        for record, is_tagged in zip(records, tagged, strict=True)
    )
    is_single = [
        len(sentence.words) == 1 and isinstance(text, str)
        for sentence, text in zip(sentences, texts, strict=True)
    ]
    if needs_tags and 1 < len(texts) < 1.1 * sum(is_single):
        present = (n for n in _SENTENCE_NAMES if n in records[0].values)
        remedy = (
            "If rows are words, name the column that tells sentences apart: "
            f"--config.own.id_column={next(present, 'NAME')!r}. If blank lines "
            "do, put tabs between columns and set --config.own.file_format="
            "conll."
        )
        expected = "a sentence in a row"
        received = f"one word in {sum(is_single)} of {len(texts)} rows"
        raise files.unexpected(records[0].place, expected, received, remedy)
    return sentences


def _read_lists(
    record: files.Record, word_column: str, tag_column: str
) -> conll.Sentence:
    words = cells.read_words(record, word_column)
    if not tag_column:
        return conll.Sentence(words, None, record.place)
    tags = cells.read_words(record, tag_column, are_tags=True)
    # Tags, or both, may stand between commas.
    columns = word_column, tag_column
    parts = [cells.split_commas(record.values[column]) for column in columns]
    if len(parts[0]) == len(parts[1]) > 1:
        words, tags = parts
    elif len(parts[1]) == len(words):
        tags = parts[1]
    if len(tags) != len(words):
        expected = f"a tag for every word in {tag_column!r}"
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
