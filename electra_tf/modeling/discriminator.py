"""The networks that see corrupted text, with the encoder that is kept."""

from typing import Any
from typing import NamedTuple

import tensorflow as tf

from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import heads
from electra_tf.modeling import layers

MAIN_ENCODER = "electra"
"""First part of the paths of the encoder that is kept."""


class DiscriminatorOutput(NamedTuple):
    """What the discriminator computes."""

    logits: tf.Tensor  # [B, S] float32, high where a token looks replaced
    encoder_output: encoder_lib.EncoderOutput


@layers.register
class Discriminator(layers.Network):
    """Says for every token whether it was replaced (paper, section 2)."""

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


class CopyingOutput(NamedTuple):
    """What the model of All-Tokens MLM computes for every token."""

    logits: tf.Tensor  # [B, S, V] float32, of the vocabulary
    copy_logits: tf.Tensor  # [B, S] float32, high where the input is kept
    encoder_output: encoder_lib.EncoderOutput


@layers.register
class CopyingMaskedLM(layers.Network):
    """Predicts every token, with a copy mechanism (paper, section 3.5)."""

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        dtype = self.dtype_policy
        self.encoder = encoder_lib.build_encoder(
            self.settings, MAIN_ENCODER, dtype=dtype
        )
        self.copy_head = heads.CopyHead(
            self.settings, name="copy_predictions", dtype=dtype
        )
        self.head = heads.MaskedLMHead(
            self.settings, name="masked_lm_predictions", dtype=dtype
        )
        self.copy_head.build()
        self.head.build()
        self.build((None, None))

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_seed: tf.Tensor | None = None,
    ) -> CopyingOutput:
        """Scores vocabulary and copying for `[B, S]` tokens."""
        output = self.encoder(input_ids, input_mask, segment_ids, dropout_seed)
        hidden = output.sequence_output
        table = tf.convert_to_tensor(self.encoder.embeddings.word_embeddings)
        return CopyingOutput(
            self.head(hidden, table), self.copy_head(hidden), output
        )
