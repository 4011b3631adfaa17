"""Replaced-token detection against masked LM, at three equal costs.

Command:
    electra-study configs/studies/equal_compute.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

The question of the paper's Figures 2 and 4. Each budget has its own runs with a
whole schedule; none is a checkpoint of a longer run.
"""

import pathlib

from electra_tf import config
from electra_tf.studies import definition

_BASE = pathlib.Path(__file__).with_name("base.py")


def get_study() -> definition.Study:
    """Returns two objectives at a quarter, half and all of the cost."""
    return definition.Study(
        name="equal_compute",
        question="Which objective learns more from the same compute?",
        base=config.load_file(_BASE),
        arms={
            "electra": {},
            "mlm": definition.MASKED_LM_ARM,
        },
        budget="flops",
        reference_arm="electra",
        seeds=(1, 2),
        tasks=("chunking", "blimp"),
        finetune_steps=300,
        max_examples=4_000,
        budget_fractions=(0.25, 0.5, 1.0),
    )
