"""A step's state beside the weights: loss scale, averages, statistics.

Inside a loop or a condition a replica cannot call `assign` of a mirrored
variable. The functions here write the replica's copy through its handle, so
all replicas must write the same value.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Tensors = dict[str, tf.Tensor]


def read_copy(variable: Any) -> tf.Tensor:
    """Reads this replica's copy of a variable."""
    return tf.raw_ops.ReadVariableOp(
        resource=variable.handle, dtype=variable.dtype
    )


def _write(operation: Callable[..., Any], variable: Any, value: Any) -> None:
    """Applies an operation to this replica's copy; casts the value."""
    value = tf.cast(value, variable.dtype)
    operation(resource=variable.handle, value=value)


assign = functools.partial(_write, tf.raw_ops.AssignVariableOp)
assign_add = functools.partial(_write, tf.raw_ops.AssignAddVariableOp)
assign_sub = functools.partial(_write, tf.raw_ops.AssignSubVariableOp)


class LossScale(tf.Module):
    """Dynamic loss scaling for float16, where small gradients vanish.

    A step whose gradients are not finite is skipped and halves the factor;
    `growth_steps` finite steps in a row double it.
    """

    def __init__(
        self, initial: float = 2.0**15, growth_steps: int = 2000
    ) -> None:
        super().__init__(name="loss_scale")
        self.growth_steps = growth_steps
        self.value = tf.Variable(initial, trainable=False)
        self.num_good_steps = tf.Variable(0, trainable=False)

    def update(self, is_finite: tf.Tensor) -> None:
        """Adapts the factor after a step."""
        num_good = tf.where(is_finite, self.num_good_steps + 1, 0)
        grows = num_good >= self.growth_steps
        smaller = tf.maximum(self.value / 2.0, 1.0)
        larger = self.value * tf.where(grows, 2.0, 1.0)
        assign(self.value, tf.where(is_finite, larger, smaller))
        assign(self.num_good_steps, tf.where(grows, 0, num_good))

    def by_name(self) -> dict[str, tf.Variable]:
        """Returns the variables by their names in checkpoints."""
        return {"value": self.value, "num_good_steps": self.num_good_steps}


class WeightAverage(tf.Module):
    """An exponential moving average of the weights.

    After update n since `start`, counted from 1, with decay d:

        average += (1 - min(d, (1 + n) / (10 + n))) * (weight - average)

    It is `tf.train.ExponentialMovingAverage` with `num_updates`, which gives
    initial weights little influence.
    """

    start = 0  # the first step of the stage

    def __init__(self, variables: Sequence[Any], decay: float) -> None:
        super().__init__(name="weight_average")
        self.sources = list(variables)
        self.decay = decay
        self.averages = [
            tf.Variable(variable.value, trainable=False, name=variable.path)
            for variable in self.sources
        ]

    def update(self, num_updates: tf.Tensor, variables: Sequence[Any]) -> None:
        """Updates the averages of some variables, in a replica context."""
        count = tf.cast(num_updates - self.start, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + count) / (10.0 + count))
        averages = self.by_path()
        for variable in variables:
            average = averages[variable.path]
            assign_add(average, (1.0 - decay) * (variable.value - average))

    def by_path(self) -> dict[str, tf.Variable]:
        """Returns the averages by the paths of their variables."""
        paths = [source.path for source in self.sources]
        return dict(zip(paths, self.averages, strict=True))

    def reset(self) -> None:
        """Sets the averages to the weights, in the cross-replica context."""
        for source, average in zip(self.sources, self.averages, strict=True):
            average.assign(source.value)


class Statistics(keras.metrics.Metric):
    """Sums statistics over batches and derives a model's metrics from them.

    The statistics have been summed over replicas. Each replica adds the sums to
    its own copy.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        derive_fn: Callable[[Tensors], Tensors] = dict,
    ) -> None:
        super().__init__(name="statistics")
        self.sizes = dict(sorted(sizes.items()))
        self.derive_fn = derive_fn
        # Not `add_variable`, whose variables are summed over replicas again.
        build = functools.partial(keras.Variable, trainable=False)
        zeros = np.zeros(sum(self.sizes.values()))
        self.total = build(zeros, dtype="float32", name="total")
        self.num_batches = build(np.zeros([]), dtype="int64")

    def update_state(self, statistics: Tensors) -> None:
        """Adds the vectors of a batch that `sizes` names."""
        vector = tf.concat([statistics[name] for name in self.sizes], 0)
        assign_add(self.total, vector)
        assign_add(self.num_batches, 1)

    def result(self) -> Tensors:
        """Computes scalar metrics of all batches since the last reset."""
        total = tf.convert_to_tensor(self.total)
        vectors = tf.split(total, list(self.sizes.values()))
        return self.derive_fn(dict(zip(self.sizes, vectors, strict=True)))

    def sums(self) -> dict[str, np.ndarray]:
        """Returns the sums since the last reset, as arrays."""
        ends = np.cumsum(list(self.sizes.values()))[:-1]
        vectors = np.split(tf.convert_to_tensor(self.total).numpy(), ends)
        return dict(zip(self.sizes, vectors, strict=True))
