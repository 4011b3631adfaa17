"""ELECTRA with another generator than a small masked LM (Figure 3, left).

Command:
    electra-pretrain --model_dir=runs/generators \
        --config=configs/pretrain/generators.py:uniform|:unigram|:two_tower \
        --config.data.dataset_dir=DIR

`uniform` samples any token, `unigram` by the corpus' frequencies, which the
dataset's builder has counted; neither is trained. `two_tower` is the cloze
model of Electric with the replaced-token objective.

Hardware and time: as `electra_base.py`, less the generator's part.
Expected: the unigram generator works, below small masked LMs (paper).
Not yet run with this code at this size.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config(kind: str = "unigram") -> ml_collections.ConfigDict:
    """Base with the generator that the argument names."""
    config.require_choice("kind", kind, ("uniform", "unigram", "two_tower"))
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.training.num_train_steps = 500_000
    # The size of the two-tower model; the others have none.
    settings.generator.generator_hidden_size = 0.25
    settings.generator[f"{kind}_generator"] = True
    return settings
