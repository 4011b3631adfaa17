"""Dynamic loss scaling for float16.

Small gradients vanish in float16; the loss is multiplied before the backward
pass and the gradients are divided after it. A step whose gradients are not
finite is skipped and halves the factor; a long run of good ones doubles it.
"""

import tensorflow as tf

from electra_tf.training import replica_variables


class LossScale(tf.Module):
    """The factor and the count of good steps since it last changed.

    Args:
        initial: first factor.
        growth_steps: good steps after which the factor doubles.
    """

    def __init__(
        self, initial: float = 2.0**15, growth_steps: int = 2000
    ) -> None:
        super().__init__(name="loss_scale")
        self.growth_steps = growth_steps
        self.value = tf.Variable(initial, trainable=False, name="value")
        self.num_good_steps = tf.Variable(
            0, trainable=False, dtype=tf.int32, name="num_good_steps"
        )

    def update(self, is_finite: tf.Tensor) -> None:
        """Adapts the factor after a step; chosen by `tf.where`, no branch.

        Args:
            is_finite: scalar bool, whether the step's gradients were finite.
        """
        good = tf.where(is_finite, self.num_good_steps + 1, 0)
        grows = good >= self.growth_steps
        value = tf.convert_to_tensor(self.value)
        smaller = tf.maximum(value / 2.0, 1.0)
        larger = tf.where(grows, value * 2.0, value)
        replica_variables.assign(
            self.value, tf.where(is_finite, larger, smaller)
        )
        replica_variables.assign(self.num_good_steps, tf.where(grows, 0, good))

    def by_name(self) -> dict[str, tf.Variable]:
        """What a checkpoint holds of it."""
        return {"value": self.value, "num_good_steps": self.num_good_steps}
