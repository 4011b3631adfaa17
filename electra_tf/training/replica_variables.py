"""Assignments that every replica makes for itself.

`assign` of a mirrored variable inside a replica context raises, because
TensorFlow cannot know that all replicas assign the same value. Here they do:
each computes it from reduced gradients. The raw operations act on the
replica's own copy and work in `tf.cond`, under XLA and on one device alike.
"""

from typing import Any

import keras
import tensorflow as tf


def handle(variable: Any) -> tf.Tensor:
    """The resource of this replica's copy of a variable.

    Args:
        variable: a TensorFlow or Keras variable, mirrored or not.

    Returns:
        Scalar resource tensor.
    """
    if isinstance(variable, keras.Variable):
        variable = variable.value
    return variable.handle


def assign(variable: Any, value: tf.Tensor) -> None:
    """Sets this replica's copy to `value`, cast to the variable's dtype."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignVariableOp(resource=handle(variable), value=value)


def assign_add(variable: Any, value: tf.Tensor) -> None:
    """Adds `value` to this replica's copy."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignAddVariableOp(resource=handle(variable), value=value)


def assign_sub(variable: Any, value: tf.Tensor) -> None:
    """Subtracts `value` from this replica's copy."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignSubVariableOp(resource=handle(variable), value=value)
