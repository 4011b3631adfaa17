"""Fine-tuning of the tiny model of `make pretrain`, for any task.

Command: `make finetune`, or
    python scripts/run_finetuning.py --config=configs/finetune/tiny.py \
        --config.task.names=sst2 --config.task.data_dir=GLUE_DIR \
        --pretrained_dir=runs/tiny/model --output_dir=DIR

Small models bear higher rates, and two layers need no rates by depth.
Hardware and time: two CPU cores; a minute for the embedded task, five for
SST-2. What to expect stands in docs/results.md.
"""

import ml_collections

from electra_tf import config
from electra_tf import finetuning_config


def get_config() -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    return config.to_config_dict(
        finetuning_config.FinetuningConfig(
            optimizer=finetuning_config.FinetuningOptimizerConfig(
                learning_rate=1e-3, layerwise_lr_decay=1.0
            )
        )
    )
