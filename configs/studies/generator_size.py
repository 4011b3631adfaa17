"""Figure 3, left: how large the generator should be, at equal steps.

Command:
    electra-study configs/studies/generator_size.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Paper: best at a quarter to a half of the discriminator's width; a generator as
wide as the discriminator is worse; the unigram generator works, but less well
than the small masked LMs. Generator and discriminator have the same depth,
there and here. The uniform generator, which the paper leaves out, shows what
frequencies alone are worth.
"""

import dataclasses
import pathlib

from electra_tf import config
from electra_tf.studies import definition

_FIXED = dataclasses.asdict(config.GeneratorConfig())
_BASE = pathlib.Path(__file__).with_name("base.py")
_SIZES = {"1_8": 1 / 8, "1_4": 1 / 4, "1_2": 1 / 2, "3_4": 3 / 4, "1_1": 1.0}


def get_study() -> definition.Study:
    """Returns five widths of the generator, and two without weights."""
    sizes = {
        f"size_{name}": {
            "generator": {
                "generator_hidden_size": size,
                "num_attention_heads": 0,
            }
        }
        for name, size in _SIZES.items()
    }
    fixed = {
        kind: {"generator": _FIXED | {f"{kind}_generator": True}}
        for kind in ("uniform", "unigram")
    }
    return definition.Study(
        name="generator_size",
        question="Which generator teaches the discriminator most?",
        base=config.load_file(_BASE),
        arms=fixed | sizes,
        budget="steps",
        reference_arm="size_1_1",
        seeds=(1, 2),
        tasks=("chunking", "blimp"),
        finetune_steps=300,
        max_examples=4_000,
    )
