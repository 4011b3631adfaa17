"""ELECTRA-Large, the 400K-step model (paper, Table 6, column Large).

Command (each host of several, with its own `TF_CONFIG`; see BUILD.md):
    electra-pretrain --model_dir=runs/large \
        --config=configs/pretrain/electra_large.py \
        --config.training.strategy=multi_worker \
        --config.training.precision=bfloat16 \
        --config.data.dataset_dir=DIR

Hardware and time: a day on 64 H100, by `electra-plan`. For ELECTRA-1.75M set
--config.training.num_train_steps=1750000.
Expected: GLUE dev average 89.0 (89.5 for 1.75M), SQuAD 2.0 dev 86.9 / 89.6
(paper, Tables 2 and 4).
Not yet run to the end with this code.
"""

import ml_collections

from electra_tf import config


def get_config() -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    return config.to_config_dict(
        config.ExperimentConfig(
            encoder=config.EncoderConfig(
                vocab_size=0,
                embedding_size=1024,
                hidden_size=1024,
                num_hidden_layers=24,
                num_attention_heads=16,
                intermediate_size=4096,
            ),
            generator=config.GeneratorConfig(generator_hidden_size=0.25),
            # The generator would otherwise be too good: few fakes are left.
            masking=config.MaskingConfig(mask_prob=0.25),
            data=config.DataConfig(max_seq_length=512, num_streams=128),
            optimizer=config.OptimizerConfig(
                learning_rate=2e-4, num_warmup_steps=10_000
            ),
            training=config.TrainingConfig(
                num_train_steps=400_000, train_batch_size=2048
            ),
        )
    )
