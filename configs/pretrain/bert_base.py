"""BERT-Base by masked language modeling, dynamic masks, one or two segments.

Command:
    electra-pretrain --model_dir=runs/bert_base \
        --config=configs/pretrain/bert_base.py[:80_10_10] \
        --config.data.dataset_dir=DIR

The argument `80_10_10` shows 80 % of the chosen tokens as [MASK], 10 % as a
random token and keeps 10 %, as BERT; without it 85 % are masked and 15 % kept,
as in the original's code, with which the paper compares.

Hardware and time: Base of the paper took 4 days on 16 TPUv3 for 1 M steps.
Expected: GLUE dev average 82.2 (paper, Table 1).
Not yet run with this code.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config(variant: str = "") -> ml_collections.ConfigDict:
    """The baseline of the paper, Base size."""
    config.require_choice("variant", variant, ("", "80_10_10"))
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "mlm"
    settings.generator = config.to_config_dict(
        config.ExperimentConfig()
    ).generator
    settings.training.num_train_steps = 1_000_000
    if variant == "80_10_10":
        settings.masking.replace_prob = 0.8
        settings.masking.random_prob = 0.1
    return settings
