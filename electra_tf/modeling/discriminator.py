"""The discriminator: encoder plus one logit per token."""

from typing import Any
from typing import NamedTuple

import tensorflow as tf

from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import heads
from electra_tf.modeling import layers

MAIN_ENCODER = "electra"
"""First part of the paths of the encoder that is kept."""


class DiscriminatorOutput(NamedTuple):
    """What the discriminator computes.

    Attributes:
        logits: `[B, S]` float32, high where a token looks replaced.
        encoder_output: its encoder's intermediates.
    """

    logits: tf.Tensor
    encoder_output: encoder_lib.EncoderOutput


@layers.register
class Discriminator(layers.SizedLayer):
    """Says for every token whether it was replaced (paper, section 2).

    Call arguments:
        input_ids, input_mask, segment_ids: `[B, S]` int32.
        dropout_seed: `[2]` int64, or None for inference.
        word_offset: `[B, S, E]` float32, added to the token embeddings, or
            None.
    """

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        dtype = self.dtype_policy
        self.encoder = encoder_lib.build_encoder(
            self.settings, MAIN_ENCODER, dtype=dtype
        )
        self.head = heads.ReplacedTokenHead(
            self.settings, name="discriminator_predictions", dtype=dtype
        )
        self.head.build()
        self.build((None, None))

    def build(self, input_shape: Any) -> None:
        """Notes the shape of the rows; all weights exist."""

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_seed: tf.Tensor | None = None,
        word_offset: tf.Tensor | None = None,
    ) -> DiscriminatorOutput:
        """Scores every token of `[B, S]`."""
        output = self.encoder(
            input_ids, input_mask, segment_ids, dropout_seed, word_offset
        )
        hidden = output.sequence_output
        logits = self.head(tf.reshape(hidden, [-1, self.encoder.hidden_size]))
        return DiscriminatorOutput(
            tf.reshape(logits, tf.shape(hidden)[:2]), output
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """`[B, S]`, of the logits."""
        return input_shape
