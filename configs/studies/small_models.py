"""Which settings let a small model learn context: one change at a time.

Command:
    electra-study configs/studies/small_models.py \
        --dataset_dir=DIR --output_dir=DIR

Two layers of 128, trained jointly; the records have rows of 32 tokens and 4,096
entries. docs/small_models.md has commands and results. The first arm
is the recipe, the second the paper's settings at this size.
"""

import pathlib

from electra_tf import config
from electra_tf.config import schema
from electra_tf.studies import definition

_BASE = pathlib.Path(__file__).with_name("base.py")
_PAPER_ENCODER = {
    "initializer_range": 0.02,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "num_attention_heads": 2,
}
_PAPER_GENERATOR = {"generator_hidden_size": 0.25, "num_attention_heads": 0}
_PAPER_OPTIMIZER = {
    "learning_rate": 5e-4,
    "beta_2": 0.999,
    "clip_norm": 1.0,
}


def get_study() -> definition.Study:
    """Returns the recipe, the paper's settings, and single changes."""
    base = schema.replace_fields(
        config.load_file(_BASE), training={"train_batch_size": 64}
    )
    half = base.training.num_train_steps // 2
    return definition.Study(
        name="small_models",
        question="What lets a small model leave the unigram plateau?",
        base=base,
        arms={
            "recipe": {},
            "paper": {
                "encoder": _PAPER_ENCODER,
                "generator": _PAPER_GENERATOR,
                "masking": {"mask_prob": 0.15, "replace_prob": 0.85},
                "optimizer": _PAPER_OPTIMIZER,
            },
            "initializer_0.02": {"encoder": {"initializer_range": 0.02}},
            "one_clip": {"optimizer": {"clip_norm": 1.0}},
            "clip_per_tower": {
                "optimizer": {"clip_norm": 1.0, "clip_per_tower": True}
            },
            "generator_1_4": {"generator": _PAPER_GENERATOR},
            "generator_1_2": {
                "generator": {
                    "generator_hidden_size": 0.5,
                    "num_attention_heads": 2,
                }
            },
            "generator_1_layer": {"generator": {"generator_layers": 0.5}},
            "generator_first": {
                "objective": {
                    "name": "two_stage",
                    "generator_steps": half,
                    "freeze_generator": False,
                }
            },
            "two_stage": {
                "generator": {"untied_generator_embeddings": True},
                "objective": {
                    "name": "two_stage",
                    "generator_steps": half,
                },
            },
            "rate_5e-4": {"optimizer": {"learning_rate": 5e-4}},
            "rate_1e-3": {"optimizer": {"learning_rate": 1e-3}},
            "rate_4e-3": {"optimizer": {"learning_rate": 4e-3}},
            "dropout_0.1": {
                "encoder": {
                    "hidden_dropout_prob": 0.1,
                    "attention_probs_dropout_prob": 0.1,
                }
            },
            "mask_0.15": {"masking": {"mask_prob": 0.15}},
            "keep_0.15": {"masking": {"replace_prob": 0.85}},
            "batch_32": {"training": {"train_batch_size": 32}},
            "disc_weight_1": {"objective": {"disc_weight": 1.0}},
            "disc_weight_ramp": {"objective": {"disc_weight_steps": half}},
            "two_tower": {"generator": {"two_tower_generator": True}},
            "untied": {"generator": {"untied_generator_embeddings": True}},
            "all_tied": {
                "generator": {
                    "generator_hidden_size": 0.25,
                    "num_attention_heads": 0,
                    "untied_generator": False,
                }
            },
            "heads_2": {
                "encoder": {"num_attention_heads": 2},
                "generator": {"num_attention_heads": 2},
            },
            "epsilon_1e-10": {"optimizer": {"epsilon": 1e-10}},
            "beta2_0.999": {"optimizer": {"beta_2": 0.999}},
        },
        budget="steps",
        reference_arm="recipe",
        seeds=(1, 2),
    )
