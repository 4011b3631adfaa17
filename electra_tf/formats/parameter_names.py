"""Names of the same parameter here and elsewhere, as tables.

A table goes both ways: `split` makes foreign tensors of one variable, `join`
the variable of foreign tensors. `take` joins a whole model.
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
        """Returns the names of the foreign tensors of one variable."""
        parts = _APART if _FUSED in path else (_FUSED,)
        names = [path.replace(_FUSED, part) for part in parts]
        for pattern, replacement in self.replacements:
            names = [re.sub(pattern, replacement, name) for name in names]
        return tuple(names)

    def split(self, path: str, value: np.ndarray) -> portable.Arrays:
        """Returns the foreign tensors of one variable's value."""
        names = self.names(path)
        parts = np.split(np.asarray(value), len(names), axis=-1)
        turned = (self._turn(path, part) for part in parts)
        return dict(zip(names, turned, strict=True))

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

    def all_shapes(self, shapes: portable.Shapes) -> portable.Shapes:
        """Returns the shapes of the foreign tensors of a model."""
        return {
            name: part.shape
            for path, shape in shapes.items()
            for name, part in self.split(
                path, np.broadcast_to(0, shape)
            ).items()
        }

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


def hugging_face(output_layer: str, hidden_layer: str = "") -> NameTable:
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

    `expected` has our paths. Raises as `portable.require_shapes`.
    """
    shapes = table.all_shapes(expected)
    portable.require_shapes(tensors, shapes, origin, may_be_unused)
    return {
        path: np.ascontiguousarray(table.join(path, tensors), np.float32)
        for path in expected
    }


def precision_notes(kinds: Iterable[str]) -> list[str]:
    """Returns notes on dtypes that were converted to float32."""
    low = sorted(set(kinds) & set(portable.FLOATS) - {"float32"})
    return [f"{kind} weights became float32" for kind in low]
