"""Fine-tuning of the tiny model of `make pretrain`, for any task.

Command: `make finetune`, or
    python scripts/run_finetuning.py --config=configs/finetune/tiny.py \
        --config.task.names=sst2 --config.task.data_dir=GLUE_DIR \
        --pretrained_dir=runs/tiny/model --output_dir=DIR

Two layers need no rates by depth. Classification from [CLS] gets stuck at
rates above 5e-4 with this model (docs/results.md); tagging bears 2e-3.
Hardware and time: two CPU cores; half a minute to a minute for the embedded
task, minutes for SST-2.
"""

import ml_collections

from electra_tf import config
from electra_tf import finetuning_config


def get_config() -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    return config.to_config_dict(
        finetuning_config.FinetuningConfig(
            optimizer=finetuning_config.FinetuningOptimizerConfig(
                learning_rate=3e-4, layerwise_lr_decay=1.0
            )
        )
    )
