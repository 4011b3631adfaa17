"""Replace-MLM: masked LM on samples instead of [MASK] (Table 5).

Command:
    electra-pretrain --model_dir=runs/replace_mlm \
        --config=configs/pretrain/replace_mlm.py \
        --config.data.dataset_dir=DIR

Hardware and time: as `electra_base.py`; a step costs 3 % more.
Expected: GLUE dev average 82.4 (paper, section 3.5), against 82.2 of BERT.
Not yet run with this code at this size; `configs/studies/table5.py` has a tiny
one.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config() -> ml_collections.ConfigDict:
    """Base with a generator, predicting tokens."""
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "replace_mlm"
    return settings
