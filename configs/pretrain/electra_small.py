"""ELECTRA-Small (paper, Table 6, column Small).

Command:
    electra-pretrain --model_dir=runs/small \
        --config=configs/pretrain/electra_small.py \
        --config.data.dataset_dir=DIR

Hardware and time: the paper took 4 days on one V100 for 1 M steps; one GPU
with bfloat16 (`--config.training.precision=bfloat16`) is enough.
Expected: GLUE dev average 79.9 (paper, Table 1), on OpenWebText 80.4 (the
original's README). Early reference, step 5,000: masked-LM loss 7.13,
discriminator loss 0.359, AUC 0.68.
Not yet run to the end with this code. `electra_small.py:recipe` leaves the
unigram plateau earlier (docs/small_models.md).
"""

import ml_collections

from electra_tf import config


def get_config(variant: str = "") -> ml_collections.ConfigDict:
    """The paper's settings, or the variant `recipe`."""
    config.require_choice("variant", variant, ("", "recipe"))
    settings = _paper()
    if variant == "recipe":
        settings.encoder.initializer_range = 0.0
        settings.encoder.hidden_dropout_prob = 0.0
        settings.encoder.attention_probs_dropout_prob = 0.0
        settings.generator.generator_hidden_size = 0.5
        settings.generator.num_attention_heads = 4
        settings.masking.replace_prob = 1.0
        settings.optimizer.learning_rate = 1e-3
        settings.optimizer.beta_2 = 0.98
        settings.optimizer.clip_norm = 0.0
    return settings


def _paper() -> ml_collections.ConfigDict:
    """The settings; everything not named here is a default."""
    return config.to_config_dict(
        config.ExperimentConfig(
            encoder=config.EncoderConfig(
                vocab_size=0,
                embedding_size=128,
                hidden_size=256,
                num_hidden_layers=12,
                num_attention_heads=4,
                intermediate_size=1024,
            ),
            generator=config.GeneratorConfig(generator_hidden_size=0.25),
            masking=config.MaskingConfig(mask_prob=0.15),
            data=config.DataConfig(max_seq_length=128, num_streams=16),
            optimizer=config.OptimizerConfig(
                learning_rate=5e-4, num_warmup_steps=10_000
            ),
            training=config.TrainingConfig(
                num_train_steps=1_000_000, train_batch_size=128
            ),
        )
    )
