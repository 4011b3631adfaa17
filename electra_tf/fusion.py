"""Passes over activations that XLA makes one loop of, inside a step on a CPU.

A whole step compiled for a CPU takes longer, and its first one minutes; XLA's
loops take 0.4 to 0.7 of the time of TensorFlow's operations one by one
(docs/performance.md). Elsewhere XLA compiles whole steps.
"""

import contextlib
import contextvars
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

_IS_ON = contextvars.ContextVar("is_on", default=False)


@contextlib.contextmanager
def switched(is_on: bool) -> Iterator[None]:
    """Decides whether what is traced inside is compiled where it is `fused`."""
    token = _IS_ON.set(is_on)
    try:
        yield
    finally:
        _IS_ON.reset(token)


def is_on() -> bool:
    """Whether what is traced now is part of a step on CPUs."""
    return _IS_ON.get() and not tf.executing_eagerly()


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

    It is compiled where that is switched on and all shapes are static: XLA
    compiles anew for every shape. Elsewhere it is called as it is, so exports
    hold plain operations.
    """
    compiled = tf.function(function, autograph=False, jit_compile=True)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        tensors = filter(tf.is_tensor, arguments)
        are_static = all(t.shape.is_fully_defined() for t in tensors)
        chosen = compiled if is_on() and are_static else function
        return chosen(*arguments)

    return call
