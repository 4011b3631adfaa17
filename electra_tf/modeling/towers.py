"""Both towers of a config, with the weights that they share.

Tying hands the same layer object to both towers: `none` shares nothing,
`embeddings` the embedding layer (tokens, positions, segments and their
normalization, as in the original), `all` the whole encoder.
"""

import dataclasses
from typing import Any
from typing import NamedTuple

from electra_tf import config
from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import generators
from electra_tf.modeling import heads


class Towers(NamedTuple):
    """The two towers; `generator` is any class of `generators`."""

    generator: Any
    discriminator: discriminator_lib.Discriminator


def build_towers(
    encoder: config.EncoderConfig,
    generator: config.GeneratorConfig,
    vocab_size: int,
    dtype: Any = None,
) -> Towers:
    """Builds both towers with their weights.

    Args:
        encoder: the discriminator's sizes; `vocab_size` 0 or `vocab_size`.
        generator: fractions and tying.
        vocab_size: entries of the vocabulary, V.
        dtype: Keras dtype policy.

    Raises:
        ValueError: if the two vocabulary sizes differ.
    """
    if encoder.vocab_size not in (0, vocab_size):
        raise ValueError(
            "`encoder.vocab_size` must be the vocabulary's size, or 0 to take "
            f"it. Received: encoder.vocab_size={encoder.vocab_size}, "
            f"vocabulary of {vocab_size} entries. Set "
            f"--config.encoder.vocab_size={vocab_size}, or use the vocabulary "
            "that the config was made for."
        )
    encoder = dataclasses.replace(encoder, vocab_size=vocab_size)
    discriminator = build_discriminator(encoder, dtype)
    if generator.uniform_generator:
        uniform = generators.UniformGenerator(vocab_size, name="uniform")
        return Towers(uniform, discriminator)
    return Towers(
        _build_masked_lm(encoder, generator, discriminator, dtype),
        discriminator,
    )


def build_discriminator(
    settings: config.EncoderConfig, dtype: Any = None
) -> discriminator_lib.Discriminator:
    """The discriminator alone, named as in the original."""
    encoder = encoder_lib.build_encoder(settings, "electra", dtype=dtype)
    head = heads.ReplacedTokenHead(
        settings.hidden_size,
        settings.initializer_range,
        name="discriminator_predictions",
        dtype=dtype,
    )
    head.build()
    return discriminator_lib.Discriminator(encoder, head, dtype=dtype)


def _build_masked_lm(
    settings: config.EncoderConfig,
    generator: config.GeneratorConfig,
    discriminator: discriminator_lib.Discriminator,
    dtype: Any,
) -> generators.MaskedLMGenerator:
    sizes = generator.encoder_config(settings)
    if generator.weight_tying == "all":
        encoder = discriminator.encoder
    else:
        shared = generator.weight_tying == "embeddings"
        encoder = encoder_lib.build_encoder(
            sizes,
            "generator",
            discriminator.encoder.embeddings if shared else None,
            dtype,
        )
    head = heads.MaskedLMHead(
        sizes.hidden_size,
        sizes.embedding_size,
        sizes.vocab_size,
        sizes.initializer_range,
        name="generator_predictions",
        dtype=dtype,
    )
    head.build()
    return generators.MaskedLMGenerator(encoder, head, dtype=dtype)
