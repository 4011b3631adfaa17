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
from electra_tf.modeling import original_flops


class Forward(float):
    """Forward operations, some of which have a single gradient.

    A product has two gradients, one for each factor, unless a factor is a
    constant. Sums remember how many such operations they hold; any other
    arithmetic gives a plain float.

    Args:
        operations: all of them.
        with_constant: those of products with a constant.
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
        constant = getattr(other, "with_constant", 0.0)
        return Forward(
            float(self) + float(other), self.with_constant + constant
        )

    __radd__ = __add__


class Sizes(NamedTuple):
    """Everything that the number of operations depends on.

    Attributes:
        encoder: the main encoder's, `vocab_size` not 0.
        generator: the generator's kind and fractions.
        length: tokens of a row, S.
        num_predictions: masked slots of a row, P.
    """

    encoder: config.EncoderConfig
    generator: config.GeneratorConfig
    length: int
    num_predictions: int


class Convention(abc.ABC):
    """A way of counting; the parts are what objectives are made of.

    A new convention says what an encoder, the heads and training cost.

    Args:
        sizes: of the model and its rows.

    Raises:
        ValueError: if the vocabulary's size is not known.
    """

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
        """Forward operations of the generator on one row, of any kind.

        A masked LM scores its slots; the two-tower model scores all tokens,
        from the states of two encoders side by side; generators without an
        encoder cost nothing.
        """
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
        """Forward operations with the vocabulary head on every token.

        The copy mechanism (paper, 3.5) adds one logit per token, a product
        of width D.
        """
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
        """Forward operations of embedding distributions over the vocabulary.

        For the masked slots, instead of sampled ids (straight-through).
        """

    @abc.abstractmethod
    def trained(self, forward: float) -> float:
        """Operations forward and backward.

        Args:
            forward: what a part, or a sum of parts, costs forward.
        """

    @abc.abstractmethod
    def _encoder(self, sizes: config.EncoderConfig) -> float:
        """Forward operations of an encoder on one row."""

    @abc.abstractmethod
    def _vocabulary_head(
        self, sizes: config.EncoderConfig, width: int, is_everywhere: bool
    ) -> float:
        """Forward operations of a masked-LM head on one row.

        Args:
            sizes: of the encoder whose token table it uses.
            width: of the states that it reads.
            is_everywhere: scores all tokens, not the masked ones alone.
        """

    @abc.abstractmethod
    def _replaced_token_head(self) -> float:
        """Forward operations of the replaced-token head on one row."""


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
        share = original_flops.OUTPUT_FRACTION
        return 2.0 * share * self.sizes.length * width

    def soft_lookup(self) -> float:
        """Nothing: every lookup counts as such a product already."""
        return 0.0

    def _transformer(
        self, sizes: config.EncoderConfig
    ) -> original_flops.OriginalTransformer:
        return original_flops.OriginalTransformer(
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
            output_fraction=1.0
            if is_everywhere
            else original_flops.OUTPUT_FRACTION,
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
        """Forward, and one product of equal size for each gradient.

        Every product has two gradients but that of the segments, whose
        one-hot is a constant.
        """
        return 3.0 * forward - getattr(forward, "with_constant", 0.0)

    def reward_baseline(self) -> Forward:
        """One product; no gradient goes on into the generator's states."""
        width = self._generator_sizes().hidden_size
        product = 2.0 * self.sizes.num_predictions * width
        return Forward(product, product)

    def soft_lookup(self) -> Forward:
        """The product with the table, and one that puts it into the text.

        The table and the places of the slots are constants here.
        """
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
        return 2.0 * positions * sizes.embedding_size * (
            width + sizes.vocab_size
        )  # fmt: skip

    def _replaced_token_head(self) -> float:
        width = self.sizes.encoder.hidden_size
        return 2.0 * self.sizes.length * width * (width + 1)


CONVENTIONS: Mapping[str, type[Convention]] = {
    convention.name: convention
    for convention in (OriginalConvention, ExactConvention)
}
"""Name to the way of counting."""
