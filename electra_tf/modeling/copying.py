"""The main encoder of All-Tokens MLM: a vocabulary and a copy decision."""

from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import heads


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


class CopyingMaskedLM(keras.layers.Layer):
    """Predicts every token, with a copy mechanism (paper, section 3.5).

    Args:
        encoder: the encoder that is kept after pre-training.
        head: scores the vocabulary with the encoder's token table.
        copy_head: scores whether the input token is the original.

    Call arguments:
        input_ids, input_mask, segment_ids: `[B, S]` int32.
        dropout_seed: `[2]` int64, or None for inference.
    """

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        head: heads.MaskedLMHead,
        copy_head: heads.CopyHead,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        self.head = head
        self.copy_head = copy_head
        self.built = True

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
