"""Two-stage training: the generator first, then the discriminator.

Command:
    electra-pretrain --model_dir=runs/two_stage \
        --config=configs/pretrain/two_stage.py \
        --config.data.dataset_dir=DIR

Stage one lasts 250,000 steps, then the discriminator starts from the
generator's weights (paper, 3.2 and Figure 3, right: 500,000 steps in all).

Hardware and time: a full-size generator; `electra-plan` has the cost.
Expected: below joint training (paper, Figure 3).
Not yet run with this code at this size; there is a tiny one in
`configs/studies/training_algorithms.py`.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config() -> ml_collections.ConfigDict:
    """Base, generator and discriminator of one size."""
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "two_stage"
    settings.objective.generator_steps = 250_000
    settings.generator.generator_hidden_size = 1.0
    settings.generator.untied_generator_embeddings = True
    settings.training.num_train_steps = 500_000
    return settings
