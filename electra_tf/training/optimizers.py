"""The optimizers: the original's Adam, tensorflow-addons' AdamW, and LAMB.

Each class is its formula for a variable w; moments m and v, and everything
else they share, are in `replica_optimizer.py`. Keras' own `Lamb` keeps the
decay out of the trust ratio, which gives other numbers.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config
from electra_tf.training import parameter_rules
from electra_tf.training import replica_optimizer
from electra_tf.training.replica_optimizer import Gradient
from electra_tf.training.replica_optimizer import Scalars
from electra_tf.training.replica_optimizer import Schedule


@keras.saving.register_keras_serializable("electra_tf")
class AdamWeightDecay(replica_optimizer.ReplicaOptimizer):
    """The original's optimizer (`model/optimization.py`).

        w = w - rate * (m / (sqrt(v) + epsilon) + weight_decay * w)

    Departures from Adam and AdamW as usually given: no bias correction,
    epsilon stands outside the root and is 1e-6, LayerNorm and biases are not
    decayed. The arguments are those of `ReplicaOptimizer`.
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 5e-4,
        *,
        weight_decay: float | Schedule = 0.01,
        exclude_from_weight_decay: (
            Sequence[str] | None
        ) = parameter_rules.NO_DECAY_PATTERNS,
        **options: Any,
    ) -> None:
        super().__init__(
            learning_rate,
            weight_decay=weight_decay,
            exclude_from_weight_decay=exclude_from_weight_decay,
            **options,
        )

    def _scalars(self, rate: tf.Tensor) -> Scalars:
        gain_1, gain_2 = self._moment_gains()
        shared = super()._scalars(rate)
        return shared._replace(
            adam_rate=rate * (gain_1 / gain_2**0.5),
            beta_1_power=tf.zeros([]),
            beta_2_power=tf.zeros([]),
            epsilon=tf.constant(self.epsilon / gain_2**0.5, tf.float32),
        )

    def _update(
        self, gradient: Gradient, index: int, variable: Any, scalars: Scalars
    ) -> None:
        if self._is_decayed(index):
            rate = self._rate(index, scalars.rate)
            decay = self._decay(index, scalars)
            decayed = rate * decay * replica_optimizer.read(variable)
            replica_optimizer.assign_sub(variable, decayed)
        rate = self._rate(index, scalars.adam_rate)
        self._apply_adam(gradient, index, variable, rate, scalars)

    def _moment_gains(self) -> tuple[float, float]:
        """Ratios of the original's moments to those stored here.

        The original rounds `1 - beta` to float32, the fused op subtracts the
        rounded beta: 0.001 against 0.00099998713 for 0.999. This makes its
        second moment 1.3e-5 smaller for ever, and weights miss the
        reference by as much as 2e-5. Being a constant factor, it is undone in
        the rate and in epsilon at no cost.
        """
        return _moment_gain(self.beta_1), _moment_gain(self.beta_2)


@keras.saving.register_keras_serializable("electra_tf")
class AddonsAdamW(replica_optimizer.ReplicaOptimizer):
    """AdamW exactly as in tensorflow-addons 0.23.0 (`tfa.optimizers.AdamW`).

    For update t, from 1:

        w = w - weight_decay * w
        w = w - rate * sqrt(1 - beta_2 ** t) / (1 - beta_1 ** t)
              * m / (sqrt(v) + epsilon)

    The decay is not multiplied by the learning rate, hence it takes a
    schedule of its own. Of a sparse gradient (`tf.IndexedSlices`) only the
    rows that occur are decayed, each once, while every row is updated. The
    arguments are those of `ReplicaOptimizer`.
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        *,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, epsilon=epsilon, **options)

    def _update(
        self, gradient: Gradient, index: int, variable: Any, scalars: Scalars
    ) -> None:
        if self._is_decayed(index):
            decayed = self._decay(index, scalars)
            decayed *= replica_optimizer.read(variable)
            if isinstance(gradient, tf.IndexedSlices):
                decayed *= _row_mask(gradient, decayed.shape)
            replica_optimizer.assign_sub(variable, decayed)
        rate = self._rate(index, scalars.adam_rate)
        self._apply_adam(gradient, index, variable, rate, scalars)


@keras.saving.register_keras_serializable("electra_tf")
class LAMB(replica_optimizer.ReplicaOptimizer):
    """LAMB exactly as in tensorflow-addons 0.23.0 (`tfa.optimizers.LAMB`).

    For update t, from 1:

        u = m / (1 - beta_1 ** t) / (sqrt(v / (1 - beta_2 ** t)) + epsilon)
            + weight_decay * w
        w = w - rate * |w| / |u| * u

    The ratio of the two Euclidean norms is 1 if one of them is 0, so that a
    variable that starts at 0 moves. It is also 1 for variables that match
    `exclude_from_layer_adaptation`; None takes the patterns of
    `exclude_from_weight_decay`, an empty list none (tensorflow-addons takes an
    empty list for None). The decay stands inside the trust ratio
    (https://arxiv.org/abs/1904.00962, algorithm 2).
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        *,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        if exclude_from_layer_adaptation is None:
            exclude_from_layer_adaptation = self.decay_exclusions
        self.adaptation_exclusions = tuple(exclude_from_layer_adaptation)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """As in the base class; also settles which variables are adapted."""
        super().build(variables)
        self.is_adapted = [
            not parameter_rules.matches_any(self.adaptation_exclusions, v.path)
            for v in variables
        ]

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain serializable values."""
        return {
            **super().get_config(),
            "exclude_from_layer_adaptation": list(self.adaptation_exclusions),
        }

    def _update(
        self, gradient: Gradient, index: int, variable: Any, scalars: Scalars
    ) -> None:
        # At rate 0 the fused operation only moves the two moments.
        self._apply_adam(gradient, index, variable, tf.zeros([]), scalars)
        value = replica_optimizer.read(variable)
        first = replica_optimizer.read(self.first_moments[index])
        second = replica_optimizer.read(self.second_moments[index])
        first /= 1.0 - scalars.beta_1_power
        second /= 1.0 - scalars.beta_2_power
        update = first / (tf.sqrt(second) + scalars.epsilon)
        if self._is_decayed(index):
            update += self._decay(index, scalars) * value
        rate = self._rate(index, scalars.rate)
        if self.is_adapted[index]:
            rate *= _trust_ratio(value, update)
        replica_optimizer.assign_sub(variable, rate * update)


def build(
    options: config.OptimizerConfig
    | finetuning_config.FinetuningOptimizerConfig,
    schedule: Schedule,
    **more: Any,
) -> replica_optimizer.ReplicaOptimizer:
    """The optimizer that a config names, with a schedule of its rate."""
    kinds = {"adam": AdamWeightDecay, "lamb": LAMB}
    return kinds[options.name](
        schedule,
        weight_decay=options.weight_decay_rate,
        beta_1=options.beta_1,
        beta_2=options.beta_2,
        epsilon=options.epsilon,
        exclude_from_weight_decay=parameter_rules.NO_DECAY_PATTERNS,
        # Keras would number it, and its variables in checkpoints with it.
        name=options.name,
        **more,
    )


def clip_by_global_norm(
    gradients: Sequence[Gradient], clip_norm: float
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Gradients scaled down to a joint norm of at most `clip_norm`.

    Returns dense float32 gradients, and their norm before clipping; 0 clips
    none. A norm that is not finite turns every clipped gradient into NaN. The
    rows of lookup gradients are summed first, so that the norm is the true
    one. (The original counts every occurrence of a row by itself.)
    """
    dense = [replica_optimizer.densify(gradient) for gradient in gradients]
    if clip_norm == 0:
        return dense, tf.linalg.global_norm(dense)
    return tf.clip_by_global_norm(dense, clip_norm)


def _moment_gain(beta: float) -> float:
    rounded_difference = float(np.float32(1.0 - beta))
    return rounded_difference / (1.0 - float(np.float32(beta)))


def _row_mask(gradient: tf.IndexedSlices, shape: tf.TensorShape) -> tf.Tensor:
    """Ones for the rows that occur in the gradient: `[rows, 1, ...]`."""
    occurrences = tf.math.unsorted_segment_sum(
        tf.ones_like(gradient.indices, tf.float32), gradient.indices, shape[0]
    )
    mask = tf.minimum(occurrences, 1.0)
    return tf.reshape(mask, [shape[0]] + [1] * (shape.rank - 1))


def _trust_ratio(value: tf.Tensor, update: tf.Tensor) -> tf.Tensor:
    """LAMB's |value| / |update|, or 1 where one of the norms is 0."""
    # Half the squared norms, one operation each; the halves cancel.
    value_square = tf.nn.l2_loss(value)
    update_square = tf.nn.l2_loss(update)
    is_defined = tf.logical_and(value_square > 0.0, update_square > 0.0)
    return tf.where(is_defined, tf.sqrt(value_square / update_square), 1.0)
