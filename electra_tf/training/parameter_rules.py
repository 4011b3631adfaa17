"""Ordered `(regex, value)` rules that give every variable its own number.

A rule is searched anywhere in `variable.path` and the first match wins. A
variable that no rule matches is an error, because a parameter that silently
keeps a default is the kind of mistake nobody sees in a loss curve. Rules are
plain pairs, so they can stand in a config and in a saved Keras optimizer.

>>> rules = ((r"bias", 0.0), (r".*", 1.0))
>>> resolve_rules(rules, ["dense/kernel", "dense/bias"], "weight decay")
[1.0, 0.0]
"""

import math
import re
from collections.abc import Mapping
from collections.abc import Sequence

Rule = tuple[str, float]

ALL_ONE: tuple[Rule, ...] = ((".*", 1.0),)

NO_DECAY_PATTERNS = ("LayerNorm", "layer_norm", "bias")
"""Names the original does not decay (`model/optimization.py`).

They are searched, not matched in full: `output_bias` is not decayed either.
Embeddings are decayed.
"""

EMBEDDING_KEYS = ("/embeddings/", "/embeddings_project/")
LAYER_KEY = "encoder/layer_{layer}/"
TASK_KEY = "task_specific/"


def resolve_rules(
    rules: Sequence[Rule], paths: Sequence[str], meaning: str
) -> list[float]:
    """The value of every path: that of the first rule found in it.

    Args:
        rules: pairs of a regular expression and a value, in order.
        paths: `variable.path` of every variable.
        meaning: what the value is, for the error text.

    Returns:
        One float per path, in the order of `paths`.

    Raises:
        ValueError: if a rule is malformed, or a path matches no rule.
    """
    compiled = [_compile_rule(rule, meaning) for rule in rules]
    values = [_first_match(compiled, path) for path in paths]
    unmatched = [
        path for path, value in zip(paths, values, strict=True) if value is None
    ]
    if unmatched:
        patterns = [pattern.pattern for pattern, _ in compiled]
        raise ValueError(
            f"Expected every variable to match a {meaning} rule. Received "
            f"{len(unmatched)} that match none: {unmatched}, rules: "
            f'{patterns}. Add a rule for them, or a last rule (".*", value).'
        )
    return [value for value in values if value is not None]


def matches_any(patterns: Sequence[str], path: str) -> bool:
    """Whether one of the regular expressions is found anywhere in `path`."""
    return any(re.search(pattern, path) for pattern in patterns)


def weight_decay_rules(
    exclude_patterns: Sequence[str] = NO_DECAY_PATTERNS,
    others: Sequence[Rule] = ALL_ONE,
) -> tuple[Rule, ...]:
    """Rules that give the excluded names 0 before all others.

    Args:
        exclude_patterns: regular expressions of variables without decay.
        others: rules for the rest.

    Returns:
        The rules, those of the exclusions first.
    """
    return (*((pattern, 0.0) for pattern in exclude_patterns), *others)


def layerwise_learning_rate_rules(
    layer_decay: float,
    num_layers: int,
    is_contiguous: bool = False,
    embedding_keys: Sequence[str] = EMBEDDING_KEYS,
    layer_key: str = LAYER_KEY,
    task_key: str = TASK_KEY,
) -> tuple[Rule, ...]:
    """Learning-rate multipliers that shrink towards the input (paper, 3.1).

    A variable at depth d gets `layer_decay ** (top - d)`: embeddings and
    their projection have depth 0, encoder layer i has i + 1, the task head
    has `top`. The original (`model/optimization.py`, `_get_layer_lrs`) sets
    `top = num_layers + 2`, so that its uppermost layer gets the exponent 2
    and no variable gets 1. `is_contiguous` leaves no gap, as the paper
    describes it: `top = num_layers + 1`.

    Args:
        layer_decay: factor from one depth to the next, in (0, 1].
        num_layers: depth of the encoder by its config. Exponents count from
            this number even where a model has fewer layers.
        is_contiguous: True for the uppermost layer to get the exponent 1.
        embedding_keys: substrings of the paths at depth 0.
        layer_key: substring of the paths of one layer, with `{layer}` where
            its number from 0 stands.
        task_key: substring of the paths of the task head.

    Returns:
        One rule per key. There is no rule for other variables, so that one
        without a key is an error when the rules are resolved.

    Raises:
        ValueError: if the decay or the number of layers is out of range.
    """
    if not 0.0 < layer_decay <= 1.0:
        raise ValueError(
            "`layer_decay` must be in (0, 1]. "
            f"Received: {layer_decay}. Use 1.0 for equal rates."
        )
    if num_layers < 1:
        raise ValueError(
            f"`num_layers` must be at least 1. Received: {num_layers}."
        )
    top = num_layers + (1 if is_contiguous else 2)
    depths = dict.fromkeys(embedding_keys, 0)
    depths[task_key] = top
    for layer in range(num_layers):
        depths[layer_key.format(layer=layer)] = layer + 1
    return tuple(
        (re.escape(key), layer_decay ** (top - depth))
        for key, depth in depths.items()
    )


def format_parameter_table(
    paths: Sequence[str], columns: Mapping[str, Sequence[object]]
) -> str:
    """An aligned plain-text table with one line per variable, for the log.

    Args:
        paths: `variable.path` of every variable.
        columns: heading -> one value per path.

    Returns:
        Lines separated by newlines, the heading first.
    """
    rows = [["variable", *columns]]
    for index, path in enumerate(paths):
        rows.append([path, *(_format(c[index]) for c in columns.values())])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0])]
            + [
                cell.rjust(width)
                for cell, width in zip(row[1:], widths[1:], strict=True)
            ]
        )
        for row in rows
    )


def _compile_rule(rule: Rule, meaning: str) -> tuple[re.Pattern[str], float]:
    try:
        pattern, value = rule
        compiled, number = re.compile(pattern), float(value)
    except (TypeError, ValueError, re.error) as error:
        raise ValueError(
            f"Expected a {meaning} rule (regular expression, number). "
            f"Received: {rule!r} ({error})."
        ) from error
    if not math.isfinite(number):
        raise ValueError(
            f"Expected a finite number in the {meaning} rule for "
            f"{pattern!r}. Received: {number}."
        )
    return compiled, number


def _first_match(
    rules: Sequence[tuple[re.Pattern[str], float]], path: str
) -> float | None:
    for pattern, value in rules:
        if pattern.search(path):
            return value
    return None


def _format(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
