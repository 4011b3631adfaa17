"""The model that comes with the package, `electra_tf.load("tiny-en")`.

Command (corpora and vocabulary: data/pretrained/tiny-en/README.md):
    python scripts/run_pretraining.py --config=configs/pretrain/tiny_en.py \
        --config.data.dataset_dir=DIR --model_dir=runs/tiny-en

Hardware and time: 655 M tokens in 9 minutes and 24 seconds on one H100 that
other runs shared, with `--config.training.deterministic=false`.
Expected: held-out loss at [MASK] 3.07, accuracy there 0.455 (unigram 0.05),
discriminator AUC 0.839.

Two towers of one size share their embeddings, so that weights of 10 MB hold
both. The generator begins alone; the discriminator starts from it, and then
both learn.
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
                hidden_size=192,
                num_hidden_layers=4,
                num_attention_heads=6,
                intermediate_size=768,
                max_position_embeddings=128,
                hidden_dropout_prob=0.0,
                attention_probs_dropout_prob=0.0,
                initializer_range=0.0,
            ),
            generator=config.GeneratorConfig(
                generator_hidden_size=1.0, num_attention_heads=6
            ),
            masking=config.MaskingConfig(mask_prob=0.2, replace_prob=1.0),
            objective=config.ObjectiveConfig(
                name="two_stage", generator_steps=2_500, freeze_generator=False
            ),
            optimizer=config.OptimizerConfig(
                learning_rate=1.5e-3,
                num_warmup_steps=1_000,
                beta_2=0.98,
                clip_norm=0.0,
            ),
            training=config.TrainingConfig(
                num_train_steps=20_000,
                train_batch_size=256,
                precision="bfloat16",
                steps_per_loop=100,
                log_steps=200,
                eval_steps=500,
                save_checkpoints_steps=2_000,
            ),
        )
    )
