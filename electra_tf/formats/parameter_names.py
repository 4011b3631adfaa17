"""Names of the same parameter here and elsewhere, as tables.

A rule reads: a variable of ours whose path matches the pattern consists of
these foreign tensors, joined along the last axis in this order. Most rules
name a single tensor and change nothing; those of PyTorch's linear layers
transpose it. `split` and `join` go both ways, for weights as for gradients and
optimizer moments.
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
        is_transposed: whether a matrix is `[out, in]` there.
    """

    pattern: str
    names: tuple[str, ...]
    is_transposed: bool = False


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


def linear_rules(pattern: str, *names: str) -> list[NameRule]:
    """Rules for a linear layer of PyTorch, or for several that are one here.

    Args:
        pattern: regular expression for our path of the layer.
        names: of the layers there.
    """
    return [
        NameRule(
            f"{pattern}/kernel", tuple(f"{n}.weight" for n in names), True
        ),
        NameRule(f"{pattern}/bias", tuple(f"{n}.bias" for n in names)),
    ]


def _norm(pattern: str, name: str) -> list[NameRule]:
    return [
        NameRule(f"{pattern}/gamma", (f"{name}.weight",)),
        NameRule(f"{pattern}/beta", (f"{name}.bias",)),
    ]


_BLOCK, _TORCH_BLOCK = (
    r"electra/encoder/layer_(\d+)",
    r"electra.encoder.layer.\1",
)

HUGGING_FACE_RULES: tuple[NameRule, ...] = (
    NameRule(
        r"electra/embeddings/(word|position|token_type)_embeddings",
        (r"electra.embeddings.\1_embeddings.weight",),
    ),
    *_norm("electra/embeddings/LayerNorm", "electra.embeddings.LayerNorm"),
    *linear_rules("electra/embeddings_project", "electra.embeddings_project"),
    *linear_rules(
        f"{_BLOCK}/attention/self/qkv",
        *(
            f"{_TORCH_BLOCK}.attention.self.{n}"
            for n in ("query", "key", "value")
        ),
    ),
    *linear_rules(
        f"{_BLOCK}/attention/output/dense",
        f"{_TORCH_BLOCK}.attention.output.dense",
    ),
    *_norm(
        f"{_BLOCK}/attention/output/LayerNorm",
        f"{_TORCH_BLOCK}.attention.output.LayerNorm",
    ),
    *linear_rules(
        f"{_BLOCK}/intermediate/dense", f"{_TORCH_BLOCK}.intermediate.dense"
    ),
    *linear_rules(f"{_BLOCK}/output/dense", f"{_TORCH_BLOCK}.output.dense"),
    *_norm(f"{_BLOCK}/output/LayerNorm", f"{_TORCH_BLOCK}.output.LayerNorm"),
    *linear_rules(
        "discriminator_predictions/dense", "discriminator_predictions.dense"
    ),
    *linear_rules(
        "discriminator_predictions/dense_1",
        "discriminator_predictions.dense_prediction",
    ),
    *linear_rules("generator_predictions/dense", "generator_predictions.dense"),
    *_norm(
        "generator_predictions/LayerNorm", "generator_predictions.LayerNorm"
    ),
    NameRule("generator_predictions/output_bias", ("generator_lm_head.bias",)),
)
"""Paths of one tower, its encoder called `electra`, and the names there.

Heads of fine-tuning are in `hugging_face_heads`: there it is not always one
tensor for one.
"""

_HUB_BLOCK = r"transformer_layer_\1"

KERAS_HUB_RULES: tuple[NameRule, ...] = (
    NameRule(
        "electra/embeddings/word_embeddings", ("token_embedding/embeddings",)
    ),
    NameRule(
        "electra/embeddings/position_embeddings",
        ("position_embedding/embeddings",),
    ),
    NameRule(
        "electra/embeddings/token_type_embeddings",
        ("segment_embedding/embeddings",),
    ),
    NameRule(
        "electra/embeddings/LayerNorm/(gamma|beta)",
        (r"embeddings_layer_norm/\1",),
    ),
    NameRule(
        "electra/embeddings_project/(kernel|bias)",
        (r"embeddings_projection/\1",),
    ),
    NameRule(
        f"{_BLOCK}/attention/self/qkv/(kernel|bias)",
        tuple(
            rf"{_HUB_BLOCK}/self_attention_layer/{name}/\2"
            for name in ("query", "key", "value")
        ),
    ),
    NameRule(
        f"{_BLOCK}/attention/output/dense/(kernel|bias)",
        (rf"{_HUB_BLOCK}/self_attention_layer/attention_output/\2",),
    ),
    NameRule(
        f"{_BLOCK}/attention/output/LayerNorm/(gamma|beta)",
        (rf"{_HUB_BLOCK}/self_attention_layer_norm/\2",),
    ),
    NameRule(
        f"{_BLOCK}/intermediate/dense/(kernel|bias)",
        (rf"{_HUB_BLOCK}/feedforward_intermediate_dense/\2",),
    ),
    NameRule(
        f"{_BLOCK}/output/dense/(kernel|bias)",
        (rf"{_HUB_BLOCK}/feedforward_output_dense/\2",),
    ),
    NameRule(
        f"{_BLOCK}/output/LayerNorm/(gamma|beta)",
        (rf"{_HUB_BLOCK}/feedforward_layer_norm/\2",),
    ),
)
"""Paths of an encoder called `electra`, and those of an `ElectraBackbone`.

Its attention kernels have an axis for the heads; `keras_hub_preset` flattens
them.
"""


TASK_ALIASES: Mapping[str, str] = {
    "sst": "sst2",
    "sts": "stsb",
    "squad": "squad2",
    "squadv1": "squad1",
    "chunk": "chunking",
}
"""Tasks that the original calls otherwise, also in its variables' names."""


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
    return _find(path, rules)[0]


def _find(path: str, rules: Sequence[NameRule]) -> tuple[tuple[str, ...], bool]:
    """The foreign names, and whether they are transposed."""
    for rule in rules:
        match = re.fullmatch(rule.pattern, path)
        if match:
            names = tuple(match.expand(name) for name in rule.names)
            return names, rule.is_transposed
    raise ValueError(
        "Expected a variable that the table of parameter names covers. "
        f"Received: {path!r}. Add a rule for it to "
        "electra_tf/formats/parameter_names.py."
    )


def joined_shape(
    path: str,
    shape: tuple[int, ...],
    rules: Sequence[NameRule] = ORIGINAL_RULES,
) -> tuple[int, ...]:
    """The shape that `join` gives.

    Args:
        path: `variable.path`.
        shape: of each of its foreign tensors; has an axis at least.
        rules: the table.
    """
    names, is_transposed = _find(path, rules)
    *rows, columns = shape[::-1] if is_transposed else shape
    return (*rows, columns * len(names))


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
    names, is_transposed = _find(path, rules)
    parts = [np.asarray(tensors[name]) for name in names]
    if is_transposed:
        parts = [part.T for part in parts]
    return np.concatenate(parts, axis=-1)


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
    names, is_transposed = _find(path, rules)
    parts = np.split(np.asarray(value), len(names), axis=-1)
    if is_transposed:
        parts = [part.T for part in parts]
    return dict(zip(names, parts, strict=True))


def split_all(
    tensors: Mapping[str, np.ndarray], rules: Sequence[NameRule]
) -> dict[str, np.ndarray]:
    """The foreign tensors of many variables, each in a memory of its own.

    Args:
        tensors: our path to array.
        rules: the table.
    """
    return {
        name: np.ascontiguousarray(part)
        for path, value in tensors.items()
        for name, part in split(path, value, rules).items()
    }
