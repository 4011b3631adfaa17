"""Floating-point operations of every part of the model, from sizes alone.

Two conventions count the same parts:

`original` is the original's (`flops_computation.py`; paper, Appendix E and the
    FLOPs columns of its tables). It counts activations, norms and dropout,
    takes every lookup for a product with a one-hot, and counts backward as
    one forward. Use it to compare with published numbers.
`exact` counts the multiplications and additions of the matrix products that
    our graph executes, forward and backward. It equals the count of
    TensorFlow's own profiler. Use it for the share of a device's peak.

All counts are for one row of S tokens; callers multiply by rows and steps.
Shapes: S sequence, P masked positions of a row (legend in `encoder.py`).
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


class Forward(float):
    """Forward operations, some of which (`with_constant`) have one gradient.

    A product has two gradients, one for each factor, unless a factor is a
    constant. Sums remember how many such operations they hold; any other
    arithmetic gives a plain float.
    """

    with_constant: float

    def __new__(
        cls, operations: float, with_constant: float = 0.0
    ) -> "Forward":
        """All operations, and those with a single gradient."""
        number = super().__new__(cls, operations)
        number.with_constant = with_constant
        return number

    def __add__(self, other: float) -> "Forward":
        """The sum of both, of either kind."""
        constant = self.with_constant + getattr(other, "with_constant", 0.0)
        return Forward(float(self) + float(other), constant)

    __radd__ = __add__


class Sizes(NamedTuple):
    """Everything that the number of operations depends on."""

    encoder: config.EncoderConfig  # the main encoder's, `vocab_size` not 0
    generator: config.GeneratorConfig
    length: int  # tokens of a row, S
    num_predictions: int  # masked slots of a row, P


class Convention(abc.ABC):
    """A way of counting, by the cost of encoder, heads and training."""

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

    def generator(self) -> float:
        """Forward operations of the generator on one row, of any kind."""
        kind = self.sizes.generator
        if not kind.has_encoder:
            return 0.0
        sizes = self._generator_sizes()
        if not kind.two_tower_generator:
            return self._masked_lm(sizes)
        towers = self._encoder(sizes) + self._encoder(sizes)
        width = 2 * sizes.hidden_size
        return towers + self._vocabulary_head(sizes, width, True)

    def discriminator(self) -> float:
        """Forward operations of the encoder and the replaced-token head."""
        return self._encoder(self.sizes.encoder) + self._replaced_token_head()

    def masked_lm(self) -> float:
        """Forward operations of the encoder as a masked LM (BERT)."""
        return self._masked_lm(self.sizes.encoder)

    def all_tokens_masked_lm(self) -> float:
        """Forward operations with vocabulary and copy head on every token."""
        sizes = self.sizes.encoder
        head = self._vocabulary_head(sizes, sizes.hidden_size, True)
        copy = 2.0 * self.sizes.length * sizes.hidden_size
        return self._encoder(sizes) + head + copy

    def _generator_sizes(self) -> config.EncoderConfig:
        return self.sizes.generator.encoder_config(self.sizes.encoder)

    def _masked_lm(self, sizes: config.EncoderConfig) -> float:
        head = self._vocabulary_head(sizes, sizes.hidden_size, False)
        return self._encoder(sizes) + head

    @abc.abstractmethod
    def reward_baseline(self) -> float:
        """Forward operations of REINFORCE's baseline: a logit per slot."""

    @abc.abstractmethod
    def soft_lookup(self) -> float:
        """Forward operations of embedding soft samples (straight-through)."""

    @abc.abstractmethod
    def trained(self, forward: float) -> float:
        """Operations forward and backward of a part, or a sum of parts."""

    @abc.abstractmethod
    def _encoder(self, sizes: config.EncoderConfig) -> float:
        """Forward operations of an encoder on one row."""

    @abc.abstractmethod
    def _vocabulary_head(
        self, sizes: config.EncoderConfig, width: int, is_everywhere: bool
    ) -> float:
        """Operations of a masked-LM head that scores masked tokens, or all."""

    @abc.abstractmethod
    def _replaced_token_head(self) -> float:
        """Forward operations of the replaced-token head on one row."""


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

    @property
    def _embedding(self) -> int:
        return self.embedding_size or self.hidden_size

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
        width = self._embedding
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
        width = self._embedding
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

    Two-tower generators and the copy logit have no formula there; they are
    composed of its formulas.
    """

    name = "original"

    def trained(self, forward: float) -> float:
        """Twice forward: the original counts backward as one forward."""
        return 2.0 * forward

    def reward_baseline(self) -> float:
        """One product on the original's share of the tokens."""
        width = self._generator_sizes().hidden_size
        share = OUTPUT_FRACTION
        return 2.0 * share * self.sizes.length * width

    def soft_lookup(self) -> float:
        """Nothing: every lookup counts as such a product already."""
        return 0.0

    def _transformer(self, sizes: config.EncoderConfig) -> OriginalTransformer:
        return OriginalTransformer(
            hidden_size=sizes.hidden_size,
            num_layers=sizes.num_hidden_layers,
            length=self.sizes.length,
            vocab_size=sizes.vocab_size,
            embedding_size=sizes.embedding_size,
            intermediate_size=sizes.intermediate_size,
            num_heads=sizes.num_attention_heads,
        )

    def _encoder(self, sizes: config.EncoderConfig) -> float:
        return self._transformer(sizes).encoder()

    def _vocabulary_head(
        self, sizes: config.EncoderConfig, width: int, is_everywhere: bool
    ) -> float:
        return dataclasses.replace(
            self._transformer(sizes),
            hidden_size=width,
            output_fraction=1.0 if is_everywhere else OUTPUT_FRACTION,
        ).output()

    def _replaced_token_head(self) -> float:
        return self._transformer(self.sizes.encoder).binary()


class ExactConvention(Convention):
    """Matrix products of the executed graph: 2 m n k for `[m, k] [k, n]`.

    Lookups of tokens and positions are gathers and cost nothing; segments
    are a product with a one-hot (`embeddings.py`). Padding is computed like
    any token, unused slots like any slot.
    """

    name = "exact"

    def trained(self, forward: float) -> float:
        """Forward, and one product of equal size for each gradient."""
        return 3.0 * forward - getattr(forward, "with_constant", 0.0)

    def reward_baseline(self) -> Forward:
        """One product; no gradient goes on into the generator's states."""
        width = self._generator_sizes().hidden_size
        product = 2.0 * self.sizes.num_predictions * width
        return Forward(product, product)

    def soft_lookup(self) -> Forward:
        """The product with the table, and one that puts it into the text."""
        # The table and the places of the slots are constants here.
        table = self.sizes.encoder
        per_slot = table.embedding_size * (table.vocab_size + self.sizes.length)
        product = 2.0 * self.sizes.num_predictions * per_slot
        return Forward(product, product)

    def _encoder(self, sizes: config.EncoderConfig) -> Forward:
        width, inner = sizes.hidden_size, sizes.intermediate_size
        # Query, key, value, output; scores and context; feed-forward.
        block = 4 * width * width + 2 * self.sizes.length * width
        block += 2 * width * inner
        per_token = sizes.num_hidden_layers * block
        if sizes.embedding_size != width:
            per_token += sizes.embedding_size * width
        segments = sizes.type_vocab_size * sizes.embedding_size
        twice = 2.0 * self.sizes.length
        return Forward(twice * (per_token + segments), twice * segments)

    def _vocabulary_head(
        self, sizes: config.EncoderConfig, width: int, is_everywhere: bool
    ) -> float:
        positions = self.sizes.num_predictions
        if is_everywhere:
            positions = self.sizes.length
        per_position = sizes.embedding_size * (width + sizes.vocab_size)
        return 2.0 * positions * per_position

    def _replaced_token_head(self) -> float:
        width = self.sizes.encoder.hidden_size
        return 2.0 * self.sizes.length * width * (width + 1)


CONVENTIONS: Mapping[str, type[Convention]] = {
    convention.name: convention
    for convention in (OriginalConvention, ExactConvention)
}
"""Name to the way of counting."""
