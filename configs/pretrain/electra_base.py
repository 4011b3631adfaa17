"""ELECTRA-Base (paper, Table 6, column Base).

Command (one host, all its GPUs):
    electra-pretrain --model_dir=runs/base \
        --config=configs/pretrain/electra_base.py \
        --config.training.strategy=mirrored \
        --config.training.precision=bfloat16 \
        --config.data.dataset_dir=DIR

Hardware and time: the paper took 4 days on 16 TPUv3 chips for 766 K steps.
Expected: GLUE dev average 85.1, SQuAD 2.0 dev 80.5 / 83.3 (paper, Tables 1
and 4).
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
                embedding_size=768,
                hidden_size=768,
                num_hidden_layers=12,
                num_attention_heads=12,
                intermediate_size=3072,
            ),
            # A third; the original writes it with five digits and rounds.
            generator=config.GeneratorConfig(generator_hidden_size=0.33333),
            masking=config.MaskingConfig(mask_prob=0.15),
            data=config.DataConfig(max_seq_length=512, num_streams=32),
            optimizer=config.OptimizerConfig(
                learning_rate=2e-4, num_warmup_steps=10_000
            ),
            training=config.TrainingConfig(
                num_train_steps=766_000, train_batch_size=256
            ),
        )
    )
