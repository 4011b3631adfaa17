"""The fine-tuning of the paper (Table 7), for any task of the catalog.

Command:
    electra-finetune --config=configs/finetune/table7.py:small \
        --config.task.names=glue --config.task.data_dir=GLUE_DIR \
        --pretrained_dir=MODEL_DIR --output_dir=DIR --trials=10

The argument is the size of the model: small, base or large. Epochs and row
lengths are the tasks' own: 10 epochs for RTE and STS-B, 2 for question
answering, 3 for the rest; rows of 512, 256 (tagging) or 128 tokens.
`glue` is a model for each of its tasks; one name or several are one model.
Expected (paper): GLUE dev 79.9, 85.1 and 89.0, for models trained as long.
"""

import ml_collections

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config

_RATES = {"small": 3e-4, "base": 1e-4, "large": 5e-5}


def get_config(size: str = "small") -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    config.require_choice("size", size, tuple(_RATES))
    return config.to_config_dict(
        finetuning_config.FinetuningConfig(
            optimizer=finetuning_config.FinetuningOptimizerConfig(
                learning_rate=_RATES[size],
                layerwise_lr_decay=0.9 if size == "large" else 0.8,
                weight_decay_rate=0.0,
            )
        )
    )
