"""The model that comes with the package, `electra_tf.load("tiny-en")`.

Command (corpora and vocabulary: data/pretrained/tiny-en/README.md):
    electra-pretrain --config=configs/pretrain/tiny_en.py \
        --config.data.dataset_dir=DIR --model_dir=runs/tiny-en

Hardware and time: 655 M tokens in 9 minutes and 24 seconds on one H100 that
other runs shared, with `--config.training.deterministic=false`.
Expected: held-out loss at [MASK] 3.07, accuracy there 0.455 (unigram 0.05),
discriminator AUC 0.839.

Four layers of 192 by the dial of `scaled.py`. Two towers of one size share
their embeddings, so that 10 MB hold both.
"""

import pathlib

import ml_collections

from electra_tf import config

_SCALED = pathlib.Path(__file__).with_name("scaled.py")


def get_config() -> ml_collections.ConfigDict:
    """The scaled config with other lengths, masks and training."""
    settings = config.to_config_dict(config.load_file(_SCALED, "192x4:655.36M"))
    settings.encoder.max_position_embeddings = 128
    settings.masking.mask_prob = 0.2
    settings.optimizer.learning_rate = 1.5e-3
    settings.training.precision = "bfloat16"
    settings.training.steps_per_loop = 100
    settings.training.log_steps = 200
    settings.training.eval_steps = 500
    settings.training.save_checkpoints_steps = 2_000
    return settings
