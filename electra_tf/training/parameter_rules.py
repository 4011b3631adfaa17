"""Ordered `(regex, value)` rules that give every variable its own number.

A rule is searched anywhere in `variable.path` and the first match wins. A
variable that no rule matches is an error, because a parameter that silently
keeps a default is the kind of mistake nobody sees in a loss curve.
"""

import re
from collections.abc import Sequence

Rule = tuple[str, float]

ALL_ONE: tuple[Rule, ...] = ((".*", 1.0),)

NO_DECAY_PATTERNS = ("LayerNorm", "layer_norm", "bias")
"""Names the original does not decay (`model/optimization.py`).

They are searched, not matched in full: `output_bias` is not decayed either.
Embeddings are decayed.
"""


def resolve_rules(
    rules: Sequence[Rule], paths: Sequence[str], meaning: str
) -> list[float]:
    """The value of every path: that of the first rule found in it.

    `meaning` says what the value is in the error for a path without a rule.

    >>> rules = (("bias", 0.0), (".*", 1.0))
    >>> resolve_rules(rules, ["dense/kernel", "dense/bias"], "weight decay")
    [1.0, 0.0]
    """
    matches = [
        [value for pattern, value in rules if re.search(pattern, path)]
        for path in paths
    ]
    pairs = zip(paths, matches, strict=True)
    unmatched = [path for path, values in pairs if not values]
    if unmatched:
        raise ValueError(
            f"Expected every variable to match a {meaning} rule. Received "
            f"{len(unmatched)} that match none: {unmatched}, rules: "
            f"{[pattern for pattern, _ in rules]}. Add a rule for them, or a "
            'last rule (".*", value).'
        )
    return [values[0] for values in matches]


def matches_any(patterns: Sequence[str], path: str) -> bool:
    """Whether one of the regular expressions is found anywhere in `path`."""
    return any(re.search(pattern, path) for pattern in patterns)


def layerwise_learning_rate_rules(
    layer_decay: float, num_layers: int, is_contiguous: bool = False
) -> tuple[Rule, ...]:
    """Learning-rate multipliers that shrink towards the input (paper, 3.1).

    A variable at depth d gets `layer_decay ** (top - d)`: embeddings and
    their projection have depth 0, encoder layer i has i + 1, the task head
    has `top`. The original (`model/optimization.py`, `_get_layer_lrs`) sets
    `top = num_layers + 2`, so that its uppermost layer gets the exponent 2
    and no variable gets 1; `is_contiguous` leaves no such gap. There is no
    rule for other variables: they are an error.
    """
    top = num_layers + (1 if is_contiguous else 2)
    depths = {"/embeddings/": 0, "/embeddings_project/": 0}
    depths["task_specific/"] = top
    for layer in range(num_layers):
        depths[f"encoder/layer_{layer}/"] = layer + 1
    return tuple(
        (key, layer_decay ** (top - depth)) for key, depth in depths.items()
    )
