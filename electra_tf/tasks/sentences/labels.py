"""The labels of a user's own files: what they are, and what is said of them."""

import collections
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from electra_tf.config import finetuning as finetuning_config
from electra_tf.config import schema
from electra_tf.tasks import cells
from electra_tf.tasks import files

BALANCED = "balanced"
"""The value of `own.class_weights` for weights by the counts of labels."""
# Labels that say themselves that F1 is of them.
_POSITIVE = ("1", "true", "yes", "positive", "pos", "spam", "fraud", "toxic")
_BITS = {"0", "1", "false", "true"}
_MOST_LISTED = 20
_RARE_SIGNS = "/", "#", "+", "&", " and ", " "

Names = tuple[str, ...]


def read(
    records: Sequence[files.Record],
    own: finetuning_config.OwnTaskConfig,
    known: Names,
    has_several: bool,
) -> list[Names]:
    """Reads the labels of every row; of `known` ones, if there are any."""
    separator = own.label_separator if has_several else ""
    rows = [
        cells.read_labels(r, own.label_columns, separator, known)
        for r in records
    ]
    if has_several or own.labels:
        rows = _name_bits(records, rows, own.label_names)
    if not has_several:
        for record, names in zip(records, rows, strict=True):
            _require_one(record, names, own.label_column)
    if not known:
        _refuse_glued(records, rows, own, has_several)
    return [tuple(dict.fromkeys(names)) for names in rows]


def _require_one(record: files.Record, names: Names, column: str) -> None:
    if len(names) == 1:
        return
    if names:
        expected = f"one label in {column!r}"
        remedy = "--config.own.kind=multilabel learns several for a text."
        raise files.unexpected(record.place, expected, list(names), remedy)
    cell = record.values.get(column)
    remedy = "Remove the row, or fill it in."
    if cell in cells.MISSING:
        remedy += " If it is a label, list all of them in --config.own.labels."
    raise files.unexpected(record.place, "a label", cell, remedy)


def _name_bits(
    records: Sequence[files.Record], rows: list[Names], known: Names
) -> list[Names]:
    """Names the labels where each row has a 0 or a 1 for every label."""
    if _are_digits(rows):
        rows = [tuple(names[0]) if names else names for names in rows]
    filled = [names for names in rows if names]
    lengths = {*map(len, filled)}
    is_repeated = any(len({*names}) < len(names) for names in filled)
    has_bits = all(_BITS.issuperset(names) for names in filled)
    is_even = len(lengths) == 1 and max(lengths) > 1
    are_names = known and _BITS.issuperset(known)
    if not (has_bits and (is_repeated or is_even)) or are_names:
        return rows
    for record, names in zip(records, rows, strict=True):
        if names and len(names) != len(known):
            expected = f"a 0 or a 1 for each of {len(known)} labels"
            expected = expected if known else "names of labels"
            remedy = (
                "These zeros and ones need the names of the labels, in their "
                "order: --config.own.labels=A,B,..."
            )
            raise files.unexpected(record.place, expected, list(names), remedy)
    return [
        tuple(
            name
            for name, bit in zip(known, names, strict=False)
            if bit in ("1", "true")
        )
        for names in rows
    ]


def _are_digits(rows: Sequence[Names]) -> bool:
    """Whether each row is a string such as `010`, all of one length."""
    names = {name for names in rows for name in names}
    return (
        all(len(names) < 2 for names in rows)
        and {*"".join(names)} == {"0", "1"}
        and len({*map(len, names)}) == 1
        and any(name[0] == "0" and len(name) > 1 for name in names)
    )


def _refuse_glued(
    records: Sequence[files.Record],
    rows: Sequence[Names],
    own: finetuning_config.OwnTaskConfig,
    has_several: bool,
) -> None:
    """Raises if names look like several labels between other signs."""
    names = dict.fromkeys(name for own_names in rows for name in own_names)
    if has_several and any(len(row) > 1 for row in rows):
        return
    sign = cells.find_separator(names, ",;|", needs_all=not has_several)
    if has_several:
        sign = sign or cells.find_separator(names, _RARE_SIGNS, needs_all=True)
    if not sign:
        return
    pairs = zip(records, rows, strict=True)
    record, name = next((r, n) for r, own in pairs for n in own if sign in n)
    kind = "" if has_several else "--config.own.kind=multilabel and "
    remedy = (
        f"Set {kind}--config.own.label_separator='{sign}'. If it is one label, "
        'list all of them as JSON: --config.own.labels=\'["a", "b"]\'.'
    )
    expected = f"one label in {own.label_column!r}"
    if has_several:
        expected = f"labels with {own.label_separator!r} between them"
    raise files.unexpected(record.place, expected, name, remedy)


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
    if len(counts := {n: counts.get(n, 0) for n in labels}) == 2:
        first, second = counts.values()
        if first != second:
            rarer = labels[0] if first < second else labels[1]
            return rarer, f"the rarer one; {change}"
    return labels[-1], f"the last one; {change}"


def parse_weights(
    text: str, labels: Names, counts: Mapping[str, int], total: int
) -> tuple[float, ...]:
    """The weight of each label in the loss; empty if all are 1.

    `text` is `balanced`, or `a=2,b=0.5`, where others have 1. Balanced weights
    of classes are N / (C * count), as in scikit-learn; where a text may have
    several labels, they are (N - count) / count and weigh texts that have it.
    `total` is N for several labels, 0 for classes.
    """
    if not text:
        return ()
    if text == BALANCED:
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
    return collections.Counter(
        name
        for example in examples
        for name in (
            (example.label,)
            if isinstance(example.label, str)
            else example.label or ()
        )
    )


def describe(
    labels: Names, counts: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """Lists labels with their counts by split, and what is odd about them."""
    ordered = sorted(
        labels, key=lambda n: -sum(c.get(n, 0) for c in counts.values())
    )
    shown = [
        f"{name!r} "
        + " + ".join(f"{own.get(name, 0):,}" for own in counts.values())
        for name in ordered[:_MOST_LISTED]
    ]
    if len(ordered) > _MOST_LISTED:
        shown.append(f"and {len(ordered) - _MOST_LISTED} more")
    splits = " + ".join(counts)
    lines = [f"{len(labels)} labels ({splits}): {', '.join(shown)}."]
    trained = counts.get("train", {})
    for number, what in (1, "one training example"), (0, "no training example"):
        own = [n for n in labels if trained and trained.get(n, 0) == number]
        if own:
            lines.append(f"Labels with {what}: {_list(own)}.")
    groups = collections.defaultdict(list)
    for name in labels:
        groups[name.casefold()].append(name)
    alike = [name for own in groups.values() if len(own) > 1 for name in own]
    if alike:
        lines.append(
            f"Labels that differ by case alone: {_list(alike)}. If they are "
            "one label, write them alike."
        )
    numbers = [files.parse_number(name) for name in labels]
    if all(n == n for n in numbers) and any(n % 1 for n in numbers):
        lines.append(
            "All labels are numbers. --config.own.kind=regression learns their "
            "order and distance too."
        )
    return lines


def _list(names: Collection[str]) -> str:
    return files.list_some([repr(name) for name in names])
