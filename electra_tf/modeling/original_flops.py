"""What a Transformer costs by the original's formulas (`flops_computation.py`).

Only the formulas and their quirks; `flops.py` makes a convention of them.
"""

import dataclasses

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
class OriginalTransformer:
    """A Transformer's operations by the original's formulas, for one row.

    The defaults are the original's. Its quirks are kept: see the comments.

    Attributes:
        hidden_size: width, `h` in the original.
        num_layers: blocks, `l`.
        length: tokens of a row, `s`.
        vocab_size: `v`.
        embedding_size: `e`; None: that of the layers.
        intermediate_size: `i`; None: four times the width.
        num_heads: None: one per 64 of the width, at least one.
        head_size: None: query, key and value are as wide as the layers.
        output_fraction: share of the tokens that the output softmax scores.
        sparse_embed_lookup: token lookups cost nothing.
        decoder: every block attends to an encoder too.

    Raises:
        ValueError: if there is a head size without a number of heads.
    """

    hidden_size: int
    num_layers: int
    length: int = 512
    vocab_size: int = 30522
    embedding_size: int | None = None
    intermediate_size: int | None = None
    num_heads: int | None = None
    head_size: int | None = None
    output_fraction: float = OUTPUT_FRACTION
    sparse_embed_lookup: bool = False
    decoder: bool = False

    def __post_init__(self) -> None:
        if self.head_size is not None and self.num_heads is None:
            raise ValueError(
                "`head_size` needs `num_heads`. Received: "
                f"head_size={self.head_size}, num_heads=None. Give both."
            )

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
