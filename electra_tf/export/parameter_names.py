"""Names of the same parameter here and elsewhere, as tables.

A rule reads: a variable of ours whose path matches the pattern consists of
these foreign tensors, joined along the last axis in this order. Most rules
name a single tensor and change nothing. `split` and `join` go both ways, for
weights as for gradients and optimizer moments.
"""

import re
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class NameRule(NamedTuple):
    """How variables of one kind are called elsewhere.

    Attributes:
        pattern: regular expression for the whole of our path.
        names: the foreign names, templates over the pattern's groups.
    """

    pattern: str
    names: tuple[str, ...]


# The first rule that matches a path holds.
ORIGINAL_RULES: tuple[NameRule, ...] = (
    # One product for query, key and value here, three there.
    NameRule(
        r"(.+/attention/self/)qkv/(kernel|bias)",
        (r"\1query/\2", r"\1key/\2", r"\1value/\2"),
    ),
    NameRule(r"((?:electra|generator(?:_ltr|_rtl)?)/.+)", (r"\1",)),
    NameRule(r"((?:discriminator|generator|cloze)_predictions/.+)", (r"\1",)),
    NameRule(r"(task_specific/.+)", (r"\1",)),
)
"""Our paths and the names in the original's TF1 checkpoints."""


def foreign_names(
    path: str, rules: Sequence[NameRule] = ORIGINAL_RULES
) -> tuple[str, ...]:
    """The foreign tensors that make up one variable of ours.

    Args:
        path: `variable.path`.
        rules: the table.

    Raises:
        ValueError: if no rule matches.

    >>> foreign_names("electra/embeddings/word_embeddings")
    ('electra/embeddings/word_embeddings',)
    """
    for rule in rules:
        match = re.fullmatch(rule.pattern, path)
        if match:
            return tuple(match.expand(name) for name in rule.names)
    raise ValueError(
        "Expected a variable that the table of parameter names covers. "
        f"Received: {path!r}. Add a rule for it to "
        "electra_tf/export/parameter_names.py."
    )


def join(
    path: str,
    tensors: Mapping[str, np.ndarray],
    rules: Sequence[NameRule] = ORIGINAL_RULES,
) -> np.ndarray:
    """Our variable's value, made of foreign tensors.

    Args:
        path: `variable.path`.
        tensors: foreign name to array; holds at least the needed ones.
        rules: the table.
    """
    names = foreign_names(path, rules)
    return np.concatenate([tensors[name] for name in names], axis=-1)


def split(
    path: str,
    value: np.ndarray,
    rules: Sequence[NameRule] = ORIGINAL_RULES,
) -> dict[str, np.ndarray]:
    """The foreign tensors of one variable's value, gradient or moment.

    Args:
        path: `variable.path`.
        value: array of the variable's shape.
        rules: the table.

    Returns:
        Foreign name to array.
    """
    names = foreign_names(path, rules)
    parts = np.split(np.asarray(value), len(names), axis=-1)
    return dict(zip(names, parts, strict=True))
