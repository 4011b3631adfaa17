"""Generator and discriminator: encoders with heads (paper, section 2).

The *main network* contains the encoder that is kept, named `electra`. A
*generator* proposes tokens for the masked positions; its `targets` are the
tokens that it learns to predict. Logits are float32 in every precision.
"""

import dataclasses
import enum
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import config
from electra_tf.acceleration import operations
from electra_tf.inputs import masking
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import layers

MAIN_ENCODER = "electra"
"""The first part of all paths of the kept encoder's weights."""

# The logit of tokens that the unigram generator never proposes.
_IMPOSSIBLE = -10000.0
# The first dropout site of a second encoder, above all of the first encoder.
_SECOND_ENCODER_SITES = 256


class Answer(enum.Enum):
    """The kind of output that the main network has for each token."""

    REPLACED = "replaced"  # a logit, high if the token looks replaced
    COPYING = "copying"  # a copy logit and vocabulary logits
    ENERGY = "energy"  # -log p(token | all other tokens), up to a constant
    MASKED_LM = "masked_lm"  # vocabulary logits at masked positions
    CORRECTION = "correction"  # vocabulary logits, trained without [MASK]

    @property
    def is_prediction(self) -> bool:
        """Whether the output consists of vocabulary logits alone."""
        return self in (Answer.MASKED_LM, Answer.CORRECTION)


@layers.register
class MaskedLMHead(layers.SizedLayer):
    """Computes vocabulary logits, as the original's `get_token_logits`."""

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        self.dense = self.make_linear("dense", self.settings.embedding_size)
        self.layer_norm = self.make_norm()

    def build(self, input_shape: Any = None) -> None:
        """Creates the dense layer, the normalization and the bias."""
        self.dense.build((None, self.settings.hidden_size))
        self.layer_norm.build((None, self.settings.embedding_size))
        shape = (self.settings.vocab_size,)
        self.output_bias = self.add_weight(
            shape, "zeros", name="output_bias", autocast=False
        )

    def call(self, hidden: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
        """Maps `[B, N, D]` states to `[B, N, V]` float32 logits.

        `table` holds the `[V, E]` token embeddings, which the head is tied to.
        """
        shape = [*layers.shape_of(hidden)[:2], self.settings.vocab_size]
        flat = tf.reshape(hidden, [-1, self.settings.hidden_size])
        flat = self.layer_norm(operations.gelu(self.dense(flat)))
        table = tf.cast(tf.convert_to_tensor(table), flat.dtype)
        logits = tf.matmul(flat, table, transpose_b=True)
        bias = tf.convert_to_tensor(self.output_bias)
        logits = tf.nn.bias_add(tf.cast(logits, tf.float32), bias)
        return tf.reshape(logits, shape)


@layers.register
class TokenHead(layers.SizedLayer):
    """Maps `[B, S, D]` states to one logit per token, `[B, S]` float32.

    With a hidden layer it is the original's `_get_discriminator_output`, whose
    last layer has TensorFlow 1's default initializer.
    """

    def __init__(
        self, settings: Any, has_hidden_layer: bool = True, **kwargs: Any
    ) -> None:
        super().__init__(settings, **kwargs)
        self.has_hidden_layer = has_hidden_layer
        name = "dense"
        if has_hidden_layer:
            self.dense = self.make_linear("dense", self.settings.hidden_size)
            name = "dense_1"
        self.logit = layers.Linear(1, name=name, dtype=self.dtype_policy)

    def build(self, input_shape: Any = None) -> None:
        """Creates the dense layers."""
        width = (None, self.settings.hidden_size)
        if self.has_hidden_layer:
            self.dense.build(width)
        self.logit.build(width)

    def call(self, hidden: tf.Tensor) -> tf.Tensor:
        """Returns one logit for each state."""
        states = tf.reshape(hidden, [-1, self.settings.hidden_size])
        if self.has_hidden_layer:
            states = operations.gelu(self.dense(states))
        logits = tf.reshape(self.logit(states), layers.shape_of(hidden)[:2])
        return tf.cast(logits, tf.float32)


class Network(layers.SizedLayer):
    """One or two encoders and a head; the constructor creates all weights."""

    @property
    def encoders(self) -> list[encoder_lib.Encoder]:
        """The one or two encoders."""
        members = vars(self).values()
        return [m for m in members if isinstance(m, encoder_lib.Encoder)]

    def add_head(self, kind: Any, name: str, **options: Any) -> Any:
        """Returns a head of a class, with its weights."""
        settings = options.pop("settings", self.settings)
        head = kind(settings, name=name, dtype=self.dtype_policy, **options)
        head.build()
        return head

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of vocabulary logits, `[B, S or P, V]`."""
        return (*input_shape, self.settings.vocab_size)


class DiscriminatorOutput(NamedTuple):
    """The outputs of the discriminator."""

    logits: tf.Tensor  # [B, S] float32, high where a token looks replaced
    encoder_output: encoder_lib.EncoderOutput


@layers.register
class Discriminator(Network):
    """Tells whether each token was replaced (paper, section 2)."""

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        self.encoder = encoder_lib.build_encoder(
            self.settings, MAIN_ENCODER, dtype=self.dtype_policy
        )
        self.head = self.add_head(TokenHead, "discriminator_predictions")
        self.build((None, None))

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_seed: layers.Seed = None,
        word_offset: tf.Tensor | None = None,
    ) -> DiscriminatorOutput:
        """Scores every token of `[B, S]`."""
        output = self.encoder(
            input_ids, input_mask, segment_ids, dropout_seed, word_offset
        )
        return DiscriminatorOutput(self.head(output.sequence_output), output)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the logits, `[B, S]`."""
        return input_shape


class CopyingOutput(NamedTuple):
    """The outputs of the All-Tokens MLM model, for every token."""

    logits: tf.Tensor  # [B, S, V] float32, vocabulary logits
    copy_logits: tf.Tensor  # [B, S] float32, high where the input is kept


@layers.register
class CopyingMaskedLM(Network):
    """Predicts every token, with a copy mechanism (paper, section 3.5)."""

    def __init__(self, settings: Any, **kwargs: Any) -> None:
        super().__init__(settings, **kwargs)
        self.encoder = encoder_lib.build_encoder(
            self.settings, MAIN_ENCODER, dtype=self.dtype_policy
        )
        self.copy_head = self.add_head(
            TokenHead, "copy_predictions", has_hidden_layer=False
        )
        self.head = self.add_head(MaskedLMHead, "masked_lm_predictions")
        self.build((None, None))

    def call(
        self,
        input_ids: tf.Tensor,
        input_mask: tf.Tensor,
        segment_ids: tf.Tensor,
        dropout_seed: layers.Seed = None,
    ) -> CopyingOutput:
        """Computes vocabulary and copy logits for `[B, S]` tokens."""
        output = self.encoder(input_ids, input_mask, segment_ids, dropout_seed)
        hidden = output.sequence_output
        table = self.encoder.embeddings.word_embeddings
        return CopyingOutput(self.head(hidden, table), self.copy_head(hidden))


class Targets(NamedTuple):
    """The tokens that a generator learns to predict."""

    ids: tf.Tensor  # [B, N] int32
    weights: tf.Tensor  # [B, N] float32, 1 where a prediction counts, else 0


class GeneratorOutput(NamedTuple):
    """The outputs of a generator."""

    logits: tf.Tensor  # [B, P, V] float32, at the masked positions
    prediction_logits: tf.Tensor  # [B, N, V] float32, for the targets
    encoder_outputs: tuple[encoder_lib.EncoderOutput, ...] = ()


@layers.register
class MaskedLMGenerator(Network):
    """A masked language model (paper, section 2).

    `embeddings` or an `encoder` of another network are tied; None makes new
    ones. `head_name` and `encoder_name` begin the paths of the weights.
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
        self.encoder = encoder or encoder_lib.build_encoder(
            self.settings, encoder_name, embeddings, self.dtype_policy
        )
        self.head = self.add_head(MaskedLMHead, head_name)
        self.build((None, None))

    def call(
        self, masked: masking.MaskedInputs, dropout_seed: layers.Seed = None
    ) -> GeneratorOutput:
        """Scores the vocabulary at the masked positions."""
        rows = masked.input_ids, masked.input_mask, masked.segment_ids
        output = self.encoder(*rows, dropout_seed)
        hidden = masking.gather_positions(
            output.sequence_output, masked.masked_positions
        )
        logits = self.head(hidden, self.encoder.embeddings.word_embeddings)
        return GeneratorOutput(logits, logits, (output,))

    def targets(self, masked: masking.MaskedInputs) -> Targets:
        """Returns the original tokens of the masked positions."""
        return Targets(masked.masked_ids, masked.masked_weights)

    def score_tokens(
        self, rows: layers.Inputs, seed: layers.Seed = None
    ) -> tf.Tensor:
        """Scores the vocabulary at every position, `[B, S, V]` float32."""
        output = self.encoder(*rows, seed)
        table = tf.convert_to_tensor(self.encoder.embeddings.word_embeddings)
        return self.head(output.sequence_output, table)


def join_towers(sizes: config.EncoderConfig) -> config.EncoderConfig:
    """Returns the sizes of a head on two towers' concatenated states."""
    return dataclasses.replace(sizes, hidden_size=2 * sizes.hidden_size)


@layers.register
class TwoTowerGenerator(Network):
    """A cloze model of two one-directional encoders (Electric, section 3).

    One encoder reads the text from the left, the other from the right. The
    prediction for position t takes the first one's state at t - 1 and the
    second one's at t + 1, so one pass gives the distribution of every token
    given all others. At the ends states wrap around, as in the original.
    """

    def __init__(
        self,
        settings: Any,
        embeddings: encoder_lib.Embeddings | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(settings, **kwargs)
        sizes, dtype = self.settings, self.dtype_policy
        self.left_to_right = encoder_lib.build_encoder(
            sizes, "generator_ltr", embeddings, dtype, "left_to_right"
        )
        self.right_to_left = encoder_lib.build_encoder(
            sizes, "generator_rtl", embeddings, dtype, "right_to_left"
        )
        # The head is tied to the first encoder's token embeddings.
        self.head = self.add_head(
            MaskedLMHead, "cloze_predictions", settings=join_towers(sizes)
        )
        self.build((None, None))

    def call(
        self, masked: masking.MaskedInputs, dropout_seed: layers.Seed = None
    ) -> GeneratorOutput:
        """Scores the vocabulary at every position."""
        rows = masked.original_ids, masked.input_mask, masked.segment_ids
        second_seed = layers.add_to_seed(dropout_seed, _SECOND_ENCODER_SITES)
        left = self.left_to_right(*rows, dropout_seed)
        right = self.right_to_left(*rows, second_seed)
        cloze = self._score(left, right)
        logits = masking.gather_positions(cloze, masked.masked_positions)
        return GeneratorOutput(logits, cloze, (left, right))

    def score_tokens(self, rows: layers.Inputs) -> tf.Tensor:
        """Returns `[B, S, V]` logits of each token given all others."""
        return self._score(self.left_to_right(*rows), self.right_to_left(*rows))

    def _score(
        self, left: encoder_lib.EncoderOutput, right: encoder_lib.EncoderOutput
    ) -> tf.Tensor:
        before = tf.roll(left.sequence_output, 1, axis=1)
        after = tf.roll(right.sequence_output, -1, axis=1)
        table = self.left_to_right.embeddings.word_embeddings
        return self.head(tf.concat([before, after], axis=-1), table)

    def targets(self, masked: masking.MaskedInputs) -> Targets:
        """Returns all tokens; special ones and padding have weight 0."""
        weights = tf.cast(masked.eligible, tf.float32)
        return Targets(masked.original_ids, weights)


@layers.register
class FixedGenerator(layers.ConfiguredLayer):
    """Proposes tokens from one distribution at all positions, without weights.

    The distribution is uniform, or the unigram distribution of a corpus with
    `[V]` `token_counts` (paper, Figure 3). Entries that do not occur in the
    corpus, such as special tokens, are never proposed; the loss counts each as
    half an occurrence.
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
            self.token_counts = np.asarray(token_counts).tolist()
            counts = np.asarray(token_counts, np.float64)
            self.log_probs = np.log(np.maximum(counts, 0.5) / counts.sum())
            is_seen = counts > 0
            self.sampling_logits = np.where(
                is_seen, self.log_probs, _IMPOSSIBLE
            )
        self.build((None, None))

    def call(
        self, masked: masking.MaskedInputs, dropout_seed: layers.Seed = None
    ) -> GeneratorOutput:
        """Returns the same logits for all masked positions."""
        shape = [*masked.masked_positions.shape, self.vocab_size]
        rows = self.sampling_logits, self.log_probs
        constants = (tf.constant(row, tf.float32) for row in rows)
        return GeneratorOutput(*(tf.broadcast_to(c, shape) for c in constants))

    targets = MaskedLMGenerator.targets

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the shape of the logits, `[B, P, V]`."""
        return (*input_shape, self.vocab_size)


class Networks(NamedTuple):
    """The two networks of a model."""

    generator: Any  # any generator of this module, or None
    main: Any  # the main network


def resolve_vocab_size(
    encoder: config.EncoderConfig, vocab_size: int, source: Any = "the config"
) -> config.EncoderConfig:
    """Returns the encoder's config with the size of the vocabulary.

    Raises:
        ConfigError: if the config of `source` has another size.
    """
    config.require(
        encoder.vocab_size in (0, vocab_size),
        f"`encoder.vocab_size` of {source} must be the vocabulary's size, or "
        f"0 to take it. Received: encoder.vocab_size={encoder.vocab_size}, "
        f"vocabulary of {vocab_size} entries. Set --config.encoder.vocab_size="
        f"{vocab_size}, or use the vocabulary that the model was trained with.",
    )
    return dataclasses.replace(encoder, vocab_size=vocab_size)


def build_generator(
    settings: config.GeneratorConfig,
    main_encoder: encoder_lib.Encoder,
    token_counts: np.ndarray | None = None,
    dtype: Any = None,
) -> Any:
    """Builds the generator of a config, perhaps tied to the main encoder."""
    vocab_size = main_encoder.settings.vocab_size
    if settings.uniform_generator:
        return FixedGenerator(vocab_size, name="uniform")
    if settings.unigram_generator:
        if token_counts is None:
            raise ValueError(
                "`generator.unigram_generator` needs the token counts of a "
                "dataset. Received: none. Pass `token_counts`."
            )
        return FixedGenerator(vocab_size, token_counts, name="unigram")
    return build_sized_generator(
        settings.encoder_config(main_encoder.settings),
        main_encoder,
        settings.weight_tying,
        settings.two_tower_generator,
        dtype,
    )


def build_sized_generator(
    sizes: config.EncoderConfig,
    main_encoder: encoder_lib.Encoder,
    tying: str,
    is_two_tower: bool = False,
    dtype: Any = None,
) -> Any:
    """Builds a generator that shares layers with the main encoder.

    `tying` is `none`, `embeddings` (tokens, positions, segments and their
    LayerNorm, as in the original) or `all`, the whole encoder. `disentangled`
    shares no layers; `PretrainingModel` adds the generator's embeddings.
    """
    if tying == "all":
        return MaskedLMGenerator(sizes, encoder=main_encoder, dtype=dtype)
    shared = main_encoder.embeddings if tying == "embeddings" else None
    if is_two_tower:
        return TwoTowerGenerator(sizes, shared, dtype=dtype)
    return MaskedLMGenerator(sizes, embeddings=shared, dtype=dtype)
