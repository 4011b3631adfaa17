"""ELECTRA 15%, the ablation of section 3.5 with a loss at masked positions."""

import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.modeling import layers
from electra_tf.objectives import electra


@layers.register
class Electra15(electra.Electra):
    """The discriminator learns from the masked positions only (section 3.5).

    The variant shows what ELECTRA gains from a loss over all tokens. Its loss
    is a mean over 15 % of the tokens, so with the same `disc_weight` each
    token counts about seven times as much as in `Electra`.
    """

    def main_weights(self, masked: masking.MaskedInputs) -> tf.Tensor:
        """Returns `[B, S]` float32 weights, 1 at the masked positions."""
        _, is_chosen = masking.scatter_update(
            masked.original_ids, masked.masked_ids, masked.masked_positions
        )
        return tf.cast(is_chosen, tf.float32)
