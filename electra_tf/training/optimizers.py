"""The optimizers: the original's Adam, tensorflow-addons' AdamW, and LAMB.

Each class is its formula; what they share (moments, rules by variable, the
update inside a replica) is in `replica_optimizer.py`. All are float32.
"""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training import replica_variables
from electra_tf.training.parameter_rules import NO_DECAY_PATTERNS
from electra_tf.training.parameter_rules import Rule
from electra_tf.training.parameter_rules import matches_any
from electra_tf.training.replica_optimizer import Gradient
from electra_tf.training.replica_optimizer import ReplicaOptimizer
from electra_tf.training.replica_optimizer import Scalars
from electra_tf.training.replica_optimizer import Schedule
from electra_tf.training.replica_optimizer import densify
from electra_tf.training.replica_optimizer import read
from electra_tf.training.replica_optimizer import scale


@keras.saving.register_keras_serializable("electra_tf")
class AdamWeightDecay(ReplicaOptimizer):
    """The original's optimizer (`model/optimization.py`).

    For gradient g, variable w and moments m and v, both 0 at first:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g ** 2
        w = w - rate * (m / (sqrt(v) + epsilon) + weight_decay * w)

    Departures from Adam and AdamW as usually given: no bias correction,
    epsilon stands outside the root and is 1e-6, LayerNorm and biases are not
    decayed. Clipping is the training step's task (`clip_by_global_norm`).

    Args:
        learning_rate: float or schedule; update t, from 0, uses rate(t).
        weight_decay: decay rate; it is multiplied by the learning rate.
        beta_1: decay of the first moment, in [0, 1).
        beta_2: decay of the second moment, in [0, 1).
        epsilon: added to the root of the second moment.
        exclude_from_weight_decay: regular expressions, searched anywhere in
            `variable.path`, of variables that are not decayed. None: none.
        learning_rate_multipliers: rules (see `parameter_rules`) for a factor on
            each variable's rate. None: 1 for all.
        weight_decay_multipliers: rules for a factor on each variable's decay.
        name: of the optimizer.

    Raises:
        ValueError: if a number is out of its range.
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 5e-4,
        *,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Sequence[str] | None = NO_DECAY_PATTERNS,
        learning_rate_multipliers: Sequence[Rule] | None = None,
        weight_decay_multipliers: Sequence[Rule] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            weight_decay,
            (beta_1, beta_2),
            epsilon,
            exclude_from_weight_decay,
            learning_rate_multipliers,
            weight_decay_multipliers,
            name,
        )

    def _scalars(self, rate: tf.Tensor) -> Scalars:
        gain_1, gain_2 = self._moment_gains()
        return (
            super()
            ._scalars(rate)
            ._replace(
                adam_rate=rate * (gain_1 / gain_2**0.5),
                beta_1_power=tf.zeros([]),
                beta_2_power=tf.zeros([]),
                epsilon=tf.constant(self.epsilon / gain_2**0.5, tf.float32),
            )
        )

    def _update(
        self,
        gradient: Gradient,
        index: int,
        variable: Any,
        scalars: Scalars,
    ) -> None:
        if self._is_decayed(index):
            rate = scale(scalars.rate, self.rate_multipliers[index])
            decay = scale(scalars.decay, self.decay_multipliers[index])
            decayed = rate * decay * read(variable)
            replica_variables.assign_sub(variable, decayed)
        rate = scale(scalars.adam_rate, self.rate_multipliers[index])
        self._apply_adam(densify(gradient), index, variable, rate, scalars)

    def _moment_gains(self) -> tuple[float, float]:
        """How much larger the original's moments are than those stored here.

        The original rounds `1 - beta` to float32, the fused op subtracts the
        rounded beta: 0.001 against 0.00099998713 for 0.999. This makes its
        second moment 1.3e-5 smaller for ever, and weights miss the
        reference by as much as 2e-5. Being a constant factor, it is undone in
        the rate and in epsilon at no cost.
        """
        return _moment_gain(self.beta_1), _moment_gain(self.beta_2)


@keras.saving.register_keras_serializable("electra_tf")
class AddonsAdamW(ReplicaOptimizer):
    """AdamW exactly as in tensorflow-addons 0.23.0 (`tfa.optimizers.AdamW`).

    For update t, from 1, and moments as in `AdamWeightDecay`:

        w = w - weight_decay * w
        w = w - rate * sqrt(1 - beta_2 ** t) / (1 - beta_1 ** t)
              * m / (sqrt(v) + epsilon)

    The decay is not multiplied by the learning rate, hence it takes a
    schedule of its own. Of a sparse gradient (`tf.IndexedSlices`) only the
    rows that occur are decayed, each once, while every row is updated.

    Args:
        learning_rate: float or schedule; update t, from 0, uses rate(t).
        weight_decay: float or schedule, evaluated like the rate.
        beta_1: decay of the first moment, in [0, 1).
        beta_2: decay of the second moment, in [0, 1).
        epsilon: added to the root of the second moment.
        exclude_from_weight_decay: regular expressions, searched anywhere in
            `variable.path`, of variables that are not decayed. None: none.
        learning_rate_multipliers: rules (see `parameter_rules`) for a factor on
            each variable's rate. None: 1 for all.
        weight_decay_multipliers: rules for a factor on each variable's decay.
            Both together replace `tfa.optimizers.MultiOptimizer`.
        name: of the optimizer.

    Raises:
        ValueError: if a number is out of its range.
    """

    _takes_decay_schedule = True

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        *,
        weight_decay: float | Schedule = 0.0,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        exclude_from_weight_decay: Sequence[str] | None = None,
        learning_rate_multipliers: Sequence[Rule] | None = None,
        weight_decay_multipliers: Sequence[Rule] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            weight_decay,
            (beta_1, beta_2),
            epsilon,
            exclude_from_weight_decay,
            learning_rate_multipliers,
            weight_decay_multipliers,
            name,
        )

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain serializable values."""
        config = super().get_config()
        if callable(self.decay):
            config["weight_decay"] = keras.saving.serialize_keras_object(
                self.decay
            )
        return config

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "AddonsAdamW":
        """The optimizer that `get_config` described."""
        config = dict(config)
        if isinstance(config["weight_decay"], dict):
            config["weight_decay"] = keras.saving.deserialize_keras_object(
                config["weight_decay"], custom_objects=custom_objects
            )
        return super().from_config(config, custom_objects=custom_objects)

    def _update(
        self,
        gradient: Gradient,
        index: int,
        variable: Any,
        scalars: Scalars,
    ) -> None:
        if self._is_decayed(index):
            decay = scale(scalars.decay, self.decay_multipliers[index])
            decayed = decay * read(variable)
            if isinstance(gradient, tf.IndexedSlices):
                decayed *= _row_mask(gradient, decayed.shape)
            replica_variables.assign_sub(variable, decayed)
        rate = scale(scalars.adam_rate, self.rate_multipliers[index])
        self._apply_adam(densify(gradient), index, variable, rate, scalars)


@keras.saving.register_keras_serializable("electra_tf")
class LAMB(ReplicaOptimizer):
    """LAMB exactly as in tensorflow-addons 0.23.0 (`tfa.optimizers.LAMB`).

    For update t, from 1, and moments as in `AdamWeightDecay`:

        u = m / (1 - beta_1 ** t) / (sqrt(v / (1 - beta_2 ** t)) + epsilon)
            + weight_decay * w
        w = w - rate * |w| / |u| * u

    where the ratio of the two Euclidean norms is 1 if one of them is 0, so
    that a variable that starts at 0 moves. The decay stands inside the trust
    ratio (https://arxiv.org/abs/1904.00962, algorithm 2).

    Args:
        learning_rate: float or schedule; update t, from 0, uses rate(t).
        weight_decay: decay rate, part of the update that is rescaled.
        beta_1: decay of the first moment, in [0, 1).
        beta_2: decay of the second moment, in [0, 1).
        epsilon: added to the root of the second moment.
        exclude_from_weight_decay: regular expressions, searched anywhere in
            `variable.path`, of variables that are not decayed. None: none.
        exclude_from_layer_adaptation: the same for variables whose ratio is
            always 1. None: those of `exclude_from_weight_decay`; an empty list:
            none (tensorflow-addons takes an empty list for None).
        learning_rate_multipliers: rules (see `parameter_rules`) for a factor on
            each variable's rate. None: 1 for all.
        weight_decay_multipliers: rules for a factor on each variable's decay.
        name: of the optimizer.

    Raises:
        ValueError: if a number is out of its range.
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        *,
        weight_decay: float = 0.0,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Sequence[str] | None = None,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        learning_rate_multipliers: Sequence[Rule] | None = None,
        weight_decay_multipliers: Sequence[Rule] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            learning_rate,
            weight_decay,
            (beta_1, beta_2),
            epsilon,
            exclude_from_weight_decay,
            learning_rate_multipliers,
            weight_decay_multipliers,
            name,
        )
        if exclude_from_layer_adaptation is None:
            exclude_from_layer_adaptation = self.decay_exclusions
        self.adaptation_exclusions = tuple(exclude_from_layer_adaptation)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """As in the base class; also settles which variables are adapted."""
        super().build(variables)
        self.is_adapted = tuple(
            not matches_any(self.adaptation_exclusions, variable.path)
            for variable in variables
        )

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain serializable values."""
        return {
            **super().get_config(),
            "exclude_from_layer_adaptation": list(self.adaptation_exclusions),
        }

    def _table_columns(self) -> dict[str, Sequence[object]]:
        return {**super()._table_columns(), "adapted": self.is_adapted}

    def _update(
        self,
        gradient: Gradient,
        index: int,
        variable: Any,
        scalars: Scalars,
    ) -> None:
        # At rate 0 the fused operation only moves the two moments.
        zero = tf.zeros([])
        self._apply_adam(densify(gradient), index, variable, zero, scalars)
        value = read(variable)
        first = read(self.first_moments[index])
        second = read(self.second_moments[index])
        first /= 1.0 - scalars.beta_1_power
        second /= 1.0 - scalars.beta_2_power
        update = first / (tf.sqrt(second) + scalars.epsilon)
        if self._is_decayed(index):
            decay = scale(scalars.decay, self.decay_multipliers[index])
            update += decay * value
        rate = scale(scalars.rate, self.rate_multipliers[index])
        if self.is_adapted[index]:
            rate *= _trust_ratio(value, update)
        replica_variables.assign_sub(variable, rate * update)


def clip_by_global_norm(
    gradients: Sequence[Gradient], clip_norm: float
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Gradients scaled down to a joint norm of at most `clip_norm`.

    The rows of lookup gradients are summed first, so that the norm is the
    true one. (The original's is slightly off for tables that are only looked
    up, as it counts every occurrence of a row by itself.)

    Args:
        gradients: tensors or `tf.IndexedSlices`, of any floating dtype.
        clip_norm: the largest norm let through; 0 lets every norm through.

    Returns:
        The dense float32 gradients, and their norm before clipping (a scalar).
        A norm that is not finite turns every clipped gradient into NaN.

    Raises:
        ValueError: if `clip_norm` is negative.
    """
    if not clip_norm >= 0:
        raise ValueError(
            f"`clip_norm` must be at least 0. Received: {clip_norm}."
        )
    dense = [densify(gradient) for gradient in gradients]
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
