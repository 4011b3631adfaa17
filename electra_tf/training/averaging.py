"""Exponential moving average of the weights."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from electra_tf.training import replica_variables


def require_kept(ema_decay: float) -> None:
    """Raises `ValueError` if a run kept no average of its weights.

    Args:
        ema_decay: of the run's config.
    """
    if ema_decay == 0:
        raise ValueError(
            "Averaged weights must have been kept while training. Received: a "
            "run with training.ema_decay=0. Take its plain weights, or train "
            "with --config.training.ema_decay=0.9999."
        )


class WeightAverage(tf.Module):
    """A second set of weights that follows the first slowly.

    Args:
        variables: what is averaged; build inside the strategy's scope.
        decay: share of the average that a step keeps, 0-1.
    """

    def __init__(self, variables: Sequence[Any], decay: float) -> None:
        super().__init__(name="weight_average")
        self.sources = list(variables)
        self.decay = decay
        self.averages = [
            tf.Variable(variable.value, trainable=False, name=variable.path)
            for variable in self.sources
        ]

    def update(self) -> None:
        """`average += (1 - decay) * (weight - average)`, on each replica."""
        for source, average in zip(self.sources, self.averages, strict=True):
            weight = tf.convert_to_tensor(source.value)
            change = (1.0 - self.decay) * (weight - average)
            replica_variables.assign_add(average, change)

    def by_path(self) -> dict[str, tf.Variable]:
        """The averages by the path of the variable they follow."""
        pairs = zip(self.sources, self.averages, strict=True)
        return {source.path: average for source, average in pairs}

    def reset(self) -> None:
        """Starts the averages anew from the weights; not in a replica."""
        for source, average in zip(self.sources, self.averages, strict=True):
            average.assign(source.value)
