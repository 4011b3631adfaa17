"""What XLA compiles of a step: nothing, all of it, or loops over activations.

On GPUs it compiles all. For a CPU a whole step takes longer, and its first one
minutes, while loops take 0.4 to 0.7 of the time of TensorFlow's operations one
by one (docs/performance.md).
"""

import contextlib
import contextvars
import enum
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


class Scope(enum.Enum):
    """How much of a step XLA compiles by our wish."""

    NOTHING = enum.auto()
    LOOPS = enum.auto()  # what is `fused`
    STEP = enum.auto()


_SCOPE = contextvars.ContextVar("scope", default=Scope.NOTHING)


@contextlib.contextmanager
def switched(scope: Scope) -> Iterator[None]:
    """Says what XLA compiles of that which is traced inside."""
    token = _SCOPE.set(scope)
    try:
        yield
    finally:
        _SCOPE.reset(token)


def compiles(*scopes: Scope) -> bool:
    """Whether one of these is what XLA compiles of the graph traced now."""
    return _SCOPE.get() in scopes and not tf.executing_eagerly()


@functools.cache
def start_compiler() -> None:
    """Compiles a first function, of which XLA tells stderr at any log level."""
    kept, silent = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    try:
        tf.function(lambda: tf.zeros([]), jit_compile=True)()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(silent)


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function of tensors, which may return a nest of tensors.

    In the scope of loops it is compiled if all shapes are static: XLA compiles
    anew for every shape. Elsewhere it is called as it is, so exports hold plain
    operations.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        tensors = filter(tf.is_tensor, arguments)
        are_static = all(t.shape.is_fully_defined() for t in tensors)
        chosen = compiled if compiles(Scope.LOOPS) and are_static else function
        return chosen(*arguments)

    return call
