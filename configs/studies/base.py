"""What all studies share: a model small enough for hours on two CPU cores.

`configs/pretrain/tiny.py` with another length. Change a study's length with
`--num_train_steps`; warm-up and other schedules keep their share.

The generator samples at temperature 2, and every arm that samples inherits it;
masked LM does not sample and sets it back. At temperature 1, so few tokens do
not teach a discriminator of this size anything (its AUC stays near 0.55): the
arms would differ only in how little they learn. The paper has temperature 1.
"""

import pathlib

import ml_collections

from electra_tf import config

_TINY = pathlib.Path(__file__).parent.parent / "pretrain" / "tiny.py"


def get_config() -> ml_collections.ConfigDict:
    """The settings of an arm that changes nothing."""
    settings = config.to_config_dict(config.load_file(_TINY))
    settings.training.num_train_steps = 1_200
    settings.training.log_steps = 50
    settings.training.eval_steps = 400
    settings.training.num_eval_batches = 40
    settings.training.save_checkpoints_steps = 200
    settings.training.keep_checkpoints = 1
    return settings
