"""ELECTRA-Base in two phases: 128 tokens for nine tenths, then 512.

Attention over short rows is cheaper, and positions beyond 128 learn quickly.
Not the paper's recipe, which trains Base on 512 tokens throughout; BERT and
NVIDIA's ELECTRA train like this.

Commands:
    electra-pretrain --model_dir=runs/base_phase1 \
        --config=configs/pretrain/electra_base_two_phase.py:1 \
        --config.data.dataset_dir=DIR_128
    electra-pretrain --model_dir=runs/base_phase2 \
        --config=configs/pretrain/electra_base_two_phase.py:2 \
        --config.data.dataset_dir=DIR_512 \
        --config.training.init_from=runs/base_phase1

The first phase has a position table of 128 rows; the second keeps them and
draws the other 384 anew. Each phase has its own schedule and optimizer.
Hardware and time: a third of Base's tokens, so some 1.3 days on 16 TPUv3 chips.
Expected: Base's, less a little; not run to the end with this code.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")
_TOTAL_STEPS = 766_000
_SECOND_PHASE_STEPS = 76_600


def get_config(phase: str = "1") -> ml_collections.ConfigDict:
    """The settings of one phase.

    Args:
        phase: `1` (128 tokens) or `2` (512 tokens).
    """
    if phase not in ("1", "2"):
        raise ValueError(
            "The phase must be 1 or 2, as in --config="
            f"electra_base_two_phase.py:1. Received: {phase!r}."
        )
    settings = config.to_config_dict(config.load_file(_BASE))
    if phase == "1":
        settings.data.max_seq_length = 128
        settings.encoder.max_position_embeddings = 128
        settings.training.num_train_steps = _TOTAL_STEPS - _SECOND_PHASE_STEPS
    else:
        settings.training.num_train_steps = _SECOND_PHASE_STEPS
        settings.optimizer.num_warmup_steps = 1_000
    return settings
