"""ELECTRA with shared, partly shared and separate towers (section 3.2).

Command:
    electra-pretrain --model_dir=runs/weight_tying \
        --config=configs/pretrain/weight_tying.py:KIND \
        --config.data.dataset_dir=DIR

KIND is none, embeddings, disentangled or all.
Both towers have one size, so that all of it can be shared. 500,000 steps.

Hardware and time: as `electra_base.py`, and the full-size generator as much.
Expected: GLUE dev average 83.6 with nothing tied, 84.3 with the embeddings,
84.4 with all weights (paper, 3.2). `disentangled` is DeBERTa-v3's way.
Not yet run with this code at this size; `configs/studies/weight_tying.py` has a
tiny one.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config(tying: str = "all") -> ml_collections.ConfigDict:
    """Base with a full-size generator."""
    config.require_choice(
        "tying", tying, ("none", "embeddings", "disentangled", "all")
    )
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.training.num_train_steps = 500_000
    settings.generator.generator_hidden_size = 1.0
    settings.generator.untied_generator = tying != "all"
    settings.generator.untied_generator_embeddings = tying == "none"
    settings.generator.disentangled_embeddings = tying == "disentangled"
    return settings
