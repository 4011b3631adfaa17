"""Variables of a step beside weights and moments: loss scale, averages.

Inside a loop or a condition a replica cannot call `assign` of a mirrored
variable. `assign` and the others here reach its own copy through the copy's
handle, so all replicas must write the same value.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def read_copy(variable: Any) -> tf.Tensor:
    """The value of this replica's copy."""
    return tf.raw_ops.ReadVariableOp(
        resource=variable.handle, dtype=variable.dtype
    )


def _write(operation: Callable[..., Any], variable: Any, value: Any) -> None:
    """Changes this replica's copy by a value, cast to the variable's dtype."""
    value = tf.cast(value, variable.dtype)
    operation(resource=variable.handle, value=value)


assign = functools.partial(_write, tf.raw_ops.AssignVariableOp)
assign_add = functools.partial(_write, tf.raw_ops.AssignAddVariableOp)
assign_sub = functools.partial(_write, tf.raw_ops.AssignSubVariableOp)


class LossScale(tf.Module):
    """Dynamic loss scaling for float16, where small gradients vanish.

    A step whose gradients are not finite is skipped and halves the factor;
    `growth_steps` good ones in a row double it.
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
        good = tf.where(is_finite, self.num_good_steps + 1, 0)
        grows = good >= self.growth_steps
        smaller = tf.maximum(self.value / 2.0, 1.0)
        larger = self.value * tf.where(grows, 2.0, 1.0)
        assign(self.value, tf.where(is_finite, larger, smaller))
        assign(self.num_good_steps, tf.where(grows, 0, good))

    def by_name(self) -> dict[str, tf.Variable]:
        """The variables that a checkpoint holds."""
        return {"value": self.value, "num_good_steps": self.num_good_steps}


class WeightAverage(tf.Module):
    """An exponential moving average of the weights.

    After update n since `start`, from 1, with decay d:

        average += (1 - min(d, (1 + n) / (10 + n))) * (weight - average)

    As in `tf.train.ExponentialMovingAverage`, the initial weights soon lose
    their influence.
    """

    start = 0  # updates before the stage that it averages over

    def __init__(self, variables: Sequence[Any], decay: float) -> None:
        super().__init__(name="weight_average")
        self.sources = list(variables)
        self.decay = decay
        self.averages = [
            tf.Variable(variable.value, trainable=False, name=variable.path)
            for variable in self.sources
        ]

    def update(self, num_updates: tf.Tensor, variables: Sequence[Any]) -> None:
        """Adds update n of some variables, on each replica for itself."""
        count = tf.cast(num_updates - self.start, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + count) / (10.0 + count))
        averages = self.by_path()
        for variable in variables:
            average = averages[variable.path]
            assign_add(average, (1.0 - decay) * (variable.value - average))

    def by_path(self) -> dict[str, tf.Variable]:
        """The averages by the path of the variable they follow."""
        paths = [source.path for source in self.sources]
        return dict(zip(paths, self.averages, strict=True))

    def reset(self) -> None:
        """Starts the averages anew from the weights; not in a replica."""
        for source, average in zip(self.sources, self.averages, strict=True):
            average.assign(source.value)
