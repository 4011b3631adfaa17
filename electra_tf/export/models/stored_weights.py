"""Stores the weights of an export in fewer bits.

Kernels and tables are variables of float32, bfloat16, or int8 with a float32
scale per output of a kernel or row of a table. The graph converts them where it
uses them, so files and memory shrink, but not the work. Vectors are constants.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.export.models import parallel_blocks

FORMATS = ("float32", "bfloat16", "int8")
_LARGEST_INT8 = 127


class _Constant:
    """A constant that layers read like a variable, which takes more time."""

    def __init__(self, values: np.ndarray, dtype: str) -> None:
        self._values = values
        self._dtype = tf.as_dtype(dtype)

    def __tf_tensor__(
        self, dtype: tf.DType | None = None, name: str | None = None
    ) -> tf.Tensor:
        return tf.cast(tf.constant(self._values), dtype or self._dtype, name)


class StoredWeights:
    """A matrix in fewer bits that layers read like a variable.

    `tf.convert_to_tensor` gives the whole matrix, `look_up` some of its rows.
    """

    def __init__(
        self,
        values: np.ndarray,
        weights: str,
        scaled_axis: int,
        dtype: str,
        name: str,
    ) -> None:
        self.dtype = tf.as_dtype(dtype)
        self._scales = None
        if weights == "int8":
            values, scales = quantize(values, scaled_axis)
            self._scales = tf.Variable(scales, False, name=f"{name}_scales")
        self._stored = tf.Variable(tf.cast(values, weights), False, name=name)
        stored = [self._stored, self._scales]
        self.variables = [v for v in stored if v is not None]

    def __tf_tensor__(
        self, dtype: tf.DType | None = None, name: str | None = None
    ) -> tf.Tensor:
        values = tf.convert_to_tensor(self._stored)
        if self._scales is not None:
            values = tf.cast(values, tf.float32) * self._scales
        return tf.cast(values, dtype or self.dtype)

    def look_up(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the rows `ids` (`[...]` int32) of a table."""
        rows = tf.gather(self._stored, ids)
        if self._scales is not None:
            rows = tf.cast(rows, tf.float32) * tf.gather(self._scales, ids)
        return tf.cast(rows, self.dtype)


def quantize(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Rounds `[rows, columns]` float32 to int8 multiples of scales.

    With `axis` 0 every row has a scale, with 1 every column. Returns the
    multiples, and the scales, `[rows, 1]` or `[1, columns]` float32.
    """
    largest = np.abs(values).max(axis=1 - axis, keepdims=True)
    # If all values are zero, any scale will do.
    scales = np.where(largest > 0, largest, 1.0) / np.float32(_LARGEST_INT8)
    return np.rint(values / scales).astype(np.int8), scales.astype(np.float32)


def replace(layers: Iterable[Any], weights: str) -> None:
    """Replaces the variables of layers by constants and stored weights."""
    # Layers that share a variable share its replacement.
    replaced: dict[int, Any] = {}
    with tf.device("/CPU:0"):
        for layer, name, value in list(_find_attributes(layers)):
            if isinstance(value, keras.Variable):
                if id(value) not in replaced:
                    replaced[id(value)] = _store(layer, value, weights)
                setattr(layer, name, replaced[id(value)])


def find_variables(layers: Iterable[Any]) -> list[tf.Variable]:
    """Returns all variables that layers read, each once."""
    variables: dict[int, tf.Variable] = {}
    for _, _, value in _find_attributes(layers):
        if isinstance(value, keras.Variable):
            variables[id(value.value)] = value.value
        elif isinstance(value, StoredWeights):
            variables |= {id(stored): stored for stored in value.variables}
    return list(variables.values())


def _store(layer: Any, variable: Any, weights: str) -> Any:
    values, name = np.asarray(variable.value), variable.path.replace("/", "_")
    is_kernel = variable.name == "kernel"
    # Layers read tables and normalization in float32.
    is_cast = is_kernel or variable.name == "bias"
    dtype = layer.compute_dtype if is_cast else "float32"
    if values.ndim == 1:
        return _Constant(values, dtype)
    if weights == "float32":
        return variable
    return StoredWeights(values, weights, int(is_kernel), dtype, name)


def _find_attributes(items: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yields (layer, name, value) of all attributes of nested layers, once."""
    seen, waiting = set(), [items]
    while waiting:
        item = waiting.pop(0)
        if isinstance(item, list | tuple):
            waiting[:0] = item
        elif (
            isinstance(item, keras.layers.Layer | parallel_blocks.ParallelBlock)
            and id(item) not in seen
        ):
            seen.add(id(item))
            yield from ((item, *pair) for pair in vars(item).items())
            waiting[:0] = vars(item).values()
