"""What an objective is: towers in, loss sums and statistics out.

An objective is one small class with its mathematics in the docstring. It
says which losses there are and how they are weighted; masks, randomness,
division, gradients and updates are the step's and the model's business.
"""

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.training import step

if TYPE_CHECKING:
    from electra_tf.pretraining import model as model_lib


class PreparedBatch(NamedTuple):
    """A masked batch and the seeds for sampling from the generator.

    Attributes:
        masked: the batch, B = n x k rows, those of a stream together.
        sample_seeds: `[n, 2]` int64, one stateless seed per stream.
    """

    masked: masking.MaskedInputs
    sample_seeds: tf.Tensor


class Objective(abc.ABC):
    """A pre-training objective."""

    @property
    @abc.abstractmethod
    def loss_coefficients(self) -> Mapping[str, float]:
        """Loss name to its factor in the total."""

    @property
    @abc.abstractmethod
    def statistic_sizes(self) -> Mapping[str, int]:
        """Statistic name to the length of its vector."""

    @abc.abstractmethod
    def loss_weights(self, masked: masking.MaskedInputs) -> step.Tensors:
        """Loss name to the scalar that its sum is divided by.

        Known before the forward pass, so that it can be added up over
        replicas and micro-batches first.
        """

    @abc.abstractmethod
    def compute_losses(
        self,
        model: "model_lib.PretrainingModel",
        prepared: PreparedBatch,
        dropout_seed: tf.Tensor | None,
    ) -> step.LossSums:
        """Loss sums and statistics of one micro-batch."""

    @abc.abstractmethod
    def summarize(
        self, statistics: Mapping[str, np.ndarray]
    ) -> dict[str, float]:
        """Metrics from added-up statistics; `loss` is the total."""
