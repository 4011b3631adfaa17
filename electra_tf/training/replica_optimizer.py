"""A Keras optimizer whose update never leaves the replica.

`compile` and `fit` take it like any other. Our own training step calls
`apply_in_replica_context` instead: Keras' own path changes to the
cross-replica context (`merge_call`), and that is impossible inside a loop or
a condition under `tf.distribute`. For the same reason variables are written
with raw operations: `assign` of a mirrored variable would raise there. All
replicas write the same, as each computes it from reduced gradients.
"""

import abc
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf

from electra_tf.training import parameter_rules

Schedule: TypeAlias = keras.optimizers.schedules.LearningRateSchedule
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices
Rules: TypeAlias = Sequence[parameter_rules.Rule]


def handle(variable: Any) -> tf.Tensor:
    """The resource of this replica's copy of a TensorFlow or Keras variable."""
    if isinstance(variable, keras.Variable):
        variable = variable.value
    return variable.handle


def read(variable: Any) -> tf.Tensor:
    """The value of this replica's copy of a variable."""
    return tf.raw_ops.ReadVariableOp(
        resource=handle(variable), dtype=variable.dtype
    )


def assign(variable: Any, value: tf.Tensor) -> None:
    """Sets this replica's copy to `value`, cast to the variable's dtype."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignVariableOp(resource=handle(variable), value=value)


def assign_add(variable: Any, value: tf.Tensor | int) -> None:
    """Adds `value` to this replica's copy."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignAddVariableOp(resource=handle(variable), value=value)


def assign_sub(variable: Any, value: tf.Tensor) -> None:
    """Subtracts `value` from this replica's copy."""
    value = tf.cast(value, variable.dtype)
    tf.raw_ops.AssignSubVariableOp(resource=handle(variable), value=value)


class Scalars(NamedTuple):
    """The float32 scalars that all variables share in one update."""

    rate: tf.Tensor
    adam_rate: tf.Tensor  # the rate as the fused operation takes it
    decay: tf.Tensor
    beta_1: tf.Tensor
    beta_2: tf.Tensor
    beta_1_power: tf.Tensor  # to the number of this update, from 1;
    beta_2_power: tf.Tensor  # 0 for no bias correction
    epsilon: tf.Tensor


class ReplicaOptimizer(keras.optimizers.Optimizer, abc.ABC):
    """Two moments, a rate and a decay for each variable, all float32.

    For gradient g, with both moments 0 at first:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g ** 2

    Subclasses add the update of the variable w. Clipping is the training
    step's task (`clip_by_global_norm`).

    Args:
        learning_rate: number or schedule; update t, from 0, uses rate(t).
        weight_decay: number or schedule.
        exclude_from_weight_decay: regular expressions, searched anywhere in
            `variable.path`, of variables that are not decayed.
        learning_rate_multipliers: rules (see `parameter_rules`) for a factor
            on each variable's rate. None: 1 for all.
        weight_decay_multipliers: the same for each variable's decay. Both
            together replace `tfa.optimizers.MultiOptimizer`.
    """

    def __init__(
        self,
        learning_rate: float | Schedule = 0.001,
        *,
        weight_decay: float | Schedule = 0.0,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Sequence[str] | None = None,
        learning_rate_multipliers: Rules | None = None,
        weight_decay_multipliers: Rules | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name)
        if not (0 <= beta_1 < 1 and 0 <= beta_2 < 1 and epsilon > 0):
            raise ValueError(
                "`beta_1` and `beta_2` must be in [0, 1), `epsilon` above 0. "
                f"Received: {beta_1}, {beta_2}, {epsilon}."
            )
        is_schedule = callable(weight_decay)
        if weight_decay is None or not (is_schedule or weight_decay >= 0):
            raise ValueError(
                "`weight_decay` must be a number of at least 0 or a schedule. "
                f"Received: {weight_decay}."
            )
        # Not called `weight_decay`: under `fit` the Keras base class would
        # apply an attribute of that name a second time.
        self.decay = weight_decay
        self.beta_1, self.beta_2 = beta_1, beta_2
        self.epsilon = epsilon
        self.decay_exclusions = tuple(exclude_from_weight_decay or ())
        self.rate_rules = _as_rules(learning_rate_multipliers)
        self.decay_rules = _as_rules(weight_decay_multipliers)

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates two moments for each variable and looks up its factors.

        Call it with the trainable variables, in the order of the gradients,
        inside the scope of the strategy that they were made in.
        """
        if self.built:
            return
        for variable in variables:
            self._check_variable(variable)
        paths = [variable.path for variable in variables]
        self.rate_multipliers = parameter_rules.resolve_rules(
            self.rate_rules, paths, "learning rate"
        )
        exclusions = tuple((p, 0.0) for p in self.decay_exclusions)
        self.decay_multipliers = parameter_rules.resolve_rules(
            exclusions + self.decay_rules, paths, "weight decay"
        )
        super().build(list(variables))
        self.first_moments, self.second_moments = self.add_optimizer_variables(
            variables, ["adam_m", "adam_v"]
        )

    def apply_in_replica_context(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[keras.Variable] | None = None,
    ) -> tf.Tensor:
        """Updates variables once, within the calling replica; returns the rate.

        Nothing is communicated: every replica must pass the same gradients,
        reduced over all replicas. It may stand inside loops, conditions and
        XLA-compiled functions. `variables` are some of those given to `build`,
        None for all; the others keep values and moments.
        """
        chosen = self._trainable_variables if variables is None else variables
        scalars = self._scalars(_as_scalar(self.learning_rate))
        for gradient, variable in zip(gradients, chosen, strict=True):
            index = self._get_variable_index(variable)
            self._update(gradient, index, variable, scalars)
        assign_add(self._iterations, 1)
        return scalars.rate

    def update_step(
        self, gradient: Gradient, variable: Any, learning_rate: Any
    ) -> None:
        """Updates one variable; Keras' own loop calls this."""
        index = self._get_variable_index(variable)
        scalars = self._scalars(_as_scalar(learning_rate))
        self._update(gradient, index, variable, scalars)

    def exclude_from_weight_decay(
        self, var_list: Any = None, var_names: Any = None
    ) -> None:
        """Refuses Keras' way, which sees short names only: ValueError."""
        raise ValueError(
            "Expected the exclusions as the constructor's argument "
            "`exclude_from_weight_decay`, regular expressions over "
            f"`variable.path`. Received: {var_list=}, {var_names=}."
        )

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain serializable values."""
        base = super().get_config()
        decay = self.decay
        if callable(decay):
            decay = keras.saving.serialize_keras_object(decay)
        return {
            "name": base["name"],
            "learning_rate": base["learning_rate"],
            "weight_decay": decay,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "exclude_from_weight_decay": list(self.decay_exclusions),
            "learning_rate_multipliers": [list(r) for r in self.rate_rules],
            "weight_decay_multipliers": [list(r) for r in self.decay_rules],
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "ReplicaOptimizer":
        """The optimizer that `get_config` described."""
        config = dict(config)
        if isinstance(config["weight_decay"], dict):
            config["weight_decay"] = keras.saving.deserialize_keras_object(
                config["weight_decay"], custom_objects=custom_objects
            )
        return super().from_config(config, custom_objects=custom_objects)

    def _moment_gains(self) -> tuple[float, float]:
        """Factors from the stored moments to those of the formula."""
        return 1.0, 1.0

    def _scalars(self, rate: tf.Tensor) -> Scalars:
        """The shared values of the current update."""
        step = read(self._iterations)
        decay = self.decay(step) if callable(self.decay) else self.decay
        update_number = tf.cast(step + 1, tf.float32)
        return Scalars(
            rate=rate,
            adam_rate=rate,
            decay=tf.cast(decay, tf.float32),
            beta_1=tf.constant(self.beta_1, tf.float32),
            beta_2=tf.constant(self.beta_2, tf.float32),
            beta_1_power=tf.pow(self.beta_1, update_number),
            beta_2_power=tf.pow(self.beta_2, update_number),
            epsilon=tf.constant(self.epsilon, tf.float32),
        )

    @abc.abstractmethod
    def _update(
        self, gradient: Gradient, index: int, variable: Any, scalars: Scalars
    ) -> None:
        """Applies the formula to one variable and its moments."""

    def _apply_adam(
        self,
        gradient: Gradient,
        index: int,
        variable: Any,
        rate: tf.Tensor,
        scalars: Scalars,
    ) -> None:
        """Updates moments and variable by Adam's rule, one fused operation."""
        tf.raw_ops.ResourceApplyAdam(
            var=handle(variable),
            m=handle(self.first_moments[index]),
            v=handle(self.second_moments[index]),
            beta1_power=scalars.beta_1_power,
            beta2_power=scalars.beta_2_power,
            lr=rate,
            beta1=scalars.beta_1,
            beta2=scalars.beta_2,
            epsilon=scalars.epsilon,
            grad=densify(gradient),
        )

    def _is_decayed(self, index: int) -> bool:
        return self.decay_multipliers[index] != 0.0 and self.decay != 0.0

    def _rate(self, index: int, rate: tf.Tensor) -> tf.Tensor:
        # No operation where it is the value itself.
        factor = self.rate_multipliers[index]
        return rate if factor == 1.0 else rate * factor

    def _decay(self, index: int, scalars: Scalars) -> tf.Tensor:
        factor = self.decay_multipliers[index]
        return scalars.decay if factor == 1.0 else scalars.decay * factor

    def _check_variable(self, variable: keras.Variable) -> None:
        if variable.dtype != "float32":
            raise ValueError(
                f"Expected float32 variables. Received: {variable.path} of "
                f"{variable.dtype}. Use a mixed precision policy, which "
                "computes in 16 bits and keeps the variables in float32."
            )


def densify(gradient: Gradient) -> tf.Tensor:
    """The gradient as one dense float32 tensor; rows named twice are summed."""
    return tf.cast(tf.convert_to_tensor(gradient), tf.float32)


def _as_scalar(value: Any) -> tf.Tensor:
    """A learning rate of any kind as a float32 tensor."""
    value = read(value) if isinstance(value, keras.Variable) else value
    return tf.cast(value, tf.float32)


def _as_rules(rules: Rules | None) -> tuple[parameter_rules.Rule, ...]:
    given = parameter_rules.ALL_ONE if rules is None else rules
    return tuple((pattern, value) for pattern, value in given)
