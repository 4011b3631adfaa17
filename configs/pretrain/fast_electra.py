"""Fast-ELECTRA, Small: a discriminator on samples of a finished generator.

Command (train the generator first, or take one that exists):
    electra-pretrain --config=configs/pretrain/bert_small.py \
        --config.data.dataset_dir=DIR --model_dir=runs/generator
    electra-pretrain --config=configs/pretrain/fast_electra.py \
        --config.generator.init_from=runs/generator \
        --config.data.dataset_dir=DIR --model_dir=runs/fast

Hardware and time: as `electra_small.py`, without the generator's backward pass.
Expected: scores like ELECTRA's at less cost (Dong et al., 2023).
Not yet run with this code at this size.

The sizes of the generator are those of the model that is named: change them to
fit it.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_small.py")


def get_config() -> ml_collections.ConfigDict:
    """Small with the generator of `bert_small.py`, whose temperature falls."""
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "fast_electra"
    settings.objective.temperature = 2.0
    settings.objective.final_temperature = 1.0
    settings.objective.temperature_steps = (
        settings.training.num_train_steps // 2
    )
    settings.generator.init_from = "runs/generator"
    settings.generator.generator_hidden_size = 1.0
    settings.generator.num_attention_heads = 4
    settings.generator.disentangled_embeddings = True
    return settings
