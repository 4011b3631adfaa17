"""Adversarial training of the generator (paper, 3.2 and Appendix F).

Command:
    electra-pretrain --model_dir=runs/adversarial \
        --config=configs/pretrain/adversarial.py[:annealed|:straight_through] \
        --config.data.dataset_dir=DIR

Without an argument the generator only maximises the discriminator's loss, by
REINFORCE, as in the paper. `annealed` begins with maximum likelihood and mixes
the adversarial gradient in between steps 100,000 and 300,000;
`straight_through` does so with a straight-through Gumbel-softmax whose
temperature falls from 1 to 0.5.

Hardware and time: as `electra_base.py`.
Expected: below maximum likelihood; a generator of 58 % masked-LM accuracy in
place of 65 %, of low entropy (paper, Appendix F). The metrics
`masked_accuracy`, `generator_entropy` and `reward` show it.
Not yet run with this code at this size; there is a tiny one in
`configs/studies/training_algorithms.py`.
"""

import pathlib

import ml_collections

from electra_tf import config

_BASE = pathlib.Path(__file__).with_name("electra_base.py")


def get_config(variant: str = "") -> ml_collections.ConfigDict:
    """Base, 500,000 steps as in Figure 3."""
    config.require_choice(
        "variant", variant, ("", "annealed", "straight_through")
    )
    settings = config.to_config_dict(config.load_file(_BASE))
    settings.objective.name = "adversarial"
    settings.training.num_train_steps = 500_000
    if variant in ("annealed", "straight_through"):
        settings.objective.adversarial_start_step = 100_000
        settings.objective.adversarial_full_step = 300_000
    if variant == "straight_through":
        settings.objective.adversarial_estimator = "straight_through"
        settings.objective.final_gumbel_temperature = 0.5
        settings.objective.gumbel_temperature_steps = 300_000
    return settings
