"""ELECTRA 15%: the discriminator learns from the masked positions alone."""

import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.modeling import layers
from electra_tf.objectives import electra


@layers.register
class Electra15(electra.Electra):
    """The discriminator learns from the masked positions only (section 3.5).

    Asks whether ELECTRA gains from being defined over all tokens. `disc_weight`
    weighs a mean over the 15 % of the tokens that were masked for the
    generator: each counts about seven times as much as in `Electra`.
    """

    def main_weights(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """`[B, S]` float32, 1 at the masked-out positions."""
        _, is_chosen = masking.scatter_update(
            masked.original_ids, masked.masked_ids, masked.masked_positions
        )
        return tf.cast(is_chosen, tf.float32)
