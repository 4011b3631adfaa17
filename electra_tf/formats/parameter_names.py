"""Names of the same parameter here and elsewhere, as tables.

A table goes both ways: `split` makes foreign tensors of one variable, `join`
makes the variable of foreign tensors, for weights as for gradients and
optimizer moments. `take` does it for a whole model and refuses what is
missing, left over or no weight.
"""

import dataclasses
import re
from collections.abc import Iterable

import numpy as np

from electra_tf.formats import portable

# One product here, three in all other projects.
_FUSED, _APART = "/self/qkv/", ("/self/query/", "/self/key/", "/self/value/")


@dataclasses.dataclass(frozen=True)
class NameTable:
    """Names and layouts of our parameters in another project."""

    # Regular expressions and what replaces their matches in our path, one
    # after the other.
    replacements: tuple[tuple[str, str], ...] = ()
    has_transposed_kernels: bool = False  # whether they are `[out, in]` there

    def names(self, path: str) -> tuple[str, ...]:
        """Returns the foreign tensors of one variable.

        >>> ORIGINAL.names("electra/embeddings/word_embeddings")
        ('electra/embeddings/word_embeddings',)
        """
        parts = _APART if _FUSED in path else (_FUSED,)
        names = [path.replace(_FUSED, part) for part in parts]
        for pattern, replacement in self.replacements:
            names = [re.sub(pattern, replacement, name) for name in names]
        return tuple(names)

    def split(self, path: str, value: np.ndarray) -> portable.Arrays:
        """Returns the foreign tensors of one variable's value."""
        names = self.names(path)
        parts = np.split(np.asarray(value), len(names), axis=-1)
        return {
            name: self._turn(path, part)
            for name, part in zip(names, parts, strict=True)
        }

    def split_all(self, tensors: portable.Tensors) -> portable.Arrays:
        """Returns the foreign tensors of a model, each in its own memory."""
        return {
            name: np.ascontiguousarray(part)
            for path, value in tensors.items()
            for name, part in self.split(path, value).items()
        }

    def join(self, path: str, tensors: portable.Tensors) -> np.ndarray:
        """Returns the variable's value, made of foreign tensors."""
        parts = [self._turn(path, tensors[name]) for name in self.names(path)]
        return np.concatenate(parts, axis=-1)

    def shapes(self, path: str, shape: tuple[int, ...]) -> portable.Shapes:
        """Returns the shapes of the foreign tensors of one variable."""
        parts = self.split(path, np.broadcast_to(np.float32(0), shape))
        return {name: part.shape for name, part in parts.items()}

    def _turn(self, path: str, value: np.ndarray) -> np.ndarray:
        is_turned = self.has_transposed_kernels and path.endswith("/kernel")
        return value.T if is_turned else value


ORIGINAL = NameTable()
"""The original's TF1 checkpoints, whose names ours are."""

HUGGING_FACE = NameTable(
    (
        ("^generator_predictions/output_bias$", "generator_lm_head/bias"),
        ("^(discriminator_predictions)/dense_1/", r"\1/dense_prediction/"),
        ("_embeddings$", "_embeddings/weight"),
        ("/(kernel|gamma)$", "/weight"),
        ("/beta$", "/bias"),
        ("/layer_", "/layer/"),
        ("/", "."),
    ),
    has_transposed_kernels=True,
)
"""Models of one encoder, which is called `electra`; without a task's head."""


def hugging_face(output_layer: str, hidden_layer: str) -> NameTable:
    """Returns the names of a model with a task's head of these layers."""
    head = f"^{portable.TASK_HEADS}/[^/]+"
    # The layer `outputs` has start and end side by side.
    replacements = (
        (f"{head}/(dense|outputs)/", f"{output_layer}/"),
        (f"{head}/hidden/", f"{hidden_layer}/"),
        *HUGGING_FACE.replacements,
    )
    return dataclasses.replace(HUGGING_FACE, replacements=replacements)


KERAS_HUB = NameTable(
    (
        ("^electra/embeddings/word_", "token_embedding/"),
        ("^electra/embeddings/position_", "position_embedding/"),
        ("^electra/embeddings/token_type_", "segment_embedding/"),
        ("^electra/embeddings/LayerNorm/", "embeddings_layer_norm/"),
        ("^electra/embeddings_project/", "embeddings_projection/"),
        ("^electra/encoder/layer_", "transformer_layer_"),
        ("/attention/output/LayerNorm/", "/self_attention_layer_norm/"),
        ("/attention/output/dense/", "/attention/self/attention_output/"),
        ("/attention/self/", "/self_attention_layer/"),
        ("/intermediate/dense/", "/feedforward_intermediate_dense/"),
        ("/output/dense/", "/feedforward_output_dense/"),
        ("/output/LayerNorm/", "/feedforward_layer_norm/"),
    )
)
"""The variables of an `ElectraBackbone`, without the axis for the heads."""


def take(
    tensors: portable.Tensors,
    expected: portable.Shapes,
    table: NameTable,
    origin: str,
    may_be_unused: str = "",
) -> portable.Arrays:
    """Turns the tensors of a file into a model's, as float32.

    `expected` has our paths; foreign names that match `may_be_unused` may be
    left over. `ModelError` lists what is missing, left over, of another shape,
    or no finite floating point number.
    """
    taken: portable.Arrays = {}
    problems: list[str] = []
    unused = {n for n in tensors if not re.fullmatch(may_be_unused, n)}
    for path, shape in expected.items():
        parts = table.shapes(path, shape)
        unused -= parts.keys()
        own = [
            portable.find_problem(name, tensors.get(name), part)
            for name, part in parts.items()
        ]
        problems += own
        if not any(own):
            joined = table.join(path, tensors)
            taken[path] = np.ascontiguousarray(joined, np.float32)
    left = [f"{n} {tensors[n].shape} is not used" for n in sorted(unused)]
    portable.require_none(left + problems, origin)
    return taken


def precision_notes(kinds: Iterable[str]) -> list[str]:
    """Returns notes on dtypes that were converted to float32."""
    low = sorted(set(kinds) & set(portable.FLOATS) - {"float32"})
    return [f"{kind} weights became float32" for kind in low]
