"""Heads with the weights and the hidden states of a reference."""

import keras
import tensorflow as tf

from tests.golden import loading


def build_head(head_class, arrays, **options):
    """A head whose weights are `weights/<path>`, and all of these.

    Args:
        head_class: of `electra_tf.modeling`.
        arrays: also hold `final_hidden`, `[B, S, D]`.
        **options: of the class.
    """
    weights = loading.with_prefix(arrays, "weights/")
    stage, task, *_ = next(iter(weights)).split("/")
    with keras.name_scope(stage):
        head = head_class(seed=1, name=task, **options)
        head.build(arrays["final_hidden"].shape)
    for variable in head.weights:
        variable.assign(weights.pop(variable.path))
    if weights:
        raise ValueError(f"{head_class.__name__} has no {sorted(weights)}.")
    return head


def to_tensors(arrays, **names):
    """Features of a head: our name to the name of the array."""
    return {own: tf.constant(arrays[name]) for own, name in names.items()}
