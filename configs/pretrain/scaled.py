"""Any size by one dial: `scaled.py:WIDTHxDEPTH` or `WIDTHxDEPTH:TOKENS`.

Command:
    python scripts/run_pretraining.py --model_dir=DIR/model \
        --config=configs/pretrain/scaled.py:128x2:40M \
        --config.data.dataset_dir=DIR/dataset

Width and depth of the discriminator set everything else: heads, generator,
initializer, rate, batch and steps, for a budget of tokens (default: 20 for
each weight of the encoder). docs/small_models.md has the measurements behind
the rules and what to expect of a size. Hardware and time: two CPU cores read
10,000 to 30,000 tokens a second at 128x2.

Expected of 128x2:40M: see docs/small_models.md. The records decide the length of a row:
`--config.data.max_seq_length=128` if they are not 64 tokens long.
"""

import re

import ml_collections

from electra_tf import config

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}
_ROW = 64
_TOKENS_PER_WEIGHT = 20
_STREAMS = 8


def get_config(size: str = "128x2") -> ml_collections.ConfigDict:
    """The settings of a size, `128x2` or `256x4:300M`."""
    width, depth, tokens = _parse(size)
    wide = width > 512
    batch = _batch_size(tokens)
    steps = max(1, round(tokens / (batch * _ROW)))
    return config.to_config_dict(
        config.ExperimentConfig(
            encoder=config.EncoderConfig(
                vocab_size=0,
                embedding_size=width if wide else min(width, 128),
                hidden_size=width,
                num_hidden_layers=depth,
                num_attention_heads=max(1, width // (64 if wide else 32)),
                intermediate_size=4 * width,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                initializer_range=0.0,
            ),
            generator=config.GeneratorConfig(
                generator_hidden_size=1.0,
                num_attention_heads=max(1, width // (64 if wide else 32)),
            ),
            masking=config.MaskingConfig(mask_prob=0.25, replace_prob=1.0),
            data=config.DataConfig(max_seq_length=_ROW, num_streams=_STREAMS),
            optimizer=config.OptimizerConfig(
                learning_rate=2e-3 * (128 / width) ** 0.5,
                num_warmup_steps=max(1, min(steps // 20, 2_000)),
                beta_2=0.98,
                clip_norm=0.0,
            ),
            training=config.TrainingConfig(
                num_train_steps=steps, train_batch_size=batch
            ),
        )
    )


def _parse(size: str) -> tuple[int, int, float]:
    match = re.fullmatch(
        r"(\d+)x(\d+)(?::(\d+(?:\.\d+)?)([KMB]?))?",
        size.upper().replace("X", "x"),
    )
    if match is None:
        raise config.ConfigError(
            "Expected WIDTHxDEPTH or WIDTHxDEPTH:TOKENS, such as 128x2 or "
            f"256x4:300M. Received: {size!r}."
        )
    width, depth = int(match[1]), int(match[2])
    if match[3]:
        return width, depth, float(match[3]) * _UNITS[match[4]]
    return width, depth, _TOKENS_PER_WEIGHT * 12 * width**2 * depth


def _batch_size(tokens: float) -> int:
    """Rows of a step: 4,096 tokens, and more where there are many."""
    rows = 64
    while rows < 1024 and tokens / (rows * _ROW) > 30_000:
        rows *= 2
    return rows
