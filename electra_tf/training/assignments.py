"""Reads and assignments of one replica's copy of a variable.

Inside a loop or a condition a replica cannot call `assign` of a mirrored
variable. These functions reach its own copy through the copy's handle, so all
replicas must write the same value.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def read_copy(variable: Any) -> tf.Tensor:
    """The value of this replica's copy."""
    return tf.raw_ops.ReadVariableOp(
        resource=variable.handle, dtype=variable.dtype
    )


def assign(variable: Any, value: Any) -> None:
    """Sets this replica's copy to `value`, cast to the variable's dtype."""
    _write(tf.raw_ops.AssignVariableOp, variable, value)


def assign_add(variable: Any, value: Any) -> None:
    """Adds `value` to this replica's copy."""
    _write(tf.raw_ops.AssignAddVariableOp, variable, value)


def assign_sub(variable: Any, value: Any) -> None:
    """Subtracts `value` from this replica's copy."""
    _write(tf.raw_ops.AssignSubVariableOp, variable, value)


def _write(operation: Callable[..., Any], variable: Any, value: Any) -> None:
    value = tf.cast(value, variable.dtype)
    operation(resource=variable.handle, value=value)
