"""The labels of a user's own files: what they are, and what is said of them."""

import collections
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.tasks import cells
from electra_tf.tasks import files

# Labels that say themselves that F1 is of them.
_POSITIVE = ("1", "true", "yes", "positive", "pos", "spam", "fraud", "toxic")
_MOST_LISTED = 20
_SIGNS = ",;|"
_RARE_SIGNS = "/", "#", "+", "&", " and ", " "

Names = tuple[str, ...]


def read(
    records: Sequence[files.Record],
    own: finetuning_config.OwnTaskConfig,
    known: Names,
    has_several: bool,
) -> list[Names]:
    """Reads the labels of every row; of `known` ones, if there are any."""
    column, separator = own.label_column, own.label_separator * has_several
    if len(own.label_columns) > 1:
        rows = _read_columns(records, own.label_columns)
    else:
        rows = [cells.read_labels(r, column, separator, known) for r in records]
        rows = _name_numbers(records, rows, own.label_names)
    for record, names in zip(records, rows, strict=True):
        if len(names) != 1 and not has_several:
            _refuse_number(record, names, own.label_column)
    if not known:
        _refuse_glued(records, rows, own, has_several)
    return [tuple(dict.fromkeys(names)) for names in rows]


def _refuse_number(record: files.Record, names: Names, column: str) -> None:
    """Raises for several labels, or none, in the place of one."""
    if names:
        expected = f"one label in {column!r}"
        remedy = "--config.own.kind=multilabel learns several for a text."
        raise files.unexpected(record.place, expected, list(names), remedy)
    cell = record.values.get(column)
    remedy = "Remove the row, or fill it in."
    if cell in cells.MISSING:
        remedy += " If it is a label, list all of them in --config.own.labels."
    raise files.unexpected(record.place, "a label", cell, remedy)


def _read_columns(
    records: Sequence[files.Record], columns: Names
) -> list[Names]:
    """Reads the labels of rows that have a cell for each.

    Where no cell of the file says no, an empty one does.
    """
    held = {
        str(cells.label_name(record.values.get(name))).lower()
        for record in records
        for name in columns
    }
    empty = False if cells.NO.isdisjoint(held) else None
    return [
        tuple(n for n in columns if cells.read_truth(r, n, r.values, empty))
        for r in records
    ]


def _name_numbers(
    records: Sequence[files.Record], rows: list[Names], listed: Names
) -> list[Names]:
    """Names the labels of rows that have numbers for those that are listed.

    They have a 0 or a 1 for each, or the places of their labels, from 0.
    """
    numbers = {str(place): name for place, name in enumerate(listed)}
    are_truths = cells.BOOLEANS.issuperset(listed)
    if not are_truths:
        rows = [_split_bits(names) for names in rows]
    names = {name for own in rows for name in own}
    has_bits = names <= cells.BOOLEANS and max(map(len, rows)) > 1
    if has_bits and not (listed and are_truths):
        return _name_bits(records, rows, listed)
    if are_truths or numbers.keys() & {*listed} or not numbers.keys() >= names:
        return rows
    return [tuple(numbers[name] for name in own) for own in rows]


def _name_bits(
    records: Sequence[files.Record], rows: list[Names], listed: Names
) -> list[Names]:
    for record, names in zip(records, rows, strict=True):
        if names and len(names) != len(listed):
            expected = f"a 0 or a 1 for each of {len(listed)} labels"
            expected = expected if listed else "names of labels"
            remedy = "Name all labels in their order: --config.own.labels=A,B."
            raise files.unexpected(record.place, expected, list(names), remedy)
    held = ([bit in cells.TRUE for bit in names] for names in rows)
    return [tuple(itertools.compress(listed, bits)) for bits in held]


def _split_bits(names: Names) -> Names:
    """Opens a string of zeros and ones, as `1 0 1` and `1.0, 0.0`."""
    parts = re.split(r"[\s,;|]+", " ".join(names))
    bits = tuple(str(cells.label_name(part)) for part in parts)
    return bits if cells.BOOLEANS.issuperset(bits) else names


def _refuse_glued(
    records: Sequence[files.Record],
    rows: Sequence[Names],
    own: finetuning_config.OwnTaskConfig,
    has_several: bool,
) -> None:
    """Raises if names look like several labels between other signs."""
    if has_several and any(len(row) > 1 for row in rows):
        return
    names = {name for own_names in rows for name in own_names}
    for sign in (*_SIGNS, *_RARE_SIGNS) if has_several else _SIGNS:
        glued = _find_glued(names, sign, has_several)
        if glued:
            break
    else:
        return
    pairs = zip(records, rows, strict=True)
    place, name = next(
        (record.place, name)
        for record, own_names in pairs
        for name in own_names
        if name in glued
    )
    expected = f"one label in {own.label_column!r}"
    if has_several:
        expected = f"labels with {own.label_separator!r} between them"
    kind = "" if has_several else "--config.own.kind=multilabel and "
    if all(re.fullmatch(r"-?\d+,\d+", name) for name in glued):
        kind = f"a decimal point if it is a number. Else {kind}"
    remedy = (
        f"Set {kind}--config.own.label_separator='{sign}'. If it is one label, "
        'list all of them as JSON: --config.own.labels=\'["a", "b"]\'.'
    )
    raise files.unexpected(place, expected, name, remedy)


def _find_glued(names: set[str], sign: str, has_several: bool) -> set[str]:
    """The names whose parts between signs look like labels.

    They do if all of them are also elsewhere. Where a text has one label, one
    part that is a label by itself is enough; where it may have several, a usual
    sign is.
    """
    split = {n: {*map(str.strip, n.split(sign))} - {""} for n in names}
    counts = collections.Counter(itertools.chain(*split.values()))
    is_usual = has_several and sign in _SIGNS
    return {
        name
        for name, parts in split.items()
        if len(parts) > 1
        and (
            is_usual
            or (not has_several and parts & names)
            or all(counts[part] > 1 for part in parts)
        )
    }


def choose_positive(
    labels: Names, wanted: str, counts: Mapping[str, int]
) -> tuple[str, str]:
    """The label of two that F1 is of, and why.

    It is the wanted one, or that whose name says so, or the rarer one.
    """
    if wanted:
        schema.require_choice("own.positive_label", wanted, labels)
        return wanted, "as own.positive_label says"
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
    """The weight of each label in the loss.

    `text` is `balanced`, or `a=2,b=0.5`, where others have 1. Balanced weights
    of classes are N / (C * count), as in scikit-learn; where a text may have
    several labels, they are (N - count) / count and weigh texts that have it.
    `total` is N for several labels, 0 for classes.
    """
    if text == "balanced":
        held = [max(counts.get(name, 0), 1) for name in labels]
        if total:
            return tuple(max(total - count, 1) / count for count in held)
        return tuple(sum(held) / (len(held) * count) for count in held)
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
    """How many examples have each label."""
    told = (example.label or () for example in examples)
    return collections.Counter(
        itertools.chain(*((x,) if isinstance(x, str) else x for x in told))
    )


def describe(
    labels: Names, counts: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Lists labels with their counts by split, and what is odd about them."""
    sums = {n: [own.get(n, 0) for own in counts.values()] for n in labels}
    ordered = sorted(labels, key=lambda name: -sum(sums[name]))
    shown = [
        f"{name!r} {' + '.join(f'{number:,}' for number in sums[name])}"
        for name in ordered[:_MOST_LISTED]
    ]
    if len(ordered) > _MOST_LISTED:
        shown.append(f"and {len(ordered) - _MOST_LISTED} more")
    lines = [f"{len(labels)} labels ({' + '.join(counts)}): {', '.join(shown)}"]
    # Without a training file nothing is rare.
    trained = counts.get("train", dict.fromkeys(labels, 2))
    folded = collections.Counter(name.casefold() for name in labels)
    odd = {
        "Labels with at most one training example": [
            name for name in labels if trained.get(name, 0) < 2
        ],
        "Labels that differ by case alone (write one label alike)": [
            name for name in labels if folded[name.casefold()] > 1
        ],
        "Labels that may be one, as 1 and true are": [
            name
            for pair in (("0", "false"), ("1", "true"))
            for name in pair
            if {*pair} <= {*labels}
        ],
    }
    for what, own in odd.items():
        if own:
            lines.append(f"{what}: {files.list_some(list(map(repr, own)))}")
    if any(number % 1 for number in cells.find_numbers(labels)):
        lines.append("Numbers are learned by --config.own.kind=regression")
    return [f"{line}." for line in lines]
