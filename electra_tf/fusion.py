"""Which parts of a step XLA compiles: none, loops over activations, or all.

On GPUs it compiles all. On CPUs a step that is compiled whole takes longer, and
its first one minutes, while loops take 0.4 to 0.7 of the time of TensorFlow's
operations one by one, which makes 3 to 8 % of a step.
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
    """The parts of a step that XLA compiles at our request."""

    NOTHING = enum.auto()
    LOOPS = enum.auto()  # functions that are `fused`
    STEP = enum.auto()


_SCOPE = contextvars.ContextVar("scope", default=Scope.NOTHING)


@contextlib.contextmanager
def switched(scope: Scope) -> Iterator[None]:
    """Sets the scope of all that is traced within the context."""
    token = _SCOPE.set(scope)
    try:
        yield
    finally:
        _SCOPE.reset(token)


def compiles(*scopes: Scope) -> bool:
    """Whether the graph that is traced now has one of these scopes."""
    return _SCOPE.get() in scopes and not tf.executing_eagerly()


def has_accelerator() -> bool:
    """Whether a step that XLA compiles whole is for a GPU or a TPU."""
    return any(map(tf.config.list_logical_devices, ("GPU", "TPU")))


@functools.cache
def start_compiler() -> None:
    """Compiles a first function with stderr closed: XLA prints a banner."""
    kept, silent = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    try:
        tf.function(lambda: tf.zeros([]), jit_compile=True)()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(silent)


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of tensors that returns a nest of tensors.

    In the scope `LOOPS` XLA compiles it if all shapes are static, since it
    compiles anew for every shape. Elsewhere the function is called as it is, so
    exports hold plain operations.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        tensors = filter(tf.is_tensor, arguments)
        are_static = all(t.shape.is_fully_defined() for t in tensors)
        chosen = compiled if compiles(Scope.LOOPS) and are_static else function
        return chosen(*arguments)

    return call
