"""Dynamic loss scaling, for products in float16."""

import tensorflow as tf

from electra_tf.training import distribution


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
        """Adapts the factor after a step; chosen by `tf.where`, no branch."""
        good = tf.where(is_finite, self.num_good_steps + 1, 0)
        grows = good >= self.growth_steps
        smaller = tf.maximum(self.value / 2.0, 1.0)
        larger = self.value * tf.where(grows, 2.0, 1.0)
        distribution.assign(self.value, tf.where(is_finite, larger, smaller))
        distribution.assign(self.num_good_steps, tf.where(grows, 0, good))

    def by_name(self) -> dict[str, tf.Variable]:
        """The variables that a checkpoint holds."""
        return {"value": self.value, "num_good_steps": self.num_good_steps}
