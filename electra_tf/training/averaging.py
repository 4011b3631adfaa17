"""Exponential moving average of the weights."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf.training import replica_optimizer


class WeightAverage(tf.Module):
    """An exponential moving average of the weights.

    After update n, from 1, with decay d:

        average += (1 - min(d, (1 + n) / (10 + n))) * (weight - average)

    As in `tf.train.ExponentialMovingAverage`, early updates decay faster, so
    that the first random weights soon count for nothing.
    """

    def __init__(self, variables: Sequence[Any], decay: float) -> None:
        super().__init__(name="weight_average")
        self.sources = list(variables)
        self.decay = decay
        self.averages = [
            tf.Variable(variable.value, trainable=False, name=variable.path)
            for variable in self.sources
        ]

    def update(self, num_updates: tf.Tensor) -> None:
        """Follows the weights after update n, on each replica for itself."""
        count = tf.cast(num_updates, tf.float32)
        decay = tf.minimum(self.decay, (1.0 + count) / (10.0 + count))
        for source, average in zip(self.sources, self.averages, strict=True):
            weight = tf.convert_to_tensor(source.value)
            replica_optimizer.assign_add(
                average, (1.0 - decay) * (weight - average)
            )

    def by_path(self) -> dict[str, tf.Variable]:
        """The averages by the path of the variable they follow."""
        pairs = zip(self.sources, self.averages, strict=True)
        return {source.path: average for source, average in pairs}

    def reset(self) -> None:
        """Starts the averages anew from the weights; not in a replica."""
        for source, average in zip(self.sources, self.averages, strict=True):
            average.assign(source.value)
