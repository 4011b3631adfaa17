"""A tiny model on the embedded default: every stage in minutes, on a CPU.

Command: `make pretrain`, which builds vocabulary and records first, or
    python scripts/run_pretraining.py --model_dir=runs/tiny/model \
        --config=configs/pretrain/tiny.py \
        --config.data.dataset_dir=runs/tiny/dataset

Hardware and time: two CPU cores, three to six minutes.
Expected: discriminator AUC near 0.82, from how frequent tokens are: the
generator stays on the unigram line (`masked_accuracy` near 0.08 on held-out
text). README shows a measured run. A demonstration, not a model to use.

The temperature of 2 is what makes minutes enough: three million tokens do not
teach a discriminator to tell apart what a generator samples at temperature 1
(its AUC stays near 0.55, the majority class); samples that are a little too
bold give it something to learn from.
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
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=512,
                max_position_embeddings=64,
            ),
            generator=config.GeneratorConfig(
                generator_hidden_size=0.25, generator_layers=0.5
            ),
            objective=config.ObjectiveConfig(temperature=2.0),
            data=config.DataConfig(
                max_seq_length=64, num_streams=8, shuffle_block=2048
            ),
            optimizer=config.OptimizerConfig(
                learning_rate=2e-3, num_warmup_steps=100
            ),
            training=config.TrainingConfig(
                num_train_steps=1_500,
                train_batch_size=32,
                log_steps=100,
                eval_steps=500,
                save_checkpoints_steps=500,
            ),
        )
    )
