"""Generators: what proposes tokens for the masked positions.

All share one signature, masked inputs in and `GeneratorOutput` out, so that
an objective never asks which one it has.
"""

from typing import Any
from typing import NamedTuple

import keras
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import heads


class GeneratorOutput(NamedTuple):
    """What a generator computes.

    Attributes:
        logits: `[B, P, V]` float32, for the masked positions.
        encoder_output: its encoder's intermediates, or None.
    """

    logits: tf.Tensor
    encoder_output: encoder_lib.EncoderOutput | None


class MaskedLMGenerator(keras.layers.Layer):
    """A masked language model (paper, section 2).

    Args:
        encoder: encodes the input with `[MASK]` in it.
        head: scores the vocabulary with the encoder's own token table.

    Call arguments:
        masked: `masking.MaskedInputs`.
        dropout_seed: `[2]` int64, or None for inference.
    """

    def __init__(
        self,
        encoder: encoder_lib.Encoder,
        head: heads.MaskedLMHead,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.encoder = encoder
        self.head = head
        self.vocab_size = head.vocab_size
        self.built = True

    def call(
        self,
        masked: masking.MaskedInputs,
        dropout_seed: tf.Tensor | None = None,
    ) -> GeneratorOutput:
        """Scores the vocabulary at the masked positions."""
        output = self.encoder(
            masked.input_ids,
            masked.input_mask,
            masked.segment_ids,
            dropout_seed,
        )
        hidden = masking.gather_positions(
            output.sequence_output, masked.masked_positions
        )
        table = tf.convert_to_tensor(self.encoder.embeddings.word_embeddings)
        logits = self.head(tf.reshape(hidden, [-1, hidden.shape[-1]]), table)
        slots = masked.masked_positions.shape[1]
        return GeneratorOutput(
            tf.reshape(logits, [-1, slots, self.vocab_size]), output
        )


class UniformGenerator(keras.layers.Layer):
    """Proposes every vocabulary entry with equal probability.

    It has no weights; its loss is the constant log V (the original's
    `uniform_generator`).

    Args:
        vocab_size: entries, V.

    Call arguments:
        masked: `masking.MaskedInputs`.
        dropout_seed: not needed; generators share one signature.
    """

    def __init__(self, vocab_size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.built = True

    def call(
        self,
        masked: masking.MaskedInputs,
        dropout_seed: tf.Tensor | None = None,
    ) -> GeneratorOutput:
        """Zero logits at the masked positions."""
        del dropout_seed
        batch, slots = masked.masked_positions.shape
        return GeneratorOutput(tf.zeros([batch, slots, self.vocab_size]), None)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {"vocab_size": self.vocab_size}
