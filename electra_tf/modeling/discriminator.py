"""The discriminator: encoder plus one logit per token."""

from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import heads


class DiscriminatorOutput(NamedTuple):
    """What the discriminator computes.

    Attributes:
        logits: `[B, S]` float32, high where a token looks replaced.
        encoder_output: its encoder's intermediates.
    """

    logits: tf.Tensor
    encoder_output: encoder_lib.EncoderOutput


class Discriminator(keras.layers.Layer):
    """Says for every token whether it was replaced (paper, section 2).

    Args:
        encoder: the encoder that is kept after pre-training.
        head: its replaced-token head.

    Call arguments:
        input_ids, input_mask, segment_ids: `[B, S]` int32.
        dropout_seed: `[2]` int64, or None for inference.
        word_offset: `[B, S, E]` float32, added to the token embeddings, or
            None.
    """

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        head: heads.ReplacedTokenHead,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        self.head = head
        self.built = True

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
