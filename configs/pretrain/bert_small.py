"""BERT-Small by masked language modeling (paper, Table 6).

Command:
    electra-pretrain --model_dir=runs/bert_small \
        --config=configs/pretrain/bert_small.py \
        --config.data.dataset_dir=DIR

Hardware and time: the paper took 4 days on one V100 for 1.45 M steps, the
same compute as ELECTRA-Small.
Expected: GLUE dev average 75.1 (paper, Table 1), against 79.9 of ELECTRA-Small.
Not yet run with this code.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_small.py")


def get_config() -> ml_collections.ConfigDict:
    """The baseline of the paper, Small size."""
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "mlm"
    settings.generator = config.to_config_dict(
        config.ExperimentConfig()
    ).generator
    settings.training.num_train_steps = 1_450_000
    return settings
