"""Chooses the parts of a step that XLA compiles: none, loops, or whole steps.

On GPUs XLA compiles whole steps. On CPUs a whole step would be slower and take
minutes to compile. There XLA compiles loops over activations, which take 0.4 to
0.7 of the time of separate operations and save 3 to 8 % of a step.
"""

import contextlib
import contextvars
import enum
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla


class Scope(enum.Enum):
    """The parts of a step that XLA compiles."""

    NOTHING = enum.auto()
    LOOPS = enum.auto()  # the functions that `fused` decorates
    STEP = enum.auto()


_SCOPE = contextvars.ContextVar("scope", default=Scope.NOTHING)


@contextlib.contextmanager
def switched(scope: Scope) -> Iterator[None]:
    """Sets the scope of the graphs that are traced within the context."""
    token = _SCOPE.set(scope)
    try:
        yield
    finally:
        _SCOPE.reset(token)


def compiles(*scopes: Scope) -> bool:
    """Whether the graph that is traced now has one of these scopes."""
    return _SCOPE.get() in scopes and not tf.executing_eagerly()


def accelerator() -> str:
    """Returns the device of a whole step: `GPU`, `TPU`, or `""` for a CPU."""
    kinds = filter(tf.config.list_logical_devices, ("GPU", "TPU"))
    return next(kinds, "")


def keep(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor; XLA computes it once, not again for each use."""
    if not compiles(Scope.STEP):
        return tensor
    return xla.optimization_barrier(tensor)[0]


@functools.cache
def start_compiler() -> None:
    """Compiles a first function with stderr hidden, where XLA logs a banner."""
    kept, silent = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 2)
    try:
        tf.function(lambda: tf.zeros([]), jit_compile=True)()
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(silent)


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of tensors that XLA compiles in the scope `LOOPS`.

    All shapes must be static, because XLA compiles for each shape. In other
    scopes the function is called as it is, so exports hold plain operations.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        tensors = filter(tf.is_tensor, arguments)
        are_static = all(t.shape.is_fully_defined() for t in tensors)
        chosen = compiled if compiles(Scope.LOOPS) and are_static else function
        return chosen(*arguments)

    return call
