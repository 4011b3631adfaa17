"""From which cost on ELECTRA learns more than masked LM, at equal FLOPs.

Command:
    electra-study configs/studies/crossing.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Paper (Figure 1): at equal compute ELECTRA is ahead at every budget shown. The
family's arms cost 8.1e13 operations, and there masked LM is ahead; at 1.57e16
ELECTRA is (docs/results.md). These arms cost 6.4e14, and four times as much
with `--num_train_steps=145000`.

`joint` has the paper's generator, a quarter of the discriminator's width.
`generator_first` trains a generator of full width alone for a tenth of the
steps, then both networks from its weights.
"""

import dataclasses
import pathlib

from electra_tf import config
from electra_tf.config import schema
from electra_tf.studies import definition

_BASE = pathlib.Path(__file__).with_name("base.py")
_STEPS = 36_000
_FULL_WIDTH = {"generator_hidden_size": 1.0, "num_attention_heads": 4}


def get_study() -> definition.Study:
    """Returns masked LM and four ways to train a discriminator."""
    base = schema.replace_fields(
        config.load_file(_BASE),
        generator={"generator_hidden_size": 0.25, "num_attention_heads": 0},
        optimizer={"num_warmup_steps": 1_000},
        training={"num_train_steps": _STEPS, "save_checkpoints_steps": 1_000},
    )
    unigram = dataclasses.asdict(config.GeneratorConfig())
    return definition.Study(
        name="crossing",
        question="From which cost on does ELECTRA learn more than masked LM?",
        base=base,
        arms={
            "joint": {},
            "mlm": definition.MASKED_LM_ARM,
            "generator_first": {
                "generator": _FULL_WIDTH,
                "objective": {
                    "name": "two_stage",
                    "generator_steps": _STEPS // 10,
                    "freeze_generator": False,
                },
            },
            "all_tied": {"generator": {"untied_generator": False}},
            "unigram": {"generator": unigram | {"unigram_generator": True}},
        },
        budget="flops",
        reference_arm="joint",
        seeds=(1, 2),
        tasks=("stsb", "mrpc", "sst2", "chunking", "blimp"),
        finetune_epochs=3.0,
        finetune_trials=5,
        max_examples=10_000,
    )
