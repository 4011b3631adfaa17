"""All-Tokens MLM: every token is predicted, most by copying (Table 5).

Command:
    electra-pretrain --model_dir=runs/all_tokens_mlm \
        --config=configs/pretrain/all_tokens_mlm.py \
        --config.data.dataset_dir=DIR

Hardware and time: a softmax over the vocabulary at every position; see
`electra-plan` for the cost.
Expected: GLUE dev average 84.3 (paper, section 3.5), against 85.0 of ELECTRA.
Not yet run with this code at this size; `configs/studies/table5.py` has a tiny
one.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config() -> ml_collections.ConfigDict:
    """Base with a generator and a copy mechanism."""
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "all_tokens_mlm"
    return settings
