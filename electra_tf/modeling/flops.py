"""Counts the floating-point operations of networks from their sizes.

The convention `original` counts as `flops_computation.py` does (paper, appendix
E), for comparison with published numbers. `exact` counts the matrix products of
our graph, as TensorFlow's profiler does, for the share of a device's peak rate.
All counts are for one row.
"""

import dataclasses

from electra_tf import config
from electra_tf.inputs import masking

# Operations per entry, constants of the original's `flops_computation.py`,
# which counts an exponential like an addition.
_DROPOUT = 4  # random number, comparison, product with the mask, rescaling
_LAYER_NORM = 5  # mean, square and sum, bias, scale
_ACTIVATION = 8  # of gelu in its tanh form; our erf form counts the same
_SOFTMAX = 5  # maximum, difference, exponential, sum, quotient

# The share of tokens that the original's count scores against the vocabulary:
# 20 of 128, whatever `mask_prob` is.
OUTPUT_FRACTION = 0.15625


@dataclasses.dataclass(frozen=True)
class Operations:
    """Floating-point operations of one part of the model, or of several."""

    forward: float
    backward: float

    def __add__(self, other: "Operations") -> "Operations":
        """Adds the operations of two parts."""
        return Operations(
            self.forward + other.forward, self.backward + other.backward
        )

    @property
    def total(self) -> float:
        """Operations forward and backward."""
        return self.forward + self.backward

    @property
    def frozen(self) -> "Operations":
        """The operations if the part is not trained: no backward pass."""
        return Operations(self.forward, 0.0)


@dataclasses.dataclass(frozen=True)
class OriginalTransformer:
    """Counts a Transformer's forward operations by the original's formulas."""

    hidden_size: int  # `h` in the original
    num_layers: int  # `l`
    length: int = 512  # tokens of a row, `s`
    vocab_size: int = 30522  # `v`
    embedding_size: int | None = None  # `e`; None: `hidden_size`
    intermediate_size: int | None = None  # `i`; None: 4 * `hidden_size`
    num_heads: int | None = None  # None: `hidden_size` // 64
    head_size: int | None = None  # None: `hidden_size` // `num_heads`
    output_fraction: float = OUTPUT_FRACTION  # tokens that the softmax scores
    sparse_embed_lookup: bool = False  # token lookups cost nothing
    decoder: bool = False  # every block also attends to an encoder
    num_segments: int = 2  # read by `_ExactTransformer`
    entry_bytes: int = 4  # of a saved activation; read by `SavedTransformer`
    recomputes: bool = False  # as `Encoder.recomputes`

    def block(self) -> float:
        """Counts one block."""
        width = self.hidden_size
        inner = self.intermediate_size or 4 * width
        dense = 2 * width * inner
        up = dense + (_ACTIVATION + 1) * inner  # and its bias
        # Bias, dropout, residual, norm.
        down = dense + (1 + _DROPOUT + 1 + _LAYER_NORM) * width
        attention = self._attention() * (2 if self.decoder else 1)
        return float(self.length * (attention + up + down))

    def _attention(self) -> int:
        width, length = self.hidden_size, self.length
        heads = self.num_heads or max(width // 64, 1)
        # Width of query, key and value.
        inner = heads * self.head_size if self.head_size else width
        query_key_value = 3 * (2 * width * inner + inner)
        scores = 2 * inner * length
        # Scale, softmax, dropout of the weights.
        weights = (1 + _SOFTMAX + _DROPOUT) * length * heads
        # As in the original, the output is `width` wide even where `inner`
        # differs, and the norm counts 5 operations a token, not an entry.
        context = 2 * width * length
        output = 2 * width * width + (1 + _DROPOUT + 1) * width
        return (
            query_key_value + scores + weights + context + output + _LAYER_NORM
        )

    def embedding(self) -> float:
        """Counts the embeddings and their projection."""
        width = self.embedding_size or self.hidden_size
        # Positions and segments are products with one-hots in all cases.
        per_token = 2 * width * (self.length + 2) + 2 * width
        per_token += (_LAYER_NORM + _DROPOUT) * width
        if not self.sparse_embed_lookup:
            per_token += 2 * width * self.vocab_size
        if width != self.hidden_size:
            per_token += 2 * width * self.hidden_size + self.hidden_size
        return float(self.length * per_token)

    def output(self) -> float:
        """Counts the vocabulary head and its softmax."""
        width = self.embedding_size or self.hidden_size
        # The dense layer has a bias, gelu and a norm.
        dense = 2 * self.hidden_size * width
        dense += (1 + _ACTIVATION + _LAYER_NORM) * width
        table = 2 * width * self.vocab_size
        loss = (_SOFTMAX + 2) * self.vocab_size  # 2 for the target's one-hot
        return self.output_fraction * (dense + table + loss) * self.length

    def binary(self) -> float:
        """Counts the head with one logit per token."""
        width = self.hidden_size
        dense = 2 * width * width + (1 + _ACTIVATION) * width
        return float(self.length * (dense + 2 * width))

    def encoder(self) -> float:
        """Counts embeddings and blocks."""
        return self.embedding() + self.num_layers * self.block()


class _ExactTransformer(OriginalTransformer):
    """Counts the matrix products of our graph: 2 m n k for `[m, k] [k, n]`.

    Lookups of tokens and positions cost nothing; segments are a product with
    a one-hot. Padding and unused slots cost as much as others.
    """

    def block(self) -> float:
        width = self.hidden_size
        # Query, key, value, output; scores and context; feed-forward.
        per_token = 4 * width * width + 2 * self.length * width
        per_token += 2 * width * (self.intermediate_size or 4 * width)
        return 2.0 * self.length * per_token

    def embedding(self) -> float:
        width = self.embedding_size or self.hidden_size
        per_token = self.num_segments * width
        if width != self.hidden_size:
            per_token += width * self.hidden_size
        return 2.0 * self.length * per_token

    def output(self) -> float:
        width = self.embedding_size or self.hidden_size
        per_token = width * (self.hidden_size + self.vocab_size)
        return 2.0 * round(self.output_fraction * self.length) * per_token

    def binary(self) -> float:
        return 2.0 * self.length * self.hidden_size * (self.hidden_size + 1)


class SavedTransformer(OriginalTransformer):
    """Counts the bytes that the forward pass keeps for the backward pass.

    It keeps the inputs of products, in the compute dtype, attention weights in
    float32 as well, and seven float32 tensors as large as the logits: fitted
    to the peak memory of processes on a CPU (docs/pretraining.md).
    """

    def block(self) -> float:
        """Counts one block."""
        scores = (self.num_heads or 1) * self.length
        entries = 6 * self.hidden_size + (self.intermediate_size or 0)
        entries += 2 * scores  # attention weights before and after dropout
        return float(self.length * (self.entry_bytes * entries + 4 * scores))

    def embedding(self) -> float:
        """Counts the inputs of the LayerNorm and of the projection."""
        width = self.embedding_size or self.hidden_size
        return 2.0 * self.entry_bytes * self.length * width

    def output(self) -> float:
        """Counts the logits of the vocabulary head."""
        slots = round(self.output_fraction * self.length)
        return 7 * 4.0 * slots * self.vocab_size

    def binary(self) -> float:
        """Counts the head with one logit per token."""
        return 2.0 * self.entry_bytes * self.length * self.hidden_size

    def encoder(self) -> float:
        """Counts embeddings and blocks (one block if they are recomputed)."""
        if not self.recomputes:
            return super().encoder()
        inputs = 4.0 * self.num_layers * self.length * self.hidden_size
        return self.embedding() + self.block() + inputs


_TRANSFORMERS = {
    "original": OriginalTransformer,
    "exact": _ExactTransformer,
    "saved": SavedTransformer,
}


class Convention:
    """Counts the networks of a config by one of `_TRANSFORMERS`.

    `original` counts a backward pass like a forward pass; two-tower generators
    and the copy logit, for which it has no formula, are sums of others. `exact`
    counts one product backward for each factor with a gradient. `saved` counts
    as `backward` the bytes that training keeps for the backward pass.
    """

    def __init__(self, name: str, settings: config.ExperimentConfig) -> None:
        self.settings = settings
        self._main, self._kind = settings.encoder, settings.generator
        if self._main.vocab_size < 1:
            raise ValueError(
                "Counting operations needs the size of the vocabulary. "
                f"Received: encoder.vocab_size={self._main.vocab_size}, which "
                "stands for the size of a dataset's vocabulary. Set "
                "--config.encoder.vocab_size, for example to 30522."
            )
        self._length = settings.data.max_seq_length
        self._name = name
        # The tokens of a row that a masked LM scores against the vocabulary.
        self._num_scored = OUTPUT_FRACTION * self._length
        if name != "original":
            self._num_scored = masking.max_predictions_per_seq(
                settings.masking.largest_mask_prob, self._length
            )

    def generator(self) -> Operations:
        """Counts the generator, of any kind."""
        if not self._kind.has_encoder:
            return Operations(0.0, 0.0)
        sizes = self._kind.encoder_config(self._main)
        if not self._kind.two_tower_generator:
            return self._masked_lm(sizes)
        towers = self._encoder(sizes) + self._encoder(sizes)
        wide = dataclasses.replace(sizes, hidden_size=2 * sizes.hidden_size)
        return towers + self._part(self._transformer(wide, 1.0).output())

    def encoder(self) -> Operations:
        """Counts the main encoder without a head."""
        return self._encoder(self._main)

    def discriminator(self) -> Operations:
        """Counts the main encoder and the replaced-token head."""
        head = self._part(self._transformer(self._main).binary())
        return self._encoder(self._main) + head

    def masked_lm(self) -> Operations:
        """Counts the main encoder and a masked-LM head."""
        return self._masked_lm(self._main)

    def copying_masked_lm(self) -> Operations:
        """Counts the main encoder, its vocabulary head and its copy head."""
        head = self._transformer(self._main, 1.0).output()
        copy = 2.0 * self._length * self._main.hidden_size
        return self._encoder(self._main) + self._part(head + copy)

    def reward_baseline(self) -> Operations:
        """Counts REINFORCE's baseline, one logit for each slot's state."""
        sizes = self._kind.encoder_config(self._main)
        product = 2.0 * self._num_scored * sizes.hidden_size
        return self._part(product, product)

    def row_head(self) -> Operations:
        """Counts a head like the discriminator's on one state of the row."""
        return self._part(self._transformer(self._main).binary() / self._length)

    def soft_lookup(self) -> Operations:
        """Counts the embeddings of soft samples, put in at their positions."""
        if self._name != "exact":
            # The original counts every lookup as a product with one-hots.
            return Operations(0.0, 0.0)
        # Table and positions get no gradient.
        width, vocab_size = self._main.embedding_size, self._main.vocab_size
        product = 2.0 * self._num_scored * width * (vocab_size + self._length)
        return self._part(product, product)

    def _masked_lm(self, sizes: config.EncoderConfig) -> Operations:
        share = self._num_scored / self._length
        head = self._transformer(sizes, share).output()
        return self._encoder(sizes) + self._part(head)

    def _encoder(self, sizes: config.EncoderConfig) -> Operations:
        # The one-hots of the segments get no gradient.
        segments = 2.0 * self._length * sizes.type_vocab_size
        segments *= sizes.embedding_size
        counted = self._transformer(sizes)
        learning = self._part(counted.encoder(), segments)
        if counted.recomputes and self._name == "exact":
            again = counted.num_layers * counted.block()
            learning += Operations(0.0, again)
        return learning

    def _part(self, forward: float, with_constant: float = 0.0) -> Operations:
        if self._name == "saved":
            return Operations(0.0, forward)
        if self._name == "original":
            return Operations(forward, forward)
        return Operations(forward, 2.0 * forward - with_constant)

    def _transformer(
        self, sizes: config.EncoderConfig, output_fraction: float = 0.0
    ) -> OriginalTransformer:
        is_single = self.settings.training.precision == "float32"
        return _TRANSFORMERS[self._name](
            sizes.hidden_size,
            sizes.num_hidden_layers,
            self._length,
            sizes.vocab_size,
            sizes.embedding_size,
            sizes.intermediate_size,
            sizes.num_attention_heads,
            output_fraction=output_fraction,
            num_segments=sizes.type_vocab_size,
            entry_bytes=4 if is_single else 2,
            recomputes=self.settings.training.recompute,
        )
