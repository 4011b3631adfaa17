"""What all studies share: a small model that leaves the unigram plateau.

Four layers of 128 with the recipe of `configs/pretrain/scaled.py`, a generator
of half the width, the paper's temperature of 1, rows of 64 tokens. An arm of
`electra` reads 57 M tokens. Change a study's length with `--num_train_steps`;
warm-up and other schedules keep their share.
"""

import pathlib

import ml_collections

from electra_tf import config
from electra_tf.config import schema

_SCALED = pathlib.Path(__file__).parent.parent / "pretrain" / "scaled.py"


def get_config() -> ml_collections.ConfigDict:
    """The settings of an arm that changes nothing."""
    settings = schema.replace_fields(
        config.load_file(_SCALED, "128x4"),
        generator={"generator_hidden_size": 0.5, "num_attention_heads": 0},
        objective={
            "name": "electra",
            "generator_steps": 0,
            "freeze_generator": True,
        },
        data={"max_seq_length": 64},
        optimizer={"num_warmup_steps": 350},
        training={
            "num_train_steps": 7_000,
            "train_batch_size": 128,
            "log_steps": 250,
            "eval_steps": 500,
            "num_eval_batches": 30,
            "save_checkpoints_steps": 1_000,
            "keep_checkpoints": 1,
        },
    )
    return config.to_config_dict(settings)
