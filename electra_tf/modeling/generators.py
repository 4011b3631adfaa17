"""Generators: what proposes tokens for the masked positions.

All share one signature, masked inputs in and `GeneratorOutput` out, and say
themselves which tokens they are trained to predict (`targets`, known before
the forward pass), so that an objective never asks which one it has.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import heads
from electra_tf.modeling import layers

# Logit of what the unigram generator never proposes.
_IMPOSSIBLE = -10000.0
# Dropout sites of the second tower come after those of the first.
_SECOND_TOWER_SITES = 256


class Targets(NamedTuple):
    """What a generator learns to predict."""

    ids: tf.Tensor  # [B, N] int32
    weights: tf.Tensor  # [B, N] float32, 1 where a prediction counts, else 0


class GeneratorOutput(NamedTuple):
    """What a generator computes; `logits` are for the masked positions."""

    logits: tf.Tensor
    prediction_logits: tf.Tensor
    encoder_outputs: tuple[encoder_lib.EncoderOutput, ...] = ()


@layers.register
class MaskedLMGenerator(layers.Network):
    """A masked language model (paper, section 2).

    `embeddings`, or a whole `encoder`, of another network are tied; None makes
    new ones. The names begin the paths of the weights.
    """

    def __init__(
        self,
        settings: Any,
        head_name: str = "generator_predictions",
        encoder_name: str = "generator",
        embeddings: encoder_lib.Embeddings | None = None,
        encoder: encoder_lib.Encoder | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(settings, **kwargs)
        self.head_name = head_name
        self.encoder_name = encoder_name
        self.vocab_size = self.settings.vocab_size
        self.encoder = encoder or encoder_lib.build_encoder(
            self.settings, encoder_name, embeddings, self.dtype_policy
        )
        self.head = heads.MaskedLMHead(
            self.settings, name=head_name, dtype=self.dtype_policy
        )
        self.head.build()
        self.build((None, None))

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
        logits = self.head(hidden, self.encoder.embeddings.word_embeddings)
        return GeneratorOutput(logits, logits, (output,))

    def targets(self, masked: masking.MaskedInputs) -> Targets:
        """The original tokens of the masked positions."""
        return Targets(masked.masked_ids, masked.masked_weights)

    def score_tokens(
        self, rows: Sequence[tf.Tensor], dropout_seed: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Scores the vocabulary at every position, `[B, S, V]` float32."""
        output = self.encoder(*rows, dropout_seed)
        table = self.encoder.embeddings.word_embeddings
        return self.head(output.sequence_output, table)

    def get_config(self) -> dict[str, Any]:
        """Sizes and names."""
        names = {"head_name": self.head_name, "encoder_name": self.encoder_name}
        return super().get_config() | names


@layers.register
class TwoTowerGenerator(layers.Network):
    """A cloze model of two one-directional encoders (Electric, section 3).

    One encoder reads the text from the left, the other from the right. The
    prediction for position t takes the state at t - 1 of the first and at
    t + 1 of the second, so that it never sees t, and no [MASK] is needed:
    one pass gives the distribution of every token given all others. At the
    ends the states wrap around, as in the original's `roll`.
    """

    def __init__(
        self,
        settings: Any,
        embeddings: encoder_lib.Embeddings | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(settings, **kwargs)
        sizes, dtype = self.settings, self.dtype_policy
        self.vocab_size = sizes.vocab_size
        self.left_to_right = encoder_lib.build_encoder(
            sizes, "generator_ltr", embeddings, dtype, "left_to_right"
        )
        self.right_to_left = encoder_lib.build_encoder(
            sizes, "generator_rtl", embeddings, dtype, "right_to_left"
        )
        # It scores both states side by side, with the first encoder's table.
        both = dataclasses.replace(sizes, hidden_size=2 * sizes.hidden_size)
        self.head = heads.MaskedLMHead(
            both, name="cloze_predictions", dtype=dtype
        )
        self.head.build()
        self.build((None, None))

    def call(
        self,
        masked: masking.MaskedInputs,
        dropout_seed: tf.Tensor | None = None,
    ) -> GeneratorOutput:
        """Scores the vocabulary at every position."""
        inputs = masked.original_ids, masked.input_mask, masked.segment_ids
        second_seed = layers.add_to_seed(dropout_seed, _SECOND_TOWER_SITES)
        left = self.left_to_right(*inputs, dropout_seed)
        right = self.right_to_left(*inputs, second_seed)
        hidden = tf.concat(
            [
                tf.roll(left.sequence_output, 1, axis=1),
                tf.roll(right.sequence_output, -1, axis=1),
            ],
            axis=-1,
        )
        cloze = self.head(hidden, self.left_to_right.embeddings.word_embeddings)
        logits = masking.gather_positions(cloze, masked.masked_positions)
        return GeneratorOutput(logits, cloze, (left, right))

    def targets(self, masked: masking.MaskedInputs) -> Targets:
        """Every token that is neither special nor padding."""
        return Targets(
            masked.original_ids, tf.cast(masked.eligible, tf.float32)
        )


@layers.register
class FixedGenerator(keras.layers.Layer):
    """Proposes by one distribution everywhere; it has no weights.

    Uniform, as the original's `uniform_generator` (its loss is the constant
    log V), or by `token_counts` `[V]` of a corpus, the unigram generator of
    the paper's Figure 3. Entries that do not occur in the corpus, special
    tokens among them, are never proposed; in the loss they count as half an
    occurrence.
    """

    def __init__(
        self,
        vocab_size: int,
        token_counts: np.ndarray | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.token_counts = token_counts
        self.log_probs = self.sampling_logits = np.zeros(vocab_size)
        if token_counts is not None:
            counts = np.asarray(token_counts, np.float64)
            self.log_probs = np.log(np.maximum(counts, 0.5) / counts.sum())
            self.sampling_logits = np.where(
                counts > 0, self.log_probs, _IMPOSSIBLE
            )
        self.build((None, None))

    def build(self, input_shape: Any) -> None:
        """Notes the shape of the rows; there are no weights."""

    def call(
        self,
        masked: masking.MaskedInputs,
        dropout_seed: tf.Tensor | None = None,
    ) -> GeneratorOutput:
        """The same logits at all masked positions."""
        del dropout_seed
        shape = [*masked.masked_positions.shape, self.vocab_size]

        def repeat(row: np.ndarray) -> tf.Tensor:
            return tf.broadcast_to(tf.constant(row, tf.float32), shape)

        return GeneratorOutput(
            repeat(self.sampling_logits), repeat(self.log_probs)
        )

    def targets(self, masked: masking.MaskedInputs) -> Targets:
        """The original tokens of the masked positions."""
        return Targets(masked.masked_ids, masked.masked_weights)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """`[B, P, V]`, of the logits."""
        return (*input_shape, self.vocab_size)

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        counts = self.token_counts
        if counts is not None:
            counts = np.asarray(counts).tolist()
        own = {"vocab_size": self.vocab_size, "token_counts": counts}
        return super().get_config() | own
