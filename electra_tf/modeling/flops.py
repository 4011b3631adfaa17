"""Floating-point operations of the matrix products, from sizes alone.

What a share of the hardware's peak is measured against: multiplications and
additions of the matrix products that a step needs, forward once and backward
twice. Norms, softmax and dropout do not count.
"""

from electra_tf import config


def encoder_flops(
    settings: config.EncoderConfig, num_rows: int, length: int
) -> float:
    """Forward operations of one encoder on `[num_rows, length]` ids."""
    width, inner = settings.hidden_size, settings.intermediate_size
    attention = 2 * length * width  # scores and context, per token
    per_token = (
        settings.num_hidden_layers
        * 2
        * (4 * width * width + 2 * width * inner + attention)
    )
    if settings.embedding_size != width:
        per_token += 2 * settings.embedding_size * width
    return float(num_rows * length * per_token)


def masked_lm_head_flops(
    settings: config.EncoderConfig, num_predictions: int
) -> float:
    """Forward operations of the vocabulary head on some positions."""
    return (
        2.0
        * num_predictions
        * settings.embedding_size
        * (settings.hidden_size + settings.vocab_size)
    )


def discriminator_head_flops(
    settings: config.EncoderConfig, num_tokens: int
) -> float:
    """Forward operations of the replaced-token head."""
    return 2.0 * num_tokens * settings.hidden_size * (settings.hidden_size + 1)


def training_step_flops(
    encoder: config.EncoderConfig,
    generator: config.GeneratorConfig,
    num_rows: int,
    length: int,
    num_predictions: int,
) -> float:
    """Operations of one training step on both towers.

    Args:
        encoder: the discriminator's sizes, vocabulary included.
        generator: the generator's fractions.
        num_rows: rows of the global batch.
        length: tokens of a row.
        num_predictions: slots of a row.

    Returns:
        Forward and backward operations, backward counted as twice forward.
    """
    forward = encoder_flops(encoder, num_rows, length)
    forward += discriminator_head_flops(encoder, num_rows * length)
    if not generator.uniform_generator:
        sizes = generator.encoder_config(encoder)
        forward += encoder_flops(sizes, num_rows, length)
        forward += masked_lm_head_flops(sizes, num_rows * num_predictions)
    return 3.0 * forward
