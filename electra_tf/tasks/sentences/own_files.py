"""Texts in a user's own tables (section `own`)."""

import functools

from electra_tf import errors
from electra_tf import storage
from electra_tf.tasks import cells
from electra_tf.tasks import files
from electra_tf.tasks.sentences.text_task import Example
from electra_tf.tasks.sentences.text_task import OwnSettings
from electra_tf.tasks.sentences.text_task import TextTask

NAME = "own"


def connect(task: TextTask, own: OwnSettings) -> None:
    """Makes a task read the files of the section `own`."""
    task.own = own
    task.has_pairs = task.has_pairs or bool(own.text_pair_column)
    task.use_readers(
        {
            split: functools.partial(read_examples, task, own, split)
            for split in own.files
        }
    )


def read_examples(
    task: TextTask, own: OwnSettings, split: str
) -> list[Example]:
    """Reads a file; labels of the test file may be empty, or absent."""
    path, label = storage.path(own.files[split]), own.label_column
    columns = task.text_columns(own)
    columns += [own.id_column] * bool(own.id_column)
    columns += [label] * (split != "test")
    records = files.read_table(path, own.file_format, columns, [label])
    is_labelled = split != "test" or not all(
        cells.is_empty(record, label) for record in records
    )
    examples = []
    try:
        for number, record in enumerate(records):
            example = _read_example(task, own, record, number)
            if is_labelled:
                value = task.parse_label(record, own)
                example = example._replace(label=value)
            examples.append(example)
    except errors.DataError as error:
        if split != "test" or not is_labelled:
            raise
        raise errors.DataError(
            f"{error} (To predict a test file without scores, leave all of "
            f"its column {label!r} empty.)"
        ) from error
    if split != "test":
        task.check_examples(path, examples)
    expanded = []
    known = set[int | str]()
    for record, example in zip(records, examples, strict=True):
        own_examples = task.expand(record, example, own)
        if len(own_examples) > 1 and example.eid in known:
            expected = f"an id of its own in column {own.id_column!r}"
            raise files.unexpected(record.place, expected, str(example.eid))
        known.add(example.eid)
        expanded += own_examples
    return expanded


def _read_example(
    task: TextTask, own: OwnSettings, record: files.Record, number: int
) -> Example:
    text, pair = cells.read_text(record, own.text_column), None
    if own.text_pair_column:
        pair = cells.read_text(record, own.text_pair_column)
    if not text.strip() and not (pair or "").strip():
        expected = f"a text in column {own.text_column!r}"
        raise files.unexpected(record.place, expected, text, "Remove the row.")
    eid: int | str = number
    if own.id_column:
        eid = cells.read_name(record, own.id_column)
    elif task.texts_are_names:
        eid = " ".join(text.split())
    return Example(eid, text, pair)
