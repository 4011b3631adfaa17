"""Table 1 of the paper: ELECTRA and BERT at parts of a budget, at equal FLOPs.

Command, at any size of `configs/pretrain/scaled.py` (default 128x2:12.3M):
    electra-study configs/studies/table1.py:192x4:600M \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Paper (Small, average of GLUE, development sets): ELECTRA 79.9, BERT 75.1; of
ELECTRA trained for 50, 25, 12.5 and 6.25 % of the steps 79.0, 77.7, 76.0, 74.1.
A part has a whole schedule of its own here; none is a checkpoint of a longer
run. `--arms=electra,mlm_x1` leaves out BERT's parts, as the paper does. The
records need the length of rows that `scaled.py` names for the size.
"""

import pathlib

from electra_tf import config
from electra_tf.studies import definition

_SCALED = pathlib.Path(__file__).parent.parent / "pretrain" / "scaled.py"


def get_study(size: str = "128x2:12.3M") -> definition.Study:
    """Returns ELECTRA and masked LM at five parts of the cost."""
    return definition.Study(
        name="table1",
        question="How much of the compute does ELECTRA need?",
        base=config.load_file(_SCALED, size),
        arms={"electra": {}, "mlm": definition.MASKED_LM_ARM},
        budget="flops",
        reference_arm="electra",
        seeds=(1, 2),
        tasks=("cola", "sst2", "mrpc", "stsb", "qnli", "rte", "chunking"),
        finetune_epochs=3.0,
        finetune_trials=5,
        max_examples=10_000,
        budget_fractions=(0.0625, 0.125, 0.25, 0.5, 1.0),
    )
