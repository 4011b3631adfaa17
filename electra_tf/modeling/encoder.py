"""The Transformer encoder of generator and discriminator (paper, section 3.1).

It is BERT's, with a LayerNorm after each residual connection. The docstrings of
all modules name sizes by letters: **B** batch, **S** row length, **P** masked
positions, **D** hidden, **E** embedding, **H** heads, **V** vocabulary.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from electra_tf import config
from electra_tf import fusion
from electra_tf.acceleration import operations
from electra_tf.modeling import layers

# Added to the scores of masked keys. It is finite, as in the original, so that
# the softmax of a row without unmasked keys is not NaN.
MASKED_SCORE = -10000.0
DIRECTIONS = ("both", "left_to_right", "right_to_left")
# Dropout applies to the attention weights, and to the outputs of the attention
# and of the feed-forward layer.
_SITES_PER_BLOCK = 3
_SEGMENTS_PER_TEXT = 2


class EncoderOutput(NamedTuple):
    """The states of an encoder, from the embeddings to the last block."""

    embedding_layernorm_output: tf.Tensor  # [B, S, E], after dropout
    embedding_output: tf.Tensor  # [B, S, D], embeddings after the projection
    layer_outputs: tuple[tf.Tensor, ...]  # [B, S, D]; a loop has the last alone
    sequence_output: tf.Tensor  # [B, S, D], the last block's output


@layers.register
class Embeddings(layers.SizedLayer):
    """Token, position and segment embeddings, summed and normalized."""

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        self.layer_norm = self.make_norm()

    def build(self, input_shape: Any = None) -> None:
        """Creates the three tables and the normalization."""
        sizes = self.settings
        for name, num_rows in (
            ("word_embeddings", sizes.vocab_size),
            ("position_embeddings", sizes.max_position_embeddings),
            ("token_type_embeddings", sizes.type_vocab_size),
        ):
            # Without `autocast`: it would cast a whole table for a few rows.
            table = self.add_weight(
                (num_rows, sizes.embedding_size),
                self.make_initializer(),
                name=name,
                autocast=False,
            )
            setattr(self, name, table)
        self.layer_norm.build((None, sizes.embedding_size))

    def call(
        self,
        input_ids: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_seed: layers.Seed = None,
        word_offset: tf.Tensor | None = None,
        position_ids: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Embeds `[B, S]` ids as `[B, S, E]`, the shape of `word_offset`."""
        width = self.settings.embedding_size
        length = input_ids.shape[1] or tf.shape(input_ids)[1]
        words = layers.look_up(self.word_embeddings, input_ids)
        if word_offset is not None:
            # Keras cast the argument to the compute dtype; tables are float32.
            words += tf.cast(word_offset, words.dtype)
        positions = tf.convert_to_tensor(self.position_embeddings)[:length]
        if position_ids is not None:
            positions = layers.look_up(positions, position_ids)
        # A product with one-hots, as in BERT, because the gradient of a lookup
        # would scatter B x S rows into a table of two.
        one_hot = tf.one_hot(segment_ids, self.settings.type_vocab_size)
        table = tf.convert_to_tensor(self.token_type_embeddings)
        total = words + positions + tf.tensordot(one_hot, table, 1)
        shape = layers.shape_of(total)
        flat = self.layer_norm(tf.reshape(total, [-1, width]))
        rate = self.settings.hidden_dropout_prob
        return tf.reshape(layers.dropout(flat, rate, dropout_seed), shape)


def split_heads(
    fused: tf.Tensor, attention_bias: tf.Tensor, num_heads: int
) -> list[tf.Tensor]:
    """Splits `[B * S, 3 * D]` into query, key and value, `[B, H, S, D / H]`."""
    batch, _, _, length = layers.shape_of(attention_bias)
    size = fused.shape[-1] // (3 * num_heads)
    return operations.split_heads(fused, [batch, length, num_heads, size])


def compute_probs(
    query: tf.Tensor, key: tf.Tensor, attention_bias: tf.Tensor
) -> tf.Tensor:
    """Computes the attention weights, `[B, H, S, S]`; rows sum to one."""
    scale = tf.constant(query.shape[-1] ** -0.5, query.dtype)
    scores = tf.matmul(query * scale, key, transpose_b=True)
    scores = tf.cast(scores, tf.float32) + tf.cast(attention_bias, tf.float32)
    return tf.cast(tf.nn.softmax(scores), query.dtype)


def attend(
    fused: tf.Tensor,
    attention_bias: tf.Tensor,
    num_heads: int,
    choice: Sequence[Any] = (),
) -> tf.Tensor:
    """Computes multi-head attention, `[B * S, D]`, heads side by side.

    Args:
        fused: `[B * S, 3 * D]`, queries, keys and values side by side.
        attention_bias: the result of `compute_attention_bias`.
        num_heads: H.
        choice: the weights to keep and the rate; see `operations.drop`.
    """

    @tf.custom_gradient
    def compute(fused: tf.Tensor) -> Any:
        query, key, value = split_heads(fused, attention_bias, num_heads)
        probs = compute_probs(query, key, attention_bias)
        dropped = operations.drop(probs, *choice)
        context = tf.matmul(dropped, value)
        forward = query, key, value, probs, dropped, context
        return merge_heads(context), functools.partial(
            operations.attention_gradient, forward, choice
        )

    return compute(fused)


def merge_heads(context: tf.Tensor) -> tf.Tensor:
    """Reshapes `[B, H, S, D / H]` to `[B * S, D]`."""
    _, heads, _, size = context.shape
    context = tf.transpose(context, [0, 2, 1, 3])
    return tf.reshape(context, [-1, heads * size])


@layers.register
class TransformerBlock(layers.SizedLayer):
    """Self-attention and feed-forward, each with residual and LayerNorm."""

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        width = self.settings.hidden_size
        inner = self.settings.intermediate_size
        self.query_key_value = self.make_linear("qkv", 3 * width)
        self.attention_output = self.make_linear("dense", width)
        self.attention_norm = self.make_norm()
        self.intermediate = self.make_linear("dense", inner)
        self.output_projection = self.make_linear("dense", width)
        self.output_norm = self.make_norm()

    def build(self, input_shape: Any = None) -> None:
        """Creates all weights with the original's names."""
        width = None, self.settings.hidden_size
        inner = None, self.settings.intermediate_size
        with keras.name_scope("attention"):
            with keras.name_scope("self"):
                self.query_key_value.build(width)
            with keras.name_scope("output"):
                self.attention_output.build(width)
                self.attention_norm.build(width)
        with keras.name_scope("intermediate"):
            self.intermediate.build(width)
        with keras.name_scope("output"):
            self.output_projection.build(inner)
            self.output_norm.build(width)

    def call(
        self,
        hidden: tf.Tensor,
        attention_bias: tf.Tensor,
        dropout_seed: layers.Seed = None,
        kept: Sequence[tf.Tensor | None] | None = None,
    ) -> tf.Tensor:
        """Transforms `[B * S, D]`; see `compute_attention_bias`.

        `kept` is the result of `draw_kept`; without it the block draws.
        """
        if kept is None:
            kept = self.draw_kept(attention_bias, dropout_seed)
        of_probs, of_context, of_outputs = kept
        rate = self.settings.hidden_dropout_prob
        fused = self.query_key_value(hidden)
        choice = of_probs, self.settings.attention_probs_dropout_prob
        num_heads = self.settings.num_attention_heads
        context = attend(fused, attention_bias, num_heads, choice)
        update = self.attention_output(context)
        hidden = self.attention_norm(hidden, update, of_context, rate=rate)
        update = operations.feed_forward(
            hidden,
            self.intermediate.read_weights(),
            self.output_projection.read_weights(),
        )
        return self.output_norm(hidden, update, of_outputs, rate=rate)

    def draw_kept(
        self, attention_bias: tf.Tensor, seed: layers.Seed
    ) -> list[tf.Tensor | None]:
        """Draws the entries that dropout keeps at each of its three sites."""
        sizes = self.settings
        batch, _, _, length = layers.shape_of(attention_bias)
        heads = [batch, sizes.num_attention_heads, length, length]
        rows = [batch * length, sizes.hidden_size], sizes.hidden_dropout_prob
        sites = (heads, sizes.attention_probs_dropout_prob), rows, rows
        return [
            layers.draw_kept(*site, layers.add_to_seed(seed, number))
            for number, site in enumerate(sites)
        ]


def number_segments(
    features: dict[str, tf.Tensor], cls_id: int
) -> dict[str, tf.Tensor]:
    """Gives text k of each packed row the segment ids 2k and 2k + 1.

    A text begins at [CLS]. The `[..., S]` features must not have been masked
    or corrupted yet, because a generator may sample a [CLS].
    """
    begins = tf.cast(features["input_ids"] == cls_id, tf.int32)
    numbers = _SEGMENTS_PER_TEXT * (tf.cumsum(begins, axis=-1) - 1)
    return features | {"segment_ids": features["segment_ids"] + numbers}


def _separate_texts(segment_ids: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Returns each token's text, and position and segment in it, `[B, S]`."""
    texts = segment_ids // _SEGMENTS_PER_TEXT
    # A text begins after all tokens of the texts with smaller numbers.
    is_before = texts[:, tf.newaxis] < texts[:, :, tf.newaxis]
    begins = tf.reduce_sum(tf.cast(is_before, tf.int32), -1)
    positions = tf.range(layers.shape_of(texts)[1]) - begins
    return texts, positions, segment_ids % _SEGMENTS_PER_TEXT


def compute_attention_bias(
    input_mask: tf.Tensor,
    direction: str = "both",
    texts: tf.Tensor | None = None,
) -> tf.Tensor:
    """Computes the bias that masks keys when added to attention scores.

    Args:
        input_mask: `[B, S]`, 0 for padding, which is always masked.
        direction: one of `DIRECTIONS`; the side that a token attends to.
        texts: `[B, S]`, the number of each token's text in a packed row; a
            token attends to its own text alone. None: each row is one text.

    Returns:
        Float32, `MASKED_SCORE` for masked keys, else 0: `[B, 1, 1, S]` if all
        tokens have the same keys, else `[B, 1, S, S]`.
    """
    visible = tf.cast(input_mask, tf.float32)
    # LiteRT cannot convert slices that add axes.
    visible = tf.expand_dims(tf.expand_dims(visible, 1), 1)
    if direction != "both":
        length = layers.shape_of(input_mask)[1]
        below, above = (-1, 0) if direction == "left_to_right" else (0, -1)
        visible *= tf.linalg.band_part(tf.ones([length, length]), below, above)
    if texts is not None:
        same = texts[:, tf.newaxis, :, tf.newaxis] == texts[:, None, None]
        visible *= tf.cast(same, tf.float32)
    return (1.0 - visible) * MASKED_SCORE


@layers.register
class Encoder(layers.SizedLayer):
    """Embeddings, a projection if the blocks are wider or narrower, and blocks.

    `call` takes `[B, S]` int32 rows, a dropout seed (None for inference) and a
    `[B, S, E]` offset that is added to the token embeddings. Layers that are
    not `trainable` have no dropout.

    Args:
        settings: the sizes.
        embeddings: the embeddings of another encoder, to tie them (paper,
            section 3.2); None makes new ones.
        direction: one of `DIRECTIONS`; the side that a token attends to.

    Attributes:
        recomputes: whether training keeps the input of each block alone and
            computes the activations again for the gradients (Chen et al.,
            2016). That saves memory and costs one more forward pass.
        is_packed: whether rows hold several texts, marked by
            `number_segments`. Each text has positions from 0 and attends to
            itself alone, so it has the states of a row of its own.
    """

    def __init__(
        self,
        settings: Any,
        embeddings: Embeddings | None = None,
        direction: str = "both",
        **kwargs: Any,
    ) -> None:
        super().__init__(settings, **kwargs)
        config.require_choice("direction", direction, DIRECTIONS)
        sizes, dtype = self.settings, self.dtype_policy
        self.direction = direction
        self.recomputes = self.is_packed = False
        self.hidden_size = sizes.hidden_size
        self.embeddings = embeddings or Embeddings(
            sizes, name="embeddings", dtype=dtype
        )
        self.blocks = [
            TransformerBlock(sizes, name=f"layer_{number}", dtype=dtype)
            for number in range(sizes.num_hidden_layers)
        ]
        self.embeddings_project = None
        if sizes.embedding_size != sizes.hidden_size:
            self.embeddings_project = layers.Linear(
                sizes.hidden_size, name="embeddings_project", dtype=dtype
            )

    def build(self, input_shape: Any = None) -> None:
        """Creates all weights except those of tied embeddings."""
        sizes = self.settings
        rows = sizes.vocab_size + sizes.max_position_embeddings
        columns = 4 * sizes.hidden_size + 2 * sizes.intermediate_size
        blocks = sizes.num_hidden_layers * sizes.hidden_size * columns
        layers.require_memory(rows * sizes.embedding_size + blocks)
        if not self.embeddings.built:
            self.embeddings.build()
        if self.embeddings_project is not None:
            self.embeddings_project.build((None, sizes.embedding_size))
        with keras.name_scope("encoder"):
            for block in self.blocks:
                block.build()

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_seed: layers.Seed = None,
        word_offset: tf.Tensor | None = None,
    ) -> EncoderOutput:
        """Encodes `[B, S]` int32 ids."""
        seed = dropout_seed if self.embeddings.trainable else None
        texts = positions = None
        if self.is_packed:
            texts, positions, segment_ids = _separate_texts(segment_ids)
        embedded = self.embeddings(
            input_ids, segment_ids, seed, word_offset, positions
        )
        hidden = tf.reshape(embedded, [-1, self.settings.embedding_size])
        if self.embeddings_project is not None:
            hidden = self.embeddings_project(hidden)
        shape = [*layers.shape_of(input_ids), self.hidden_size]
        bias = compute_attention_bias(input_mask, self.direction, texts)
        # Blocks in which weights are frozen, as with LoRA, share no loop body.
        is_loop = fusion.compiles(fusion.Scope.STEP) and not any(
            block.non_trainable_variables for block in self.blocks
        )
        # On a GPU a loop would copy all that it keeps for the gradients: Base
        # moves 242 in place of 145 GB.
        if is_loop and fusion.accelerator() != "GPU":
            states = [self._loop_over_blocks(hidden, bias, dropout_seed)]
        else:
            states = self._call_blocks(hidden, bias, dropout_seed)
        outputs = [tf.reshape(state, shape) for state in (hidden, *states)]
        return EncoderOutput(
            embedded, outputs[0], tuple(outputs[1:]), outputs[-1]
        )

    def _call_blocks(
        self, hidden: tf.Tensor, bias: tf.Tensor, dropout_seed: layers.Seed
    ) -> list[tf.Tensor]:
        """Returns the `[B * S, D]` output of each block."""
        states, shared = [hidden], None
        seeds = [
            layers.add_to_seed(dropout_seed, 1 + number * _SITES_PER_BLOCK)
            for number in range(len(self.blocks))
        ]
        drawn: list[Any] = []
        if dropout_seed is not None and fusion.compiles(fusion.Scope.STEP):
            drawn = self.blocks[0].draw_kept(bias, tf.stack(seeds))
        for number, block in enumerate(self.blocks):
            call: Any = functools.partial(
                block.__call__,
                attention_bias=bias,
                dropout_seed=seeds[number] if block.trainable else None,
            )
            if drawn and block.trainable:
                kept = [None if one is None else one[number] for one in drawn]
                call = functools.partial(call, kept=kept)
            if self.recomputes and dropout_seed is not None:
                call = tf.recompute_grad(call)
            elif fusion.compiles(fusion.Scope.LOOPS) and block.trainable:
                shared = shared or operations.trace_once(block)
                call = functools.partial(shared, block, **call.keywords)
            states.append(call(states[-1]))
        return states[1:]

    def _loop_over_blocks(
        self, hidden: tf.Tensor, bias: tf.Tensor, dropout_seed: layers.Seed
    ) -> tf.Tensor:
        """Returns the last block's output, with one loop body for all."""
        first = self.blocks[0]
        shared = [bias] if dropout_seed is None else [bias, dropout_seed]

        def call(
            weights: Any,
            number: tf.Tensor,
            inputs: tf.Tensor,
            bias: tf.Tensor,
            seed: layers.Seed = None,
        ) -> tf.Tensor:
            seed = layers.add_to_seed(seed, 1 + number * _SITES_PER_BLOCK)
            return first.stateless_call(
                weights, [], inputs, attention_bias=bias, dropout_seed=seed
            )[0]

        if self.recomputes and dropout_seed is not None:
            call = tf.recompute_grad(call)
        weights = [block.trainable_variables for block in self.blocks]
        return operations.loop_over_layers(call, weights, hidden, shared)


def build_encoder(
    settings: config.EncoderConfig,
    name: str,
    embeddings: Embeddings | None = None,
    dtype: Any = None,
    direction: str = "both",
) -> Encoder:
    """Builds an encoder with weights, whose paths begin with `name`."""
    encoder = Encoder(settings, embeddings, direction, name=name, dtype=dtype)
    encoder.build()
    return encoder
