"""The main network of All-Tokens MLM: a vocabulary and a copy decision."""

from typing import Any
from typing import NamedTuple

import tensorflow as tf

from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import heads
from electra_tf.modeling import layers


class CopyingOutput(NamedTuple):
    """What the model computes for every token.

    Attributes:
        logits: `[B, S, V]` float32, of the vocabulary.
        copy_logits: `[B, S]` float32, high where the input is kept.
        encoder_output: its encoder's intermediates.
    """

    logits: tf.Tensor
    copy_logits: tf.Tensor
    encoder_output: encoder_lib.EncoderOutput


@layers.register
class CopyingMaskedLM(layers.SizedLayer):
    """Predicts every token, with a copy mechanism (paper, section 3.5).

    Call arguments:
        input_ids, input_mask, segment_ids: `[B, S]` int32.
        dropout_seed: `[2]` int64, or None for inference.
    """

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        dtype = self.dtype_policy
        self.encoder = encoder_lib.build_encoder(
            self.settings, discriminator_lib.MAIN_ENCODER, dtype=dtype
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

    def build(self, input_shape: Any) -> None:
        """Notes the shape of the rows; all weights exist."""

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

    def compute_output_shape(self, input_shape: Any) -> Any:
        """`[B, S, V]`, of the vocabulary's logits."""
        return (*input_shape, self.settings.vocab_size)
