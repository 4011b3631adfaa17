"""How many tokens the generator should replace, at equal FLOPs.

Command:
    electra-study configs/studies/masking_rate.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Paper: 15 % for Small and Base, 25 % for Large (Table 6), because Large's
generator is so accurate that it leaves too few replacements at 15 %.
"""

import pathlib

from electra_tf import config
from electra_tf.studies import definition

_BASE = pathlib.Path(__file__).with_name("base.py")


def get_study() -> definition.Study:
    """Returns four mask rates of joint training."""
    return definition.Study(
        name="masking_rate",
        question="Which share of the tokens should be masked?",
        base=config.load_file(_BASE),
        arms={
            f"mask_{round(100 * rate):02d}": {"masking": {"mask_prob": rate}}
            for rate in (0.08, 0.15, 0.25, 0.4)
        },
        budget="flops",
        reference_arm="mask_25",
        seeds=(1, 2),
        tasks=("chunking", "blimp"),
        finetune_steps=300,
        max_examples=4_000,
    )
