"""Any size by one dial: `scaled.py:[mlm:]WIDTHxDEPTH[:TOKENS[:LENGTH]]`.

Command:
    electra-pretrain --model_dir=DIR/model \
        --config=configs/pretrain/scaled.py:128x2:40M \
        --config.data.dataset_dir=DIR/dataset

Width and depth of the discriminator set everything else: heads, generator,
initializer, rate, length of rows, batch and steps, for a budget of tokens
(default: 20 for each weight of the discriminator's layers). Build records with
`--max_seq_length=32` for less than 100 M tokens, 128 for more, or with the
LENGTH that you give (`128x2:40M:64`).
`mlm:` gives a masked LM: it learned more up to 4.7e14 operations, ELECTRA at
1.57e16; between them it depended on the task (docs/results.md).
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
# Those of the paper's Base; longer runs have more of them instead.
_MOST_TOKENS_PER_STEP = 131_072
_NUM_STREAMS = 16
# Short rows learn from fewer tokens; long ones are for what comes after.
_SHORT_ROW, _LONG_ROW, _TOKENS_FOR_LONG_ROWS = 32, 128, 100e6


def get_config(size: str = "128x2") -> ml_collections.ConfigDict:
    """The settings of a size: `128x2`, `256x4:300M:64` or `mlm:128x2`."""
    is_masked_lm = size.startswith("mlm:")
    width, depth, tokens, row = _parse(size.removeprefix("mlm:"))
    batch = _batch_size(tokens, row)
    steps = max(10, round(tokens / (batch * row)))
    heads = max(1, width // (32 if width < 512 else 64))
    while width % heads:
        heads -= 1
    generator = config.GeneratorConfig(
        generator_hidden_size=1.0, num_attention_heads=heads
    )
    objective = {
        "name": "two_stage",
        "generator_steps": min(2_500, 2 * steps // 5),
        "freeze_generator": False,
    }
    if is_masked_lm:
        generator, objective = config.GeneratorConfig(), {"name": "mlm"}
    return config.to_config_dict(
        config.ExperimentConfig(
            encoder=config.EncoderConfig(
                vocab_size=0,
                embedding_size=width if width > 512 else min(width, 128),
                hidden_size=width,
                num_hidden_layers=depth,
                num_attention_heads=heads,
                intermediate_size=4 * width,
                max_position_embeddings=max(512, row),
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                initializer_range=0.0,
            ),
            generator=generator,
            masking=config.MaskingConfig(mask_prob=0.25, replace_prob=1.0),
            objective=objective,
            data=config.DataConfig(
                max_seq_length=row, num_streams=_NUM_STREAMS
            ),
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


def _parse(size: str) -> tuple[int, int, float, int]:
    """Width, depth, tokens and length of rows of the argument."""
    tokens_pattern = r"(?::(\d+(?:\.\d+)?)([KMB]?)(?::(\d+))?)?"
    match = re.fullmatch(r"(\d+)x(\d+)" + tokens_pattern, size)
    if match is None:
        raise errors.ConfigError(
            "Expected WIDTHxDEPTH, WIDTHxDEPTH:TOKENS or WIDTHxDEPTH:TOKENS:"
            "LENGTH, such as 128x2, 256x4:300M or 256x4:300M:64. Received: "
            f"{size!r}."
        )
    width, depth = int(match[1]), int(match[2])
    tokens: float = _TOKENS_PER_WEIGHT * 12 * width**2 * depth
    if match[3]:
        tokens = float(match[3]) * _UNITS[match[4]]
    row = _SHORT_ROW if tokens < _TOKENS_FOR_LONG_ROWS else _LONG_ROW
    return width, depth, tokens, int(match[5] or row)


def _batch_size(tokens: float, row: int) -> int:
    """Rows of a step: 2,048 tokens, and more where there are many."""
    rows = max(2048 // row // _NUM_STREAMS, 1) * _NUM_STREAMS
    while (
        tokens / (rows * row) > _STEPS_BEFORE_LARGER_BATCHES
        and rows * row < _MOST_TOKENS_PER_STEP
    ):
        rows *= 2
    return rows
