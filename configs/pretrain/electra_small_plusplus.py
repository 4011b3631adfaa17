"""ELECTRA-Small++, the small model that was released with the paper's code.

Differs from Small: generator as wide as the discriminator, four times the
steps, and more data (that of XLNet; its authors cannot share it). Compare runs
on open data with Small, not with the scores of this model.

Command:
    electra-pretrain --model_dir=runs/small_plusplus \
        --config=configs/pretrain/electra_small_plusplus.py \
        --config.data.dataset_dir=DIR

Hardware and time: about six times those of Small, so 24 days on one V100.
Expected: GLUE test average 79.7 (paper, Table 8) with the original's data.
Not yet run to the end with this code.
"""

import pathlib

import ml_collections

from electra_tf import config

_SMALL = pathlib.Path(__file__).with_name("electra_small.py")


def get_config() -> ml_collections.ConfigDict:
    """Small with another generator and more steps."""
    settings = config.to_config_dict(config.load_file(_SMALL))
    settings.generator.generator_hidden_size = 1.0
    settings.training.num_train_steps = 4_000_000
    return settings
