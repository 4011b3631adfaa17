"""Floating-point operations of every part of the model, from sizes alone.

`original` counts as the original does (`flops_computation.py`; paper, Appendix
E and the FLOPs columns of its tables): use it to compare with published
numbers. `exact` counts what the matrix products of our graph execute, as
TensorFlow's profiler does: use it for the share of a device's peak.

All counts are for one row of S tokens; callers multiply by rows and steps.
"""

import abc
import dataclasses
from collections.abc import Mapping
from typing import ClassVar
from typing import NamedTuple

from electra_tf import config

# Operations per entry. All four are constants of the original's
# `flops_computation.py`, where an exponential counts like an addition.
_DROPOUT = 4  # random number, comparison, product with the mask, rescaling
_LAYER_NORM = 5  # mean, square and sum, bias, scale
_ACTIVATION = 8  # the tanh form of gelu; ours is erf, counted alike
_SOFTMAX = 5  # maximum, difference, exponential, sum, quotient

# Share of the tokens that the original scores against the vocabulary: 20
# of 128, whatever the config's `mask_prob` and slots are.
OUTPUT_FRACTION = 0.15625


@dataclasses.dataclass(frozen=True)
class Operations:
    """Of a part of the model, or of a sum of parts, on one row."""

    forward: float
    backward: float

    def __add__(self, other: "Operations") -> "Operations":
        """The sum of both."""
        return Operations(
            self.forward + other.forward, self.backward + other.backward
        )


class Sizes(NamedTuple):
    """Everything that the number of operations depends on."""

    encoder: config.EncoderConfig  # the main encoder's, `vocab_size` not 0
    generator: config.GeneratorConfig
    length: int  # tokens of a row, S
    num_predictions: int  # masked slots of a row, P


class Convention(abc.ABC):
    """A way of counting: networks as sums of encoders and heads."""

    name: ClassVar[str]

    def __init__(self, sizes: Sizes) -> None:
        if sizes.encoder.vocab_size < 1:
            raise ValueError(
                "Counting operations needs the size of the vocabulary. "
                f"Received: encoder.vocab_size={sizes.encoder.vocab_size}, "
                "which takes it from a dataset. Set "
                "--config.encoder.vocab_size, for example to 30522."
            )
        self.sizes = sizes

    def trained(self, part: Operations) -> float:
        """Operations forward and backward."""
        return part.forward + part.backward

    def generator(self) -> Operations:
        """The generator, of any kind."""
        kind = self.sizes.generator
        if not kind.has_encoder:
            return Operations(0.0, 0.0)
        sizes = kind.encoder_config(self.sizes.encoder)
        if not kind.two_tower_generator:
            return self._masked_lm(sizes)
        head = self._vocabulary_head(
            sizes, self.sizes.length, width=2 * sizes.hidden_size
        )
        return self._encoder(sizes) + self._encoder(sizes) + head

    def discriminator(self) -> Operations:
        """The encoder and the replaced-token head."""
        return self._encoder(self.sizes.encoder) + self._replaced_token_head()

    def masked_lm(self) -> Operations:
        """The encoder as a masked LM (BERT)."""
        return self._masked_lm(self.sizes.encoder)

    def all_tokens_masked_lm(self) -> Operations:
        """The encoder with vocabulary and copy head on every token."""
        sizes, length = self.sizes.encoder, self.sizes.length
        copy = self._part(2.0 * length * sizes.hidden_size)
        return (
            self._encoder(sizes) + self._vocabulary_head(sizes, length) + copy
        )

    def reward_baseline(self) -> Operations:
        """REINFORCE's baseline, a logit per slot of detached states."""
        sizes = self.sizes.generator.encoder_config(self.sizes.encoder)
        product = 2.0 * self._num_scored * sizes.hidden_size
        return self._part(product, product)

    def _masked_lm(self, sizes: config.EncoderConfig) -> Operations:
        head = self._vocabulary_head(sizes, self._num_scored)
        return self._encoder(sizes) + head

    @abc.abstractmethod
    def soft_lookup(self) -> Operations:
        """Embedding soft samples (straight-through)."""

    @property
    @abc.abstractmethod
    def _num_scored(self) -> float:
        """Tokens of a row that a masked LM scores against the vocabulary."""

    @abc.abstractmethod
    def _part(self, forward: float, with_constant: float = 0.0) -> Operations:
        """A part; `with_constant` are its products with a constant factor."""

    @abc.abstractmethod
    def _encoder(self, sizes: config.EncoderConfig) -> Operations: ...

    @abc.abstractmethod
    def _vocabulary_head(
        self, sizes: config.EncoderConfig, num_tokens: float, width: int = 0
    ) -> Operations:
        """A masked-LM head on states as wide as the encoder's, or `width`."""

    @abc.abstractmethod
    def _replaced_token_head(self) -> Operations: ...


@dataclasses.dataclass(frozen=True)
class OriginalTransformer:
    """A Transformer's operations by the original's formulas, for one row."""

    hidden_size: int  # `h` in the original
    num_layers: int  # `l`
    length: int = 512  # tokens of a row, `s`
    vocab_size: int = 30522  # `v`
    embedding_size: int | None = None  # `e`; None: that of the layers
    intermediate_size: int | None = None  # `i`; None: four times the width
    num_heads: int | None = None  # None: one per 64 of the width
    head_size: int | None = None  # None: query and key as wide as the layers
    output_fraction: float = OUTPUT_FRACTION  # tokens that the softmax scores
    sparse_embed_lookup: bool = False  # token lookups cost nothing
    decoder: bool = False  # every block attends to an encoder too

    def block(self) -> float:
        """Forward operations of one block."""
        width = self.hidden_size
        inner = self.intermediate_size or 4 * width
        dense = 2 * width * inner
        up = dense + (_ACTIVATION + 1) * inner  # and its bias
        # Bias, dropout, residual, norm.
        down = dense + (1 + _DROPOUT + 1 + _LAYER_NORM) * width
        attention = self._attention() * (2 if self.decoder else 1)
        return float(self.length * (attention + up + down))

    def _attention(self) -> int:
        """Operations of one attention per token."""
        width, length = self.hidden_size, self.length
        heads = self.num_heads or max(width // 64, 1)
        # Width of query, key and value.
        inner = heads * self.head_size if self.head_size else width
        query_key_value = 3 * (2 * width * inner + inner)
        scores = 2 * inner * length
        # Scale, softmax, dropout of the weights.
        weights = (1 + _SOFTMAX + _DROPOUT) * length * heads
        # Quirk: what follows is `width` wide even where `inner` is not.
        context = 2 * width * length
        output = 2 * width * width + (1 + _DROPOUT + 1) * width
        # Quirk: this norm counts 5 operations per token, not 5 per entry.
        return (
            query_key_value + scores + weights + context + output + _LAYER_NORM
        )

    def embedding(self) -> float:
        """Forward operations of the embeddings and their projection."""
        width = self.embedding_size or self.hidden_size
        # Positions and two segments are products with one-hots, always.
        per_token = 2 * width * (self.length + 2) + 2 * width
        per_token += (_LAYER_NORM + _DROPOUT) * width
        if not self.sparse_embed_lookup:
            per_token += 2 * width * self.vocab_size
        if width != self.hidden_size:
            per_token += 2 * width * self.hidden_size + self.hidden_size
        return float(self.length * per_token)

    def output(self) -> float:
        """Forward operations of the vocabulary head and its softmax."""
        width = self.embedding_size or self.hidden_size
        # Dense layer with bias, activation and norm; there even where the
        # widths agree. Then the table; the softmax; the target's one-hot.
        dense = 2 * self.hidden_size * width
        dense += (1 + _ACTIVATION + _LAYER_NORM) * width
        table = 2 * width * self.vocab_size
        loss = (_SOFTMAX + 2) * self.vocab_size
        return self.output_fraction * (dense + table + loss) * self.length

    def binary(self) -> float:
        """Forward operations of the head with one logit per token."""
        width = self.hidden_size
        dense = 2 * width * width + (1 + _ACTIVATION) * width
        return float(self.length * (dense + 2 * width))

    def encoder(self) -> float:
        """Forward operations of embeddings and blocks."""
        return self.embedding() + self.num_layers * self.block()


class OriginalConvention(Convention):
    """The original's count, constants and quirks included.

    It counts activations, norms and dropout, takes every lookup for a product
    with a one-hot, and counts backward as one forward. What it has no formula
    for (two-tower generators, the copy logit) is composed of its formulas.
    """

    name = "original"

    def soft_lookup(self) -> Operations:
        """Nothing: every lookup counts as such a product already."""
        return self._part(0.0)

    @property
    def _num_scored(self) -> float:
        return OUTPUT_FRACTION * self.sizes.length

    def _part(self, forward: float, with_constant: float = 0.0) -> Operations:
        return Operations(forward, forward)

    def _transformer(self, sizes: config.EncoderConfig) -> OriginalTransformer:
        return OriginalTransformer(
            sizes.hidden_size,
            sizes.num_hidden_layers,
            self.sizes.length,
            sizes.vocab_size,
            sizes.embedding_size,
            sizes.intermediate_size,
            sizes.num_attention_heads,
        )

    def _encoder(self, sizes: config.EncoderConfig) -> Operations:
        return self._part(self._transformer(sizes).encoder())

    def _vocabulary_head(
        self, sizes: config.EncoderConfig, num_tokens: float, width: int = 0
    ) -> Operations:
        transformer = dataclasses.replace(
            self._transformer(sizes),
            hidden_size=width or sizes.hidden_size,
            output_fraction=num_tokens / self.sizes.length,
        )
        return self._part(transformer.output())

    def _replaced_token_head(self) -> Operations:
        return self._part(self._transformer(self.sizes.encoder).binary())


class ExactConvention(Convention):
    """Matrix products of the executed graph: 2 m n k for `[m, k] [k, n]`.

    Lookups of tokens and positions are gathers and cost nothing; segments
    are a product with a one-hot. Padding is computed like any token, unused
    slots like any slot. Backward, a product has one of its size for each
    factor that is no constant.
    """

    name = "exact"

    def soft_lookup(self) -> Operations:
        """The product with the table, and one that puts it into the text."""
        # The table and the places of the slots are constants here.
        table = self.sizes.encoder
        per_slot = table.embedding_size * (table.vocab_size + self.sizes.length)
        product = 2.0 * self.sizes.num_predictions * per_slot
        return self._part(product, product)

    @property
    def _num_scored(self) -> float:
        return self.sizes.num_predictions

    def _part(self, forward: float, with_constant: float = 0.0) -> Operations:
        return Operations(forward, 2.0 * forward - with_constant)

    def _encoder(self, sizes: config.EncoderConfig) -> Operations:
        width, inner = sizes.hidden_size, sizes.intermediate_size
        # Query, key, value, output; scores and context; feed-forward.
        block = 4 * width * width + 2 * self.sizes.length * width
        block += 2 * width * inner
        per_token = sizes.num_hidden_layers * block
        if sizes.embedding_size != width:
            per_token += sizes.embedding_size * width
        segments = sizes.type_vocab_size * sizes.embedding_size
        twice = 2.0 * self.sizes.length
        return self._part(twice * (per_token + segments), twice * segments)

    def _vocabulary_head(
        self, sizes: config.EncoderConfig, num_tokens: float, width: int = 0
    ) -> Operations:
        per_token = sizes.embedding_size * (
            (width or sizes.hidden_size) + sizes.vocab_size
        )
        return self._part(2.0 * num_tokens * per_token)

    def _replaced_token_head(self) -> Operations:
        width = self.sizes.encoder.hidden_size
        return self._part(2.0 * self.sizes.length * width * (width + 1))


CONVENTIONS: Mapping[str, type[Convention]] = {
    convention.name: convention
    for convention in (OriginalConvention, ExactConvention)
}
"""Name to the way of counting."""
