"""Tables of our parameters' names in other projects.

A table serves both directions: `split` turns one of our variables into foreign
tensors, `join` turns these into the variable. `take` converts a whole model.
"""

import dataclasses
import re
from collections.abc import Iterable

import numpy as np

from electra_tf.formats import portable

# One linear layer here, three in all other projects.
_FUSED, _SPLIT = "/self/qkv/", ("/self/query/", "/self/key/", "/self/value/")


@dataclasses.dataclass(frozen=True)
class NameTable:
    """Names and layouts of our parameters in another project."""

    # Regular expressions and their replacements, applied to our path in order.
    replacements: tuple[tuple[str, str], ...] = ()
    has_transposed_kernels: bool = False  # whether theirs are `[out, in]`

    def names(self, path: str) -> tuple[str, ...]:
        """Returns the names of the foreign tensors of one variable."""
        parts = _SPLIT if _FUSED in path else (_FUSED,)
        names = [path.replace(_FUSED, part) for part in parts]
        for pattern, replacement in self.replacements:
            names = [re.sub(pattern, replacement, name) for name in names]
        return tuple(names)

    def split(self, path: str, value: np.ndarray) -> portable.Arrays:
        """Returns the foreign tensors of one variable's value."""
        names = self.names(path)
        parts = np.split(np.asarray(value), len(names), axis=-1)
        values = (self._transpose(path, part) for part in parts)
        return dict(zip(names, values, strict=True))

    def split_all(self, tensors: portable.Tensors) -> portable.Arrays:
        """Returns the foreign tensors of a model, contiguous in memory."""
        return {
            name: np.ascontiguousarray(part)
            for path, value in tensors.items()
            for name, part in self.split(path, value).items()
        }

    def join(self, path: str, tensors: portable.Tensors) -> np.ndarray:
        """Returns one variable's value, made of its foreign tensors."""
        parts = (tensors[name] for name in self.names(path))
        return np.concatenate([self._transpose(path, p) for p in parts], -1)

    def all_shapes(self, shapes: portable.Shapes) -> portable.Shapes:
        """Returns the shapes of the foreign tensors of a model."""
        return {
            name: part.shape
            for path, shape in shapes.items()
            for name, part in self.split(
                path, np.broadcast_to(0, shape)
            ).items()
        }

    def _transpose(self, path: str, value: np.ndarray) -> np.ndarray:
        is_kernel = self.has_transposed_kernels and path.endswith("/kernel")
        return value.T if is_kernel else value


ORIGINAL = NameTable()
"""The original's TF1 checkpoints; their names are ours."""

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
"""Models of transformers with one encoder, without the head of a task."""


def hugging_face(output_layer: str, hidden_layer: str = "") -> NameTable:
    """Returns the table of a model whose task's head has these layers."""
    head = f"^{portable.TASK_HEADS}/[^/]+"
    # The layer `outputs` concatenates the start and end layers.
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
"""The variables of an `ElectraBackbone`, without the axis of the heads."""


def take(
    tensors: portable.Tensors,
    expected: portable.Shapes,
    table: NameTable,
    origin: str,
    may_be_unused: str = "",
) -> portable.Arrays:
    """Converts the tensors of a file to our names and layouts, in float32.

    Args:
        tensors: the file's tensors, by their names.
        expected: the shapes of the model's variables, by our paths.
        table: the names of the file's project.
        origin: the file, for errors.
        may_be_unused: regular expression of tensors that may be left over.

    Raises:
        ModelError: as `portable.require_shapes`.
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
