"""ELECTRA with a sentence-level loss: which of two segments comes first.

Command:
    electra-pretrain --config=configs/pretrain/sentence_order.py \
        --config.data.dataset_dir=DIR --model_dir=runs/sentence_order

Hardware and time: as `electra_small.py`; the second loss costs a head on [CLS].
Expected: better scores where two texts are compared (ALBERT, section 3.1, for
masked LM; nobody has told for replaced-token detection).
Not yet run with this code at this size; `configs/studies/family.py` has a tiny
one.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_small.py")


def get_config() -> ml_collections.ConfigDict:
    """Small, with the order of the segments as a second question."""
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "sentence_order"
    return settings
