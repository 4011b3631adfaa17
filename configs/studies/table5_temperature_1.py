"""Table 5 once more, with the sampling temperature of the paper.

Command:
    python scripts/run_study.py configs/studies/table5_temperature_1.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

The control for `table5.py`, whose generator samples at temperature 2: are the
arms that learn from the masked positions alone behind because of the
temperature? (At 2, nearly every sample of so small a generator is wrong, and
ELECTRA-15% has only one answer to give.)
"""

import pathlib

from electra_tf import config
from electra_tf.analysis import studies

_BASE = pathlib.Path(__file__).with_name("base.py")
_TEMPERATURE = {"temperature": 1.0}


def get_study() -> studies.Study:
    """The arms of Table 5 that sample, at temperature 1."""
    return studies.Study(
        name="table5_temperature_1",
        question="Does the order of Table 5 depend on the temperature?",
        base=config.load_file(_BASE),
        arms={
            "electra": {"objective": _TEMPERATURE},
            "electra_15": {"objective": {"name": "electra_15", **_TEMPERATURE}},
            "replace_mlm": {
                "objective": {"name": "replace_mlm", **_TEMPERATURE}
            },
            "all_tokens_mlm": {
                "objective": {"name": "all_tokens_mlm", **_TEMPERATURE}
            },
        },
        budget="flops",
        reference_arm="electra",
        seeds=(1, 2, 3),
        tasks=("cola", "sst2", "chunking"),
        finetune_steps=150,
        max_examples=2_000,
    )
