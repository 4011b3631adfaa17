"""Later ideas than the paper's, at equal FLOPs, small enough for two CPU cores.

Command:
    electra-build-dataset --corpus=DIR --max_seq_length=32 \
        --vocab_file=data/pretrained/tiny-en/vocab.txt --output_dir=DIR
    electra-study configs/studies/family.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

All arms train both networks from the start, except `fast_electra`, which takes
the generator of `tiny-en`, whose training is not counted. That is why the
records have its vocabulary. docs/studies.md has the results.
"""

import pathlib

from electra_tf import config
from electra_tf.config import schema
from electra_tf.studies import definition

_BASE = pathlib.Path(__file__).with_name("base.py")
_TWO_TOWER = {"two_tower_generator": True}


def get_study() -> definition.Study:
    """Returns ELECTRA, the later ideas, and masked LM."""
    # All checkpoints are kept, for `electra-analyze dynamics`.
    kept = {"save_checkpoints_steps": 500, "keep_checkpoints": 100}
    base = schema.replace_fields(config.load_file(_BASE), training=kept)
    steps = base.training.num_train_steps
    return definition.Study(
        name="family",
        question="Which of ELECTRA's successors learns most from the same "
        "compute?",
        base=base,
        arms={
            "electra": {},
            # DeBERTa-v3 (arXiv 2111.09543).
            "disentangled": {"generator": {"disentangled_embeddings": True}},
            # Fast-ELECTRA (arXiv 2310.07347).
            "fast_electra": {
                "objective": {
                    "name": "fast_electra",
                    "temperature": 2.0,
                    "final_temperature": 1.0,
                    "temperature_steps": steps // 2,
                },
                "generator": {
                    "init_from": "tiny-en",
                    "disentangled_embeddings": True,
                    "generator_hidden_size": 1.5,
                    "generator_layers": 2.0,
                    "num_attention_heads": 6,
                },
            },
            # ALBERT's second loss (arXiv 1909.11942, section 3.1).
            "sentence_order": {"objective": {"name": "sentence_order"}},
            # A rate that falls over the run (Ankner et al., 2023, "Dynamic
            # Masking Rate Schedules for MLM Pretraining").
            "mask_30_to_15": {
                "masking": {"mask_prob": 0.3, "mask_prob_steps": steps}
            },
            # Rare tokens, or frequent ones, are masked more often (the
            # original's `proposal_distribution`).
            "seldom": {"masking": {"frequency_power": 0.25}},
            "frequent": {"masking": {"frequency_power": -0.25}},
            # Electric and its generator alone (arXiv 2012.08561).
            "two_tower": {"generator": _TWO_TOWER},
            "electric": {
                "objective": {"name": "electric"},
                "generator": _TWO_TOWER,
            },
            "mlm": definition.MASKED_LM_ARM,
        },
        budget="flops",
        reference_arm="electra",
        seeds=(1, 2),
        # At this length no arm is above guessing on CoLA, SST-2, MRPC and RTE.
        tasks=("chunking", "blimp"),
        finetune_steps=300,
        max_examples=4_000,
    )
