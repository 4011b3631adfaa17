"""ELECTRA-Base on 128 tokens for nine tenths of the steps, then on 512.

Attention over short rows is cheaper, and positions beyond 128 learn quickly.
Not the paper's recipe, which trains Base on 512 tokens throughout; BERT and
NVIDIA's ELECTRA train like this.

Command, with the records of each length in a folder of their own, DIR_128 and
DIR_512:
    electra-pretrain --config=configs/pretrain/electra_base_two_phase.py \
        --config.data.dataset_dir=DIR_{length} --model_dir=runs/base

One optimizer and one schedule for both phases.
Hardware and time: a third of Base's tokens, so some 1.3 days on 16 TPUv3 chips.
Expected: Base's, less a little; not run to the end with this code.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config() -> ml_collections.ConfigDict:
    """The settings of both phases."""
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.data.phases = "128x256:689400"
    return settings
