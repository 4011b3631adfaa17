"""Fine-tuning on your own files, by flags alone.

Command:
    electra-finetune \
        --config=configs/finetune/own.py:classification \
        --config.own.train_file=train.csv --config.own.dev_file=dev.csv \
        --config.own.text_column=text --config.own.label_column=label \
        --pretrained_dir=MODEL_DIR --output_dir=DIR --trials=5

The argument is the kind: classification, multilabel, regression,
multiple_choice, ranking, tagging or qa. Files are CSV, TSV, JSON lines, CoNLL
columns, SQuAD or MRQA JSON. Column names differ by kind, see below. Rates are
those of the paper for Small; for Base set
--config.optimizer.learning_rate=1e-4, for Large 5e-5 with
--config.optimizer.layerwise_lr_decay=0.9.
"""

import ml_collections

from electra_tf import config
from electra_tf.config import finetuning as finetuning_config

_COLUMNS = {
    "multilabel": {"label_column": "labels"},
    "multiple_choice": {"text_column": "question"},
    "ranking": {
        "text_column": "query",
        "text_pair_column": "text",
        "label_column": "relevance",
        "max_value": 100.0,
    },
}


def get_config(kind: str = "classification") -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    return config.to_config_dict(
        finetuning_config.FinetuningConfig(
            task=finetuning_config.TaskConfig(names="own"),
            own=finetuning_config.OwnTaskConfig(
                kind=kind, **_COLUMNS.get(kind, {})
            ),
            optimizer=finetuning_config.FinetuningOptimizerConfig(
                learning_rate=3e-4, weight_decay_rate=0.0
            ),
        )
    )
