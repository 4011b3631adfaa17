"""The original's Adam (paper, appendix A), and AdamW and LAMB as in TF Addons.

Every replica updates its own copies of variables. Keras' optimizers change to
the cross-replica context (`merge_call`), which is impossible inside a loop or a
condition under `tf.distribute`. `fit` accepts these optimizers as well.
"""

import abc
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config
from electra_tf.modeling import layers
from electra_tf.training import schedules
from electra_tf.training import step_state

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices

NO_DECAY_PATTERNS = ("LayerNorm", "layer_norm", "bias")
"""Variables whose path contains one have no weight decay (original)."""


class Scalars(NamedTuple):
    """Float32 scalars of one update, the same for all variables."""

    rate: tf.Tensor
    decay: tf.Tensor
    adam: dict[str, tf.Tensor]  # arguments of the fused operation


class ReplicaOptimizer(keras.optimizers.Optimizer, abc.ABC):
    """Two float32 moments of each variable, with learning rate and decay.

    For gradient g, with both moments 0 at first:

        m = beta_1 * m + (1 - beta_1) * g
        v = beta_2 * v + (1 - beta_2) * g ** 2

    Subclasses define the update of the variable w. The training step clips the
    gradients.

    Args:
        learning_rate: a number or schedule; update t, from 0, uses rate(t).
        weight_decay: a number or schedule.
        exclude_from_weight_decay: regular expressions that are searched in
            `variable.path`; variables that match are not decayed.
        learning_rate_multipliers: pairs of a regular expression and a factor.
            The first pair that matches a variable's path multiplies its rate.
        weight_decay_multipliers: such pairs for the decay. Together they
            replace `tfa.optimizers.MultiOptimizer`.
    """

    def __init__(
        self,
        learning_rate: float | schedules.Schedule = 0.001,
        *,
        weight_decay: float | schedules.Schedule = 0.0,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Sequence[str] | None = None,
        learning_rate_multipliers: Sequence[schedules.Rule] | None = None,
        weight_decay_multipliers: Sequence[schedules.Rule] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name)
        if (
            not (0 <= beta_1 < 1 and 0 <= beta_2 < 1 and epsilon > 0)
            or weight_decay is None
            or not (callable(weight_decay) or weight_decay >= 0)
        ):
            raise ValueError(
                "`beta_1` and `beta_2` must be in [0, 1), `epsilon` above 0, "
                "`weight_decay` a number of at least 0 or a schedule. "
                f"Received: {beta_1}, {beta_2}, {epsilon}, {weight_decay}."
            )
        # Under `fit`, Keras would apply an attribute `weight_decay` once more.
        self.decay = weight_decay
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.decay_exclusions = list(exclude_from_weight_decay or ())
        self.rate_rules = [*(learning_rate_multipliers or [(".*", 1.0)])]
        self.decay_rules = [*(weight_decay_multipliers or [(".*", 1.0)])]

    def build(self, variables: Sequence[keras.Variable]) -> None:
        """Creates the moments, in the scope of the variables' strategy."""
        if self.built:
            return
        if wrong := [v for v in variables if v.dtype != "float32"]:
            raise ValueError(
                f"Expected float32 variables. Received: {wrong[0].path} of "
                f"{wrong[0].dtype}. Use a mixed precision policy, which "
                "computes in 16 bits and keeps variables in float32."
            )
        paths, resolve = [v.path for v in variables], schedules.resolve_rules
        self.rate_multipliers = resolve(self.rate_rules, paths, "learning rate")
        rules = [(pattern, 0.0) for pattern in self.decay_exclusions]
        rules += self.decay_rules
        self.decay_multipliers = resolve(rules, paths, "weight decay")
        # For weights, gradients and both moments.
        layers.require_memory(4 * sum(math.prod(v.shape) for v in variables))
        super().build(list(variables))
        self.first_moments, self.second_moments = self.add_optimizer_variables(
            variables, ["adam_m", "adam_v"]
        )

    def apply_in_replica_context(
        self,
        gradients: Sequence[Gradient],
        variables: Sequence[keras.Variable] | None = None,
    ) -> tf.Tensor:
        """Updates variables in a replica context and returns the rate.

        Every replica must pass the same gradients, reduced over all replicas.
        Without `variables` all are updated.
        """
        if variables is None:
            variables = self._trainable_variables
        now = self._scalars(self.learning_rate)
        for gradient, variable in zip(gradients, variables, strict=True):
            self._update(gradient, variable, now)
        step_state.assign_add(self._iterations, 1)
        return now.rate

    def update_step(
        self, gradient: Gradient, variable: Any, learning_rate: Any
    ) -> None:
        """Updates one variable; Keras' own loop calls this."""
        self._update(gradient, variable, self._scalars(learning_rate))

    def exclude_from_weight_decay(self, *variables: Any, **names: Any) -> None:
        """Raises `ValueError`; Keras would match names, not paths."""
        raise ValueError(
            "Expected the exclusions as the constructor's argument "
            "`exclude_from_weight_decay`, regular expressions over "
            f"`variable.path`. Received: {variables or names}."
        )

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, for JSON."""
        base = super().get_config()
        return {
            "name": base["name"],
            "learning_rate": base["learning_rate"],
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "epsilon": self.epsilon,
            "weight_decay": keras.saving.serialize_keras_object(self.decay),
            "exclude_from_weight_decay": self.decay_exclusions,
            "learning_rate_multipliers": [list(r) for r in self.rate_rules],
            "weight_decay_multipliers": [list(r) for r in self.decay_rules],
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: Any = None
    ) -> "ReplicaOptimizer":
        """Builds the optimizer that `get_config` described."""
        decay = keras.saving.deserialize_keras_object(
            config["weight_decay"], custom_objects=custom_objects
        )
        config = config | {"weight_decay": decay}
        return super().from_config(config, custom_objects=custom_objects)

    def _moment_gains(self) -> Sequence[float]:
        """Returns factors that turn the stored moments into exact ones."""
        return 1.0, 1.0

    def _scalars(self, rate: Any) -> Scalars:
        if isinstance(rate, keras.Variable):
            rate = step_state.read_copy(rate)
        rate = tf.cast(rate, tf.float32)
        step = step_state.read_copy(self._iterations)
        decay = self.decay(step) if callable(self.decay) else self.decay
        update_number = tf.cast(step + 1, tf.float32)
        adam = {
            "lr": rate,
            "beta1": tf.constant(self.beta_1, tf.float32),
            "beta2": tf.constant(self.beta_2, tf.float32),
            "beta1_power": tf.pow(self.beta_1, update_number),
            "beta2_power": tf.pow(self.beta_2, update_number),
            "epsilon": tf.constant(self.epsilon, tf.float32),
        }
        return Scalars(rate, tf.cast(decay, tf.float32), adam)

    @abc.abstractmethod
    def _update(self, gradient: Gradient, variable: Any, now: Scalars) -> None:
        """Applies the formula to one variable and its moments."""

    def _apply_adam(
        self, gradient: Gradient, variable: Any, adam: dict[str, tf.Tensor]
    ) -> None:
        index = self._get_variable_index(variable)
        rate = {"lr": self._scale(adam["lr"], variable)}
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self.first_moments[index].handle,
            v=self.second_moments[index].handle,
            grad=densify(gradient),
            **adam | rate,
        )

    def _scale(self, rate: tf.Tensor, variable: Any) -> tf.Tensor:
        factor = self.rate_multipliers[self._get_variable_index(variable)]
        return rate if factor == 1.0 else rate * factor

    def _decay_of(self, variable: Any, now: Scalars) -> tf.Tensor | None:
        factor = self.decay_multipliers[self._get_variable_index(variable)]
        if factor == 0.0 or self.decay == 0.0:
            return None
        return now.decay if factor == 1.0 else now.decay * factor


@keras.saving.register_keras_serializable("electra_tf")
class AdamWeightDecay(ReplicaOptimizer):
    """The original's optimizer (`model/optimization.py`).

        w = w - rate * (m / (sqrt(v) + epsilon) + weight_decay * w)

    Unlike AdamW it has no bias correction, an epsilon of 1e-6 outside the root,
    and no decay of LayerNorm and biases. `ReplicaOptimizer` explains the
    arguments.
    """

    def __init__(
        self,
        learning_rate: float | schedules.Schedule = 5e-4,
        *,
        weight_decay: float | schedules.Schedule = 0.01,
        exclude_from_weight_decay: Sequence[str] | None = NO_DECAY_PATTERNS,
        **options: Any,
    ) -> None:
        super().__init__(
            learning_rate,
            weight_decay=weight_decay,
            exclude_from_weight_decay=exclude_from_weight_decay,
            **options,
        )

    def _scalars(self, rate: Any) -> Scalars:
        gain_1, gain_2 = self._moment_gains()
        shared = super()._scalars(rate)
        adam = shared.adam | {
            "lr": shared.rate * (gain_1 / gain_2**0.5),
            "beta1_power": tf.zeros([]),
            "beta2_power": tf.zeros([]),
            "epsilon": tf.constant(self.epsilon / gain_2**0.5, tf.float32),
        }
        return shared._replace(adam=adam)

    def _update(self, gradient: Gradient, variable: Any, now: Scalars) -> None:
        decay = self._decay_of(variable, now)
        if decay is not None:
            decay = self._scale(now.rate, variable) * decay
            decayed = decay * step_state.read_copy(variable)
            step_state.assign_sub(variable, decayed)
        self._apply_adam(gradient, variable, now.adam)

    def _moment_gains(self) -> list[float]:
        # The original rounds `1 - beta` to float32 (0.001 for 0.999); the fused
        # operation subtracts the rounded beta (0.00099998713). That scales the
        # second moment by 1 - 1.3e-5 and changes weights by up to 2e-5, so rate
        # and epsilon make up for it.
        return [
            float(np.float32(1.0 - beta)) / (1.0 - float(np.float32(beta)))
            for beta in (self.beta_1, self.beta_2)
        ]


@keras.saving.register_keras_serializable("electra_tf")
class AddonsAdamW(ReplicaOptimizer):
    """AdamW exactly as in tensorflow-addons 0.23.0 (`tfa.optimizers.AdamW`).

    For update t, counted from 1:

        w = w - weight_decay * w
        w = w - rate * sqrt(1 - beta_2 ** t) / (1 - beta_1 ** t)
              * m / (sqrt(v) + epsilon)

    The decay is not multiplied by the learning rate and can have a schedule. A
    sparse gradient (`tf.IndexedSlices`) updates all rows of a variable, but
    only the rows in it are decayed. `ReplicaOptimizer` explains the arguments.
    """

    def __init__(
        self,
        learning_rate: float | schedules.Schedule = 0.001,
        *,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, epsilon=epsilon, **options)

    def _update(self, gradient: Gradient, variable: Any, now: Scalars) -> None:
        decay = self._decay_of(variable, now)
        if decay is not None:
            decayed = decay * step_state.read_copy(variable)
            if isinstance(gradient, tf.IndexedSlices):
                # 1 for rows in the gradient, else 0: `[num_rows, 1, ...]`.
                rows, shape = gradient.indices, decayed.shape
                ones = tf.ones_like(rows, tf.float32)
                count = tf.math.unsorted_segment_sum(ones, rows, shape[0])
                others = [1] * (shape.rank - 1)
                decayed *= tf.reshape(tf.minimum(count, 1.0), [-1, *others])
            step_state.assign_sub(variable, decayed)
        self._apply_adam(gradient, variable, now.adam)


@keras.saving.register_keras_serializable("electra_tf")
class LAMB(ReplicaOptimizer):
    """LAMB exactly as in tensorflow-addons 0.23.0 (`tfa.optimizers.LAMB`).

    For update t, counted from 1:

        u = m / (1 - beta_1 ** t) / (sqrt(v / (1 - beta_2 ** t)) + epsilon)
            + weight_decay * w
        w = w - rate * |w| / |u| * u

    The ratio |w| / |u| of Euclidean norms is replaced by 1 if a norm is 0, so
    that variables that are 0 change, and for variables that match
    `exclude_from_layer_adaptation`. If that is None (or, in tensorflow-addons,
    empty), it is `exclude_from_weight_decay`. The decay is part of u, as in
    https://arxiv.org/abs/1904.00962, algorithm 2; in Keras' `Lamb` it is not.
    """

    def __init__(
        self,
        learning_rate: float | schedules.Schedule = 0.001,
        *,
        exclude_from_layer_adaptation: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        if exclude_from_layer_adaptation is None:
            exclude_from_layer_adaptation = self.decay_exclusions
        self.adaptation_exclusions = list(exclude_from_layer_adaptation)

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments, for JSON."""
        return super().get_config() | {
            "exclude_from_layer_adaptation": self.adaptation_exclusions
        }

    def _update(self, gradient: Gradient, variable: Any, now: Scalars) -> None:
        # At rate 0 the fused operation updates the moments alone.
        self._apply_adam(gradient, variable, now.adam | {"lr": tf.zeros([])})
        index = self._get_variable_index(variable)
        value = step_state.read_copy(variable)
        first = step_state.read_copy(self.first_moments[index])
        second = step_state.read_copy(self.second_moments[index])
        first /= 1.0 - now.adam["beta1_power"]
        second /= 1.0 - now.adam["beta2_power"]
        update = first / (tf.sqrt(second) + now.adam["epsilon"])
        decay = self._decay_of(variable, now)
        if decay is not None:
            update += decay * value
        rate = self._scale(now.rate, variable)
        # Under `fit` with replicas `variable` has no path.
        path = self._trainable_variables[index].path
        if not any(re.search(key, path) for key in self.adaptation_exclusions):
            # `l2_loss` is half a squared norm; the halves cancel.
            top, bottom = tf.nn.l2_loss(value), tf.nn.l2_loss(update)
            is_defined = tf.logical_and(top > 0.0, bottom > 0.0)
            rate *= tf.where(is_defined, tf.sqrt(top / bottom), 1.0)
        step_state.assign_sub(variable, rate * update)


def build(
    options: config.OptimizerConfig
    | finetuning_config.FinetuningOptimizerConfig,
    schedule: schedules.Schedule,
    **more: Any,
) -> ReplicaOptimizer:
    """Builds the optimizer of a config with a learning-rate schedule."""
    kinds: dict[str, Any] = {
        "adam": AdamWeightDecay,
        "addons_adamw": AddonsAdamW,
        "lamb": LAMB,
    }
    return kinds[options.name](
        schedule,
        weight_decay=options.weight_decay_rate,
        beta_1=options.beta_1,
        beta_2=options.beta_2,
        epsilon=options.epsilon,
        exclude_from_weight_decay=NO_DECAY_PATTERNS,
        # Keras would number the name, also in the paths of checkpoints.
        name=options.name,
        **more,
    )


def clip_by_global_norm(
    gradients: Sequence[Gradient], clip_norm: float
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Clips gradients to a joint norm of `clip_norm`; 0 does not clip.

    Returns dense float32 gradients and their norm before clipping. If the norm
    is not finite, all clipped gradients are NaN. Repeated rows of a sparse
    gradient are summed first; the original sums their squares.
    """
    dense = [densify(gradient) for gradient in gradients]
    # Most variables are vectors, which need one sum of squares together.
    vectors = [g for g in dense if g.shape.rank == 1]
    others = [g for g in dense if g.shape.rank != 1]
    norm = tf.linalg.global_norm([*others, tf.concat([*vectors, []], 0)])
    if clip_norm == 0:
        return dense, norm
    return tf.clip_by_global_norm(dense, clip_norm, norm)


def densify(gradient: Gradient) -> tf.Tensor:
    """Turns a gradient into a dense float32 tensor; sums repeated rows."""
    return tf.cast(tf.convert_to_tensor(gradient), tf.float32)
