"""Electric: an energy model by noise-contrastive estimation, Base size.

Command:
    electra-pretrain --model_dir=runs/electric \
        --config=configs/pretrain/electric.py \
        --config.data.dataset_dir=DIR

A two-tower cloze model of a quarter of the width proposes 15 % noise; sizes
and schedule as in the Electric paper (arXiv 2012.08561, section 3): 700,000
steps of 256 rows, learning rate 5e-4.

Hardware and time: as `electra_base.py`; the cloze model scores every token.
Expected: GLUE dev average 84.1 (Electric paper); pseudo-log-likelihoods in one
pass, which re-rank better than those of a masked LM in n passes.
Not yet run with this code.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config() -> ml_collections.ConfigDict:
    """Electric-Base."""
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "electric"
    settings.generator.two_tower_generator = True
    settings.generator.generator_hidden_size = 0.25
    settings.optimizer.learning_rate = 5e-4
    settings.training.num_train_steps = 700_000
    settings.training.train_batch_size = 256
    return settings
