"""The defaults of the original's code (`configure_finetuning.py`).

They differ from the paper's Table 7: 1e-4 for Small as well, and weight decay
0.01. The argument is the size of the model: small, base or large.
"""

import ml_collections

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config


def get_config(size: str = "small") -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    config.require_choice("size", size, ("small", "base", "large"))
    options = finetuning_config.FinetuningOptimizerConfig()
    if size == "large":
        options = finetuning_config.FinetuningOptimizerConfig(
            learning_rate=5e-5, layerwise_lr_decay=0.9
        )
    return config.to_config_dict(
        finetuning_config.FinetuningConfig(optimizer=options)
    )
