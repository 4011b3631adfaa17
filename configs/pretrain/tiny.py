"""A tiny model on the embedded default: every stage in minutes, on a CPU.

Command: `make pretrain`, which builds vocabulary and records first, or
    python scripts/run_pretraining.py --model_dir=runs/tiny/model \
        --config=configs/pretrain/tiny.py \
        --config.data.dataset_dir=runs/tiny/dataset

Hardware and time: two CPU cores, a few minutes.
Expected: the held-out discriminator loss falls from 0.69 below 0.4; see the
README for a measured run. A demonstration, not a model to use.
"""

import ml_collections

from electra_tf import config


def get_config() -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    return config.to_config_dict(
        config.ExperimentConfig(
            encoder=config.EncoderConfig(
                vocab_size=0,
                embedding_size=64,
                hidden_size=128,
                num_hidden_layers=3,
                num_attention_heads=2,
                intermediate_size=512,
                max_position_embeddings=128,
            ),
            generator=config.GeneratorConfig(generator_hidden_size=0.5),
            data=config.DataConfig(
                max_seq_length=64, num_streams=8, shuffle_block=2048
            ),
            optimizer=config.OptimizerConfig(
                learning_rate=2e-3, num_warmup_steps=200
            ),
            training=config.TrainingConfig(
                num_train_steps=3_000,
                train_batch_size=64,
                log_steps=100,
                eval_steps=500,
                save_checkpoints_steps=500,
            ),
        )
    )
