"""Figure 3, right: joint, adversarial and two-stage training, equal FLOPs.

Command:
    python scripts/run_study.py configs/studies/training_algorithms.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Paper: joint training is best. Two-stage rises after the switch and stays
below it; adversarial training (REINFORCE) stays below maximum likelihood,
still above BERT.

All arms have a generator as large as the discriminator and embeddings of its
own, which two-stage training needs to hand its weights over.
"""

import pathlib

from electra_tf import config
from electra_tf.analysis import studies

_BASE = pathlib.Path(__file__).with_name("base.py")


def get_study() -> studies.Study:
    """Three ways to train the pair, and masked LM alone."""
    base = config.load_file(_BASE)
    base = studies.replace_fields(
        base,
        encoder={"embedding_size": base.encoder.hidden_size},
        generator={
            "generator_hidden_size": 1.0,
            "generator_layers": 1.0,
            "untied_generator_embeddings": True,
        },
    )
    half = base.training.num_train_steps // 2
    return studies.Study(
        name="training_algorithms",
        question="Does anything beat training generator and discriminator "
        "jointly by maximum likelihood?",
        base=base,
        arms={
            "electra": {},
            "adversarial": {"objective": {"name": "adversarial"}},
            "two_stage": {
                "objective": {"name": "two_stage", "generator_steps": half}
            },
            "mlm": studies.MASKED_LM_ARM,
        },
        budget="flops",
        reference_arm="electra",
        seeds=(1, 2, 3),
        tasks=("cola", "sst2", "chunking"),
        finetune_steps=150,
        max_examples=2_000,
    )
