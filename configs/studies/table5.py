"""Table 5 of the paper: where ELECTRA's gain comes from, at equal FLOPs.

Command:
    electra-study configs/studies/table5.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Paper (Base, average of GLUE, development sets): ELECTRA 85.0, All-tokens MLM
84.3, Replace MLM 82.4, ELECTRA 15 % 82.4, BERT 82.2. docs/results.md has our
results.

`mlm` is BERT with the masks of the original's code: 85 % of the masked
positions show [MASK], the others keep their token.
"""

import pathlib

from electra_tf import config
from electra_tf.config import schema
from electra_tf.studies import definition

_BASE = pathlib.Path(__file__).with_name("base.py")


def _base() -> config.ExperimentConfig:
    """Returns four layers of 128, rows of 64 tokens; `electra` reads 57 M."""
    return schema.replace_fields(
        config.load_file(_BASE),
        encoder={"num_hidden_layers": 4},
        generator={"generator_hidden_size": 0.5, "num_attention_heads": 0},
        data={"max_seq_length": 64},
        optimizer={"num_warmup_steps": 350},
        training={
            "num_train_steps": 7_000,
            "log_steps": 250,
            "num_eval_batches": 30,
            "save_checkpoints_steps": 1_000,
        },
    )


def get_study() -> definition.Study:
    """Returns five objectives at the cost of ELECTRA's training."""
    return definition.Study(
        name="table5",
        question="Is it the loss on all tokens, or that no [MASK] is shown?",
        base=_base(),
        arms={
            "electra": {},
            "all_tokens_mlm": {"objective": {"name": "all_tokens_mlm"}},
            "replace_mlm": {"objective": {"name": "replace_mlm"}},
            "electra_15": {"objective": {"name": "electra_15"}},
            "mlm": definition.MASKED_LM_ARM,
        },
        budget="flops",
        reference_arm="electra",
        seeds=(1, 2, 3),
        tasks=("chunking", "sst2", "cola", "mrpc", "rte", "blimp"),
        finetune_steps=300,
        max_examples=4_000,
    )
