"""The pre-training heads: what turns hidden states into logits.

Logits are float32 whatever the compute dtype, because softmax, sampling and
losses stay float32. All heads have the sizes of the encoder that they are for.
"""

from typing import Any

import tensorflow as tf

from electra_tf.modeling import layers


@layers.register
class MaskedLMHead(layers.SizedLayer):
    """Vocabulary logits from hidden states, with a tied output table.

    Dense to the table's width, gelu, LayerNorm, product with the transposed
    embedding table, bias (the original's `get_token_logits`).

    """

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        self.dense = self.make_linear("dense", self.settings.embedding_size)
        self.layer_norm = self.make_norm()

    def build(self, input_shape: Any = None) -> None:
        """Creates the dense layer, the normalization and the bias."""
        self.dense.build((None, self.settings.hidden_size))
        self.layer_norm.build((None, self.settings.embedding_size))
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.settings.vocab_size,),
            initializer="zeros",
            autocast=False,
        )

    def call(self, hidden: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
        """`[B, N, V]` float32 for `[B, N, D]` states and a `[V, E]` table."""
        num_rows, num_states, _ = layers.shape_of(hidden)
        flat = tf.reshape(hidden, [-1, self.settings.hidden_size])
        flat = self.layer_norm(layers.gelu(self.dense(flat)))
        table = tf.cast(tf.convert_to_tensor(table), flat.dtype)
        logits = tf.matmul(flat, table, transpose_b=True)
        bias = tf.convert_to_tensor(self.output_bias)
        logits = tf.nn.bias_add(tf.cast(logits, tf.float32), bias)
        vocab_size = self.settings.vocab_size
        return tf.reshape(logits, [num_rows, num_states, vocab_size])


@layers.register
class ReplacedTokenHead(layers.SizedLayer):
    """One logit per token, high where the token was replaced.

    Dense, gelu, dense to one (the original's `_get_discriminator_output`).
    The last layer takes TensorFlow 1's default initializer, as there.
    """

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        self.dense = self.make_linear("dense", self.settings.hidden_size)
        self.logit = layers.Linear(1, name="dense_1", dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        """Creates both dense layers."""
        self.dense.build((None, self.settings.hidden_size))
        self.logit.build((None, self.settings.hidden_size))

    def call(self, hidden: tf.Tensor) -> tf.Tensor:
        """`[N]` float32 for `[N, D]` states."""
        logits = self.logit(layers.gelu(self.dense(hidden)))
        return tf.cast(tf.squeeze(logits, -1), tf.float32)


@layers.register
class CopyHead(layers.SizedLayer):
    """Whether an input token is the original: a sigmoid layer (paper, 3.5)."""

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        self.logit = layers.Linear(1, name="dense", dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        """Creates the dense layer."""
        self.logit.build((None, self.settings.hidden_size))

    def call(self, hidden: tf.Tensor) -> tf.Tensor:
        """`[B, S]` float32 for `[B, S, D]` states."""
        shape = layers.shape_of(hidden)[:2]
        flat = tf.reshape(hidden, [-1, self.settings.hidden_size])
        return tf.cast(tf.reshape(self.logit(flat), shape), tf.float32)
