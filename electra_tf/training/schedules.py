"""Learning-rate schedules (paper, appendix A), and multipliers of variables."""

import math
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

Schedule: TypeAlias = keras.optimizers.schedules.LearningRateSchedule

Rule: TypeAlias = tuple[str, float]
"""A regular expression, and the number of variables whose path contains it."""


@keras.saving.register_keras_serializable("electra_tf")
class PolynomialDecayTimesWarmup(Schedule):
    """The original's schedule: polynomial decay *times* linear warm-up.

    For update t, counted from 0, with N steps and W warm-up steps:

        rate(t) = learning_rate * (1 - min(t, N) / N) ** power * min(1, t / W)
        W = max(num_warmup_steps, N * warmup_proportion)

    The decay begins with the first step, so no step has the full
    `learning_rate`, and with warm-up the first update has rate 0
    (`create_optimizer` in the original's `model/optimization.py`). W is not
    rounded. With W = 0 the last factor is 1; the original computes NaN.

    >>> schedule = PolynomialDecayTimesWarmup(1.0, 10, num_warmup_steps=5)
    >>> [round(float(schedule(step)), 2) for step in (0, 1, 5, 10)]
    [0.0, 0.18, 0.5, 0.0]
    """

    def __init__(
        self,
        learning_rate: float,
        num_steps: int,
        num_warmup_steps: float = 0,
        warmup_proportion: float = 0.0,
        power: float = 1.0,
    ) -> None:
        super().__init__()
        self.learning_rate, self.num_steps = learning_rate, num_steps
        self.num_warmup_steps = num_warmup_steps
        self.warmup_proportion, self.power = warmup_proportion, power
        if not (
            0 <= learning_rate < math.inf
            and num_steps >= 1
            and num_warmup_steps >= 0
            and 0 <= warmup_proportion <= 1
            and power > 0
        ):
            raise ValueError(
                "`learning_rate` and `num_warmup_steps` must be at least 0, "
                "`num_steps` at least 1, `warmup_proportion` in [0, 1] and "
                f"`power` above 0. Received: {self.get_config()}."
            )

    def __call__(self, step: Any) -> tf.Tensor:
        """Computes the rate of update `step`, scalar float32."""
        step = tf.cast(step, tf.float32)
        # `1 - step / num_steps` would lose digits near the end.
        total = float(self.num_steps)
        decay = tf.maximum(total - step, 0.0) / total
        if self.power != 1.0:
            decay = tf.pow(decay, self.power)
        rate = self.learning_rate * decay
        warmup = max(self.num_warmup_steps, total * self.warmup_proportion)
        if warmup > 0:
            rate *= tf.minimum(1.0, step / warmup)
        return rate

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return dict(vars(self))


@keras.saving.register_keras_serializable("electra_tf")
class Restarted(Schedule):
    """Follows several schedules in turn; each counts its steps from 0."""

    def __init__(
        self, schedules: Sequence[Schedule], starts: Sequence[int]
    ) -> None:
        super().__init__()
        self.schedules = list(schedules)
        self.starts = list(starts)

    def __call__(self, step: Any) -> tf.Tensor:
        """Computes the rate of update `step`, scalar float32."""
        step = tf.cast(step, tf.int64)
        rate = tf.constant(0.0)
        for schedule, start in zip(self.schedules, self.starts, strict=True):
            rate = tf.where(step >= start, schedule(step - start), rate)
        return rate

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments."""
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "Restarted":
        """Rebuilds the schedule from `get_config` as Keras serialized it."""
        build = keras.saving.deserialize_keras_object
        return cls([*map(build, config["schedules"])], config["starts"])


def constant_or_linear(
    first: float, last: float, num_steps: int, step: Any
) -> Any:
    """Interpolates from `first` at step 0 to `last` at `num_steps` and later.

    The value is always `first` if `num_steps` is 0.

    >>> [float(constant_or_linear(2.0, 1.0, 4, step)) for step in (0, 1, 4, 9)]
    [2.0, 1.75, 1.0, 1.0]
    """
    if not num_steps:
        return first
    share = tf.minimum(tf.cast(step, tf.float32) / num_steps, 1.0)
    return first + (last - first) * share


def resolve_rules(
    rules: Sequence[Rule], paths: Sequence[str], meaning: str
) -> list[float]:
    """Returns each path's number, from the first rule that matches the path.

    A path that no rule matches raises a `ValueError`, which names the numbers
    by `meaning`.

    >>> rules = (("bias", 0.0), (".*", 1.0))
    >>> resolve_rules(rules, ["dense/kernel", "dense/bias"], "weight decay")
    [1.0, 0.0]
    """
    found = [[n for key, n in rules if re.search(key, path)] for path in paths]
    unmatched = [p for p, ns in zip(paths, found, strict=True) if not ns]
    if unmatched:
        raise ValueError(
            f"Expected every variable to match a {meaning} rule. Received "
            f"{len(unmatched)} that match none: {unmatched}, rules: {rules}. "
            'Add a rule for them, or a last rule (".*", value).'
        )
    return [numbers[0] for numbers in found]


def layerwise_learning_rate_rules(
    layer_decay: float, num_layers: int, is_contiguous: bool = False
) -> tuple[Rule, ...]:
    """Returns multipliers that shrink towards the input (paper, appendix B).

    A variable at depth d gets `layer_decay ** (top - d)`. Embeddings and
    their projection have depth 0, encoder layer i has i + 1, the task head
    has `top`. In the original (`_get_layer_lrs`) `top` is `num_layers + 2`, so
    no variable has the exponent 1; `is_contiguous` makes it `num_layers + 1`.
    Other variables have no rule.
    """
    top = num_layers + (1 if is_contiguous else 2)
    depths = {"/embeddings/": 0, "/embeddings_project/": 0}
    depths |= {f"encoder/layer_{i}/": i + 1 for i in range(num_layers)}
    depths["task_specific/"] = top
    return tuple(
        (key, layer_decay ** (top - depth)) for key, depth in depths.items()
    )
