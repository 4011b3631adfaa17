"""How much the discriminator's loss counts, and the rate, at equal steps.

Command:
    electra-study configs/studies/disc_weight.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Paper (Appendix A): weights of 1, 10, 20, 50 and 100 were searched, 50 is best;
of the rates from 1e-4 to 5e-4 the highest, for a width of 256. The rate here is
four times that (see `scaled.py`), so the arms are a fifth and a half of it. The
generator has a quarter of the discriminator's width, as in the paper.
"""

import pathlib

from electra_tf import config
from electra_tf.config import schema
from electra_tf.studies import definition

_BASE = pathlib.Path(__file__).with_name("base.py")


def get_study() -> definition.Study:
    """Returns five weights and two lower rates."""
    base = schema.replace_fields(
        config.load_file(_BASE),
        generator={"generator_hidden_size": 0.25, "num_attention_heads": 0},
    )
    rate = base.optimizer.learning_rate
    weights = {
        f"weight_{weight}": {"objective": {"disc_weight": float(weight)}}
        for weight in (50, 1, 10, 100, 20)
    }
    rates = {
        f"rate_{part:g}": {"optimizer": {"learning_rate": part * rate}}
        for part in (0.2, 0.5)
    }
    return definition.Study(
        name="disc_weight",
        question="How much should the discriminator's loss count?",
        base=base,
        arms=weights | rates,
        budget="steps",
        reference_arm="weight_50",
        seeds=(1, 2),
        tasks=("stsb", "chunking", "blimp"),
        finetune_steps=300,
        finetune_epochs=3.0,
        finetune_trials=3,
        max_examples=4_000,
    )
