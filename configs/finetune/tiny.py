"""Fine-tuning of the model of `make pretrain` or of `tiny-en`, for any task.

Command: `make finetune`, or
    electra-finetune --config=configs/finetune/tiny.py \
        --config.task.names=sst2 --config.task.data_dir=GLUE_DIR \
        --pretrained_dir=runs/tiny/model --output_dir=DIR

So few layers need no rates by depth. Tagging bears a rate of 2e-3.
Hardware and time: two CPU cores; half a minute to a minute for the embedded
task, minutes for SST-2.
"""

import ml_collections

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config


def get_config() -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    return config.to_config_dict(
        finetuning_config.FinetuningConfig(
            optimizer=finetuning_config.FinetuningOptimizerConfig(
                learning_rate=3e-4, layerwise_lr_decay=1.0
            )
        )
    )
