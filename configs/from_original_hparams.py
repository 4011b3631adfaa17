"""The settings of a hyper-parameter JSON that was written for the original.

Command:
    electra-pretrain --model_dir=DIR/model \
        --config=configs/from_original_hparams.py:hparams.json \
        --config.data.dataset_dir=DIR/dataset

Model sizes, objective and schedule come from the file. What it asks for and
this project does not have is refused by name.
"""

import json
import pathlib

import ml_collections

from electra_tf import config
from electra_tf.formats import original_hparams


def get_config(path: str) -> ml_collections.ConfigDict:
    """The settings of one file.

    Args:
        path: the JSON file, as given to the original's `--hparams`.
    """
    hparams = json.loads(pathlib.Path(path).read_text("utf-8"))
    return config.to_config_dict(
        original_hparams.from_original_hparams(hparams)
    )
