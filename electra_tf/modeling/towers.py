"""The towers of a config, with the weights that they share.

The *main tower* holds the encoder that is kept after pre-training, named
`electra`; the generator proposes tokens. Tying hands the same layer object to
both: `none` shares nothing, `embeddings` the embedding layer (tokens,
positions, segments and their normalization, as in the original), `all` the
whole encoder.
"""

import dataclasses
from typing import Any
from typing import NamedTuple

import numpy as np

from electra_tf import config
from electra_tf.modeling import discriminator as discriminator_lib
from electra_tf.modeling import encoder as encoder_lib
from electra_tf.modeling import generators

MAIN_ENCODER = discriminator_lib.MAIN_ENCODER


class Towers(NamedTuple):
    """The generator of a model, if any, and the network that is kept."""

    generator: Any
    main: Any


def resolve_vocab_size(
    encoder: config.EncoderConfig, vocab_size: int
) -> config.EncoderConfig:
    """The encoder's config with the vocabulary's size in it."""
    if encoder.vocab_size not in (0, vocab_size):
        raise ValueError(
            "`encoder.vocab_size` must be the vocabulary's size, or 0 to take "
            f"it. Received: encoder.vocab_size={encoder.vocab_size}, "
            f"vocabulary of {vocab_size} entries. Set "
            f"--config.encoder.vocab_size={vocab_size}, or use the vocabulary "
            "that the config was made for."
        )
    return dataclasses.replace(encoder, vocab_size=vocab_size)


def build_discriminator(
    settings: config.EncoderConfig, dtype: Any = None
) -> discriminator_lib.Discriminator:
    """The discriminator, named as in the original."""
    return discriminator_lib.Discriminator(settings, dtype=dtype)


def build_masked_lm(
    settings: config.EncoderConfig, head_name: str, dtype: Any = None
) -> generators.MaskedLMGenerator:
    """A masked language model around a main encoder."""
    return generators.MaskedLMGenerator(
        settings, head_name, MAIN_ENCODER, dtype=dtype
    )


def build_generator(
    settings: config.GeneratorConfig,
    main_encoder: encoder_lib.Encoder,
    main_settings: config.EncoderConfig,
    token_counts: np.ndarray | None = None,
    dtype: Any = None,
) -> Any:
    """The generator of a config, any class of `generators`."""
    vocab_size = main_settings.vocab_size
    if settings.uniform_generator:
        return generators.FixedGenerator(vocab_size, name="uniform")
    if settings.unigram_generator:
        if token_counts is None:
            raise ValueError(
                "`generator.unigram_generator` needs the token counts of the "
                "dataset, which its builder records. Received: none."
            )
        return generators.FixedGenerator(
            vocab_size, token_counts, name="unigram"
        )
    return build_sized_generator(
        settings.encoder_config(main_settings),
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
    """A generator of these sizes that shares weights as `tying` says."""
    if tying == "all":
        return generators.MaskedLMGenerator(
            sizes, encoder=main_encoder, dtype=dtype
        )
    shared = main_encoder.embeddings if tying == "embeddings" else None
    if is_two_tower:
        return generators.TwoTowerGenerator(sizes, shared, dtype=dtype)
    return generators.MaskedLMGenerator(sizes, embeddings=shared, dtype=dtype)
