"""ELECTRA-15%: the discriminator judges masked positions only (Table 5).

Command:
    electra-pretrain --model_dir=runs/electra_15 \
        --config=configs/pretrain/electra_15.py \
        --config.data.dataset_dir=DIR

Hardware and time: as `electra_base.py`, whose sizes and steps it has.
Expected: GLUE dev average 82.4 (paper, section 3.5), against 85.0 of ELECTRA.
Not yet run with this code at this size; `configs/studies/table5.py` has a tiny
one.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config() -> ml_collections.ConfigDict:
    """ELECTRA-Base with the loss of 15 % of the tokens."""
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "electra_15"
    return settings
