"""The base of the studies: a small model that leaves the unigram plateau.

Two layers of 128 with the recipe of `configs/pretrain/scaled.py`, both networks
trained from the start, rows of 32 tokens: small enough for two CPU cores. An
arm of `electra` reads 12 M tokens. Change a study's length with
`--num_train_steps`; warm-up and other schedules keep their share.
"""

import pathlib

import ml_collections

from electra_tf import config
from electra_tf.config import schema

_SCALED = pathlib.Path(__file__).parent.parent / "pretrain" / "scaled.py"


def get_config() -> ml_collections.ConfigDict:
    """Returns the settings that every arm starts from."""
    settings = schema.replace_fields(
        config.load_file(_SCALED, "128x2"),
        objective={
            "name": "electra",
            "generator_steps": 0,
            "freeze_generator": True,
        },
        optimizer={"num_warmup_steps": 200},
        training={
            "num_train_steps": 3_000,
            "train_batch_size": 128,
            "eval_steps": 500,
            "log_steps": 500,
            "save_checkpoints_steps": 3_000,
            "keep_checkpoints": 1,
        },
    )
    return config.to_config_dict(settings)
