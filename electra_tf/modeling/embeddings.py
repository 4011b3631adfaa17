"""Token, position and segment embeddings.

Shapes: B batch, S sequence, E embedding (legend in `encoder.py`).
"""

from typing import Any

import keras
import tensorflow as tf

from electra_tf import config
from electra_tf.modeling import layers


class Embeddings(keras.layers.Layer):
    """Token, position and segment embeddings, summed and normalized.

    The towers share one object of this class when they tie embeddings: all
    three tables and the normalization, as in the original.

    Args:
        vocab_size: rows of the token table, V.
        embedding_size: width of all tables, E.
        max_position_embeddings: rows of the position table.
        type_vocab_size: rows of the segment table.
        initializer_range: standard deviation of the tables.
        dropout_prob: share of the sum that is dropped, 0-1.

    Call arguments:
        input_ids: `[B, S]` int32.
        segment_ids: `[B, S]` int32.
        dropout_seed: `[2]` int64, or None for inference.
        word_offset: `[B, S, E]` float32, added to the token embeddings, or
            None.

    Output shape:
        `[B, S, E]`, compute dtype.
    """

    def __init__(
        self,
        vocab_size: int,
        embedding_size: int,
        max_position_embeddings: int = 512,
        type_vocab_size: int = 2,
        initializer_range: float = 0.02,
        dropout_prob: float = 0.1,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.embedding_size = embedding_size
        self.max_position_embeddings = max_position_embeddings
        self.type_vocab_size = type_vocab_size
        self.initializer_range = initializer_range
        self.dropout_prob = dropout_prob
        self.layer_norm = layers.LayerNorm(
            name="LayerNorm", dtype=self.dtype_policy
        )

    def build(self, input_shape: Any = None) -> None:
        """Creates the three tables and the normalization."""
        self.word_embeddings = self._add_table("word", self.vocab_size)
        self.position_embeddings = self._add_table(
            "position", self.max_position_embeddings
        )
        self.token_type_embeddings = self._add_table(
            "token_type", self.type_vocab_size
        )
        self.layer_norm.build((None, self.embedding_size))

    def _add_table(self, kind: str, num_rows: int) -> Any:
        # Looked up in float32: casting a whole table to use a few of its rows
        # costs more than the rows.
        return self.add_weight(
            name=f"{kind}_embeddings",
            shape=(num_rows, self.embedding_size),
            initializer=layers.truncated_normal(self.initializer_range),
            autocast=False,
        )

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_seed: tf.Tensor | None = None,
        word_offset: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Embeds `[B, S]` ids as `[B, S, E]`."""
        length = input_ids.shape[1] or tf.shape(input_ids)[1]
        words = layers.look_up(self.word_embeddings, input_ids)
        if word_offset is not None:
            words += word_offset
        positions = tf.convert_to_tensor(self.position_embeddings)[:length]
        total = words + positions + self._segments(segment_ids)
        shape = layers.shape_of(total)
        flat = self.layer_norm(tf.reshape(total, [-1, self.embedding_size]))
        flat = layers.dropout(flat, self.dropout_prob, dropout_seed)
        return tf.reshape(flat, shape)

    def _segments(self, segment_ids: tf.Tensor) -> tf.Tensor:
        # A product with a one-hot of two columns: its gradient is a small
        # product too, where that of a lookup is a scatter of B x S rows.
        one_hot = tf.one_hot(segment_ids, self.type_vocab_size)
        table = tf.convert_to_tensor(self.token_type_embeddings)
        flat = tf.matmul(tf.reshape(one_hot, [-1, self.type_vocab_size]), table)
        return tf.reshape(
            flat, [*layers.shape_of(segment_ids), self.embedding_size]
        )

    def get_config(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return super().get_config() | {
            "vocab_size": self.vocab_size,
            "embedding_size": self.embedding_size,
            "max_position_embeddings": self.max_position_embeddings,
            "type_vocab_size": self.type_vocab_size,
            "initializer_range": self.initializer_range,
            "dropout_prob": self.dropout_prob,
        }


def build_embeddings(
    settings: config.EncoderConfig, dtype: Any = None
) -> Embeddings:
    """Embeddings of the sizes in `settings`, named as in the original."""
    return Embeddings(
        vocab_size=settings.vocab_size,
        embedding_size=settings.embedding_size,
        max_position_embeddings=settings.max_position_embeddings,
        type_vocab_size=settings.type_vocab_size,
        initializer_range=settings.initializer_stddev,
        dropout_prob=settings.hidden_dropout_prob,
        name="embeddings",
        dtype=dtype,
    )
