"""The demonstration: ELECTRA learns context in minutes, on a CPU.

Command: `make pretrain`, which builds vocabulary and records first, or
    electra-pretrain --model_dir=runs/tiny/model \
        --config=configs/pretrain/tiny.py \
        --config.data.dataset_dir=runs/tiny/dataset

Hardware and time: two CPU cores, six minutes.
Expected on held-out text: right at [MASK] slots in 0.27 of the cases (unigram
0.08), discriminator AUC 0.75. README shows a measured run.

The generator learns alone for 2,000 steps, in which it leaves the unigram
plateau; the discriminator starts from its weights, and then both learn. What
else a model of this size needs is in docs/small_models.md.
"""

import ml_collections

from electra_tf import config


def get_config() -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    return config.to_config_dict(
        config.ExperimentConfig(
            encoder=config.EncoderConfig(
                vocab_size=0,
                embedding_size=128,
                hidden_size=128,
                num_hidden_layers=2,
                num_attention_heads=4,
                intermediate_size=512,
                max_position_embeddings=32,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                initializer_range=0.0,
            ),
            generator=config.GeneratorConfig(
                generator_hidden_size=1.0, num_attention_heads=4
            ),
            masking=config.MaskingConfig(mask_prob=0.25, replace_prob=1.0),
            objective={
                "name": "two_stage",
                "generator_steps": 2_000,
                "freeze_generator": False,
            },
            data=config.DataConfig(
                max_seq_length=32, num_streams=8, shuffle_block=2048
            ),
            optimizer=config.OptimizerConfig(
                learning_rate=2e-3,
                num_warmup_steps=200,
                beta_2=0.98,
                clip_norm=0.0,
            ),
            training=config.TrainingConfig(
                num_train_steps=5_000,
                train_batch_size=64,
                log_steps=250,
                eval_steps=500,
                save_checkpoints_steps=500,
            ),
        )
    )
