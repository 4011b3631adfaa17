"""Any size by one dial: `scaled.py:WIDTHxDEPTH` or `WIDTHxDEPTH:TOKENS`.

Command:
    python scripts/run_pretraining.py --model_dir=DIR/model \
        --config=configs/pretrain/scaled.py:128x2:40M \
        --config.data.dataset_dir=DIR/dataset

Width and depth of the discriminator set everything else: heads, generator,
initializer, rate, length of rows, batch and steps, for a budget of tokens
(default: 20 for each weight of the discriminator's layers). Build records with
`--max_seq_length=32` for less than 100 M tokens, 128 for more; another length
needs `--config.data.max_seq_length`.
Hardware and time: two CPU cores read 30,000 tokens a second at 128x2.
Expected: docs/small_models.md has measured runs and the reasons for the rules.
"""

import re

import ml_collections

from electra_tf import config
from electra_tf import errors

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9}
_TOKENS_PER_WEIGHT = 20
# A model leaves the plateau after steps rather than tokens: steps are many and
# small before a step becomes larger.
_STEPS_BEFORE_LARGER_BATCHES = 20_000
# Short rows learn from fewer tokens; long ones are for what comes after.
_SHORT_ROW, _LONG_ROW, _TOKENS_FOR_LONG_ROWS = 32, 128, 100e6


def get_config(size: str = "128x2") -> ml_collections.ConfigDict:
    """The settings of a size, `128x2` or `256x4:300M`."""
    width, depth, tokens = _parse(size)
    row = _SHORT_ROW if tokens < _TOKENS_FOR_LONG_ROWS else _LONG_ROW
    batch = _batch_size(tokens, row)
    steps = max(10, round(tokens / (batch * row)))
    heads = max(1, width // (32 if width < 512 else 64))
    return config.to_config_dict(
        config.ExperimentConfig(
            encoder=config.EncoderConfig(
                vocab_size=0,
                embedding_size=width if width > 512 else min(width, 128),
                hidden_size=width,
                num_hidden_layers=depth,
                num_attention_heads=heads,
                intermediate_size=4 * width,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                initializer_range=0.0,
            ),
            generator=config.GeneratorConfig(
                generator_hidden_size=1.0, num_attention_heads=heads
            ),
            masking=config.MaskingConfig(mask_prob=0.25, replace_prob=1.0),
            objective=config.ObjectiveConfig(
                name="two_stage",
                generator_steps=min(2_500, 2 * steps // 5),
                freeze_generator=False,
            ),
            data=config.DataConfig(max_seq_length=row),
            optimizer=config.OptimizerConfig(
                learning_rate=2e-3 * (128 / max(width, 128)) ** 0.5,
                num_warmup_steps=min(1_000, steps // 20),
                beta_2=0.98,
                clip_norm=0.0,
            ),
            training=config.TrainingConfig(
                num_train_steps=steps, train_batch_size=batch
            ),
        )
    )


def _parse(size: str) -> tuple[int, int, float]:
    """Width, depth and tokens of the argument."""
    match = re.fullmatch(r"(\d+)x(\d+)(?::(\d+(?:\.\d+)?)([KMB]?))?", size)
    if match is None:
        raise errors.ConfigError(
            "Expected WIDTHxDEPTH or WIDTHxDEPTH:TOKENS, such as 128x2 or "
            f"256x4:300M. Received: {size!r}."
        )
    width, depth = int(match[1]), int(match[2])
    if match[3]:
        return width, depth, float(match[3]) * _UNITS[match[4]]
    return width, depth, _TOKENS_PER_WEIGHT * 12 * width**2 * depth


def _batch_size(tokens: float, row: int) -> int:
    """Rows of a step: 2,048 tokens, and more where there are many."""
    rows = 2048 // row
    while tokens / (rows * row) > _STEPS_BEFORE_LARGER_BATCHES:
        rows *= 2
    return rows
