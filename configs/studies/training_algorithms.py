"""Figure 3, right: joint, adversarial and two-stage training, equal FLOPs.

Command:
    electra-study configs/studies/training_algorithms.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Paper: joint training is best. Two-stage training rises after the switch and
ends below it; adversarial training (REINFORCE) ends below maximum likelihood
and above BERT.

`generator_first` trains the generator alone for a quarter of the steps, then
both, from its weights. docs/small_models.md recommends it; the paper does not
have it.

In all arms the generator is as large as the discriminator and has its own
embeddings, because the second of two stages starts from its weights.
"""

import pathlib

from electra_tf import config
from electra_tf.config import schema
from electra_tf.studies import definition

_BASE = pathlib.Path(__file__).with_name("base.py")


def get_study() -> definition.Study:
    """Returns seven ways to train the two networks, and masked LM alone."""
    base = config.load_file(_BASE)
    base = schema.replace_fields(
        base, generator={"untied_generator_embeddings": True}
    )
    half = base.training.num_train_steps // 2
    two_stage = {"name": "two_stage", "generator_steps": half}
    return definition.Study(
        name="training_algorithms",
        question="Does anything beat training generator and discriminator "
        "jointly by maximum likelihood?",
        base=base,
        arms={
            "electra": {},
            "reinforce": {"objective": {"name": "adversarial"}},
            "straight_through": {
                "objective": {
                    "name": "adversarial",
                    "adversarial_estimator": "straight_through",
                }
            },
            "annealed": {
                "objective": {
                    "name": "adversarial",
                    "adversarial_start_step": half,
                    "adversarial_full_step": 2 * half,
                }
            },
            "two_stage": {"objective": two_stage},
            "two_stage_no_copy": {
                "objective": two_stage | {"initialize_from_generator": False}
            },
            "generator_first": {
                "objective": two_stage
                | {"generator_steps": half // 2, "freeze_generator": False}
            },
            "mlm": definition.MASKED_LM_ARM,
        },
        budget="flops",
        reference_arm="electra",
        seeds=(1, 2),
        tasks=("chunking", "blimp"),
        finetune_steps=300,
        max_examples=4_000,
    )
