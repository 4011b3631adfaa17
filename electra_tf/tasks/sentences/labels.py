"""Reads, checks, weighs and describes the labels of a user's files."""

import collections
import itertools
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.tasks import cells
from electra_tf.tasks import files

# Names of labels that are taken for the positive one.
_POSITIVE = ("1", "true", "yes", "positive", "pos", "spam", "fraud", "toxic")
_NO_NAMES = "-", "--", ".", "?", "_"
_SEPARATORS = ",;|\uff0c\uff1b\u3001\u060c"
_RARE_SEPARATORS = "/", "#", "+", "&", " and ", " "

Names = tuple[str, ...]


def read(
    records: Sequence[files.Record],
    own: finetuning_config.OwnTaskConfig,
    known: Names,
    has_several: bool,
) -> list[Names]:
    """Reads the labels of every row; `known` are the task's labels, if set."""
    all_known = {*known}
    options = own.label_column, own.label_separator * has_several, all_known
    if len(own.label_columns) > 1:
        rows = _read_columns(records, own.label_columns)
    else:
        rows = [cells.read_labels(record, *options) for record in records]
        rows = _name_numbers(records, rows, own.label_names, has_several)
    rows = [tuple(dict.fromkeys(names)) for names in rows]
    for record, names in zip(records, rows, strict=True):
        if len(names) != 1 and not has_several:
            _refuse_number(record, names, own.label_column)
        if unknown := [n for n in names if known and n not in all_known]:
            expected = "one of the labels"
            expected += "" if own.labels else " of the training file"
            hint = schema.suggest(unknown[0], known)
            remedy = f"{hint} Repair the row, or set own.labels."
            raise files.unexpected(record.place, expected, unknown[0], remedy)
    if not known:
        _refuse_glued(records, rows, own, has_several)
    return rows


def _refuse_number(record: files.Record, names: Names, column: str) -> None:
    """Raises `DataError` for a row without exactly one label."""
    if names:
        expected = f"one label in {column!r}"
        remedy = "own.kind=multilabel learns several labels."
        raise files.unexpected(record.place, expected, list(names), remedy)
    cell = record.values.get(column)
    remedy = "Remove the row, or fill it in."
    if cell in cells.MISSING:
        remedy += " If this is a label, list all in own.labels."
    raise files.unexpected(record.place, "a label", cell, remedy)


def _read_columns(
    records: Sequence[files.Record], columns: Names
) -> list[Names]:
    """Reads the labels of rows from a column for each label.

    If no cell of the file says "no", an empty cell means "no".
    """
    words = {
        str(cells.label_name(record.values.get(name))).lower()
        for record in records
        for name in columns
    }
    empty = False if cells.NO.isdisjoint(words) else None
    return [
        tuple(n for n in columns if cells.read_truth(r, n, r.values, empty))
        for r in records
    ]


def _name_numbers(
    records: Sequence[files.Record],
    rows: list[Names],
    labels: Names,
    has_several: bool,
) -> list[Names]:
    """Converts rows of numbers to names of `own.labels`.

    A row has a 0 or a 1 for each label, or the indices of its labels, from 0.
    """
    if labels and cells.BOOLEANS.issuperset(labels):
        return rows
    masks = [_split_bits(names, has_several) for names in rows]
    are_bits = cells.BOOLEANS.issuperset(itertools.chain(*masks))
    if not are_bits or max(map(len, masks)) < 2:
        name_of = {str(index): name for index, name in enumerate(labels)}
        are_known = name_of.keys() >= {*itertools.chain(*rows)}
        if name_of.keys() & {*labels} or not are_known:
            return rows
        return [tuple(name_of[value] for value in row) for row in rows]
    for record, names in zip(records, masks, strict=True):
        if names and len(names) != len(labels):
            expected = f"a 0 or a 1 for each of {len(labels)} labels"
            expected = expected if labels else "names of labels"
            remedy = "Name all labels in their order: own.labels=A,B."
            raise files.unexpected(record.place, expected, list(names), remedy)
    return [
        tuple(itertools.compress(labels, (bit in cells.TRUE for bit in bits)))
        for bits in masks
    ]


def _split_bits(names: Names, has_several: bool) -> Names:
    """Splits zeros and ones: `1 0 1`, `1.0, 0.0`; if `has_several` `101`."""
    text = " ".join(names)
    are_glued = has_several and re.fullmatch("[01]{2,}", text)
    parts = text if are_glued else re.split(r"[\s,;|]+", text)
    bits = tuple(str(cells.label_name(part)) for part in parts)
    return bits if cells.BOOLEANS.issuperset(bits) else names


def _refuse_glued(
    records: Sequence[files.Record],
    rows: Sequence[Names],
    own: finetuning_config.OwnTaskConfig,
    has_several: bool,
) -> None:
    """Raises `DataError` if names look like several labels in one string."""
    if has_several and any(len(row) > 1 for row in rows):
        return
    names = set(itertools.chain(*rows))
    separators = (*_SEPARATORS, *_RARE_SEPARATORS * has_several)
    for separator in separators:
        if glued := _find_glued(names, separator, has_several):
            break
    else:
        return
    pairs = zip(records, rows, strict=True)
    found = ((r.place, n) for r, row in pairs for n in row if n in glued)
    kind, expected = "own.kind=multilabel and ", "one label in a cell"
    if has_several:
        expected, kind = f"labels with {own.label_separator!r} between them", ""
    if all(re.fullmatch(r"-?\d+,\d+", name) for name in glued):
        kind = f"a decimal point if it is a number. Else {kind}"
    remedy = (
        f"Set {kind}own.label_separator='{separator}'. If it is one "
        'label, list all labels as JSON: own.labels=\'["a", "b"]\'.'
    )
    place, name = next(found)
    raise files.unexpected(place, expected, name, remedy)


def _find_glued(names: set[str], separator: str, has_several: bool) -> set[str]:
    """Returns the names whose parts look like labels.

    All parts must also occur in other names. If texts have one label, it is
    enough that one part is itself a name. If texts may have several labels, a
    usual separator is enough.
    """
    parts_of = {n: {*map(str.strip, n.split(separator))} - {""} for n in names}
    counts = collections.Counter(itertools.chain(*parts_of.values()))
    is_usual = has_several and separator in _SEPARATORS
    return {
        name
        for name, parts in parts_of.items()
        if len(parts) > 1
        and (
            is_usual
            or (not has_several and parts & names)
            or all(counts[part] > 1 for part in parts)
        )
    }


def choose_positive(
    labels: Names, positive: str, counts: Mapping[str, int]
) -> tuple[str, str]:
    """Chooses the positive one of two labels; returns it and the reason.

    `positive` is the user's choice. Without one, the label with a name such as
    "yes" is positive, or else the rarer label.
    """
    if positive:
        schema.require_choice("own.positive_label", positive, labels)
        return positive, "as own.positive_label says"
    change = "own.positive_label changes it"
    named = [name for name in labels if name.lower() in _POSITIVE]
    if len(named) == 1:
        return named[0], f"by its name; {change}"
    first, second = (counts.get(name, 0) for name in labels)
    if first != second:
        return labels[first > second], f"the rarer one; {change}"
    return labels[-1], f"the last one; {change}"


def parse_weights(
    text: str, labels: Names, counts: Mapping[str, int], total: int
) -> tuple[float, ...]:
    """Parses `own.class_weights`: the weight of each label in the loss.

    `text` is `balanced`, or a list `a=2,b=0.5`; other labels have the weight 1.
    Balanced weights of C classes are N / (C * count), as in scikit-learn. If a
    text may have several labels, they are (N - count) / count and apply to the
    texts that have the label; N is `total`. Otherwise `total` is 0.
    """
    if text == "balanced":
        label_counts = [max(counts.get(name, 0), 1) for name in labels]
        if total:
            return tuple(max(total - n, 1) / n for n in label_counts)
        total = sum(label_counts)
        return tuple(total / (len(labels) * n) for n in label_counts)
    weights = dict.fromkeys(labels, 1.0)
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        weight = files.parse_number(number)
        schema.require(
            name.strip() in weights and 0 <= weight < float("inf"),
            "`own.class_weights` must be `balanced` or list labels with "
            f"numbers of 0 or more, as in a=2,b=0.5. Received: {part!r}. "
            f"{schema.suggest(name.strip(), labels)}",
        )
        weights[name.strip()] = weight
    return tuple(weights.values())


def count(examples: Iterable[Any]) -> collections.Counter[str]:
    """Counts the examples of each label."""
    labels = (example.label or () for example in examples)
    return collections.Counter(
        itertools.chain(*((x,) if isinstance(x, str) else x for x in labels))
    )


def _fold(name: str) -> str:
    """Returns a name without case, width, and the style of emoji."""
    plain = unicodedata.normalize("NFKC", name).replace("\ufe0f", "")
    return " ".join(plain.casefold().split())


def describe(
    labels: Names, counts: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Returns lines with the counts of labels by split, and with warnings."""
    by_label = {n: [own.get(n, 0) for own in counts.values()] for n in labels}
    ordered = sorted(labels, key=lambda name: -sum(by_label[name]))
    shown = [
        f"{name!r} {' + '.join(f'{number:,}' for number in by_label[name])}"
        for name in ordered
    ]
    heading = f"{len(labels)} labels ({' + '.join(counts)})"
    lines = [f"{heading}: {files.list_some(shown)}"]
    # Without a training file no label counts as rare.
    train_counts = counts.get("train", dict.fromkeys(labels, 2))
    folded = collections.Counter(map(_fold, labels))
    twins = {"0": "false", "false": "0", "1": "true", "true": "1"}
    has_two = "2" in by_label and "-2" not in by_label
    rare = [n for n in labels if train_counts.get(n, 0) < 2]
    alike = [n for n in labels if folded[_fold(n)] > 1]
    same = [n for n in labels if twins.get(n) in by_label]
    none = [n for n in labels if n in _NO_NAMES or (n == "-1" and has_two)]
    for warning, names in (
        ("Labels with at most one training example", rare),
        ("Labels that differ only by case (use one spelling)", alike),
        ("Labels that may mean the same", same),
        ("Labels that may mean that there is none", none),
    ):
        if names:
            lines.append(f"{warning}: {files.list_some([*map(repr, names)])}")
    if any(number % 1 for number in cells.find_numbers(labels)):
        lines.append("own.kind=regression learns numbers")
    return [f"{line}." for line in lines]
