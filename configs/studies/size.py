"""Replaced-token detection against masked LM at three sizes, at equal FLOPs.

Command:
    electra-study configs/studies/size.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Two layers of 64, 128 and 192, with the records and settings of `family.py`. The
paper's Figure 4, left, has ELECTRA ahead of BERT at every size,
and furthest ahead where models are small. docs/studies.md has the results.
"""

import dataclasses
import pathlib

from electra_tf import config
from electra_tf.studies import definition

_FAMILY = pathlib.Path(__file__).with_name("family.py")
_SCALED = pathlib.Path(__file__).parent.parent / "pretrain" / "scaled.py"


def _size(width: int) -> definition.Overrides:
    """Returns the settings of a width: encoder, generator's heads, rate."""
    scaled = config.load_file(_SCALED, f"{width}x2")
    rate = scaled.optimizer.learning_rate
    return {
        "encoder": dataclasses.asdict(scaled.encoder),
        "optimizer": {"learning_rate": rate},
        "generator": {
            "num_attention_heads": scaled.generator.num_attention_heads
        },
    }


def get_study() -> definition.Study:
    """Returns two objectives at three widths, at the same cost."""
    sizes = {width: _size(width) for width in (64, 128, 192)}
    electra = {f"electra_{w}": size for w, size in sizes.items()}
    mlm = {
        f"mlm_{w}": size | definition.MASKED_LM_ARM for w, size in sizes.items()
    }
    return dataclasses.replace(
        definition.load_study(str(_FAMILY)),
        name="size",
        question="Is replaced-token detection worth more where models are "
        "small?",
        arms=electra | mlm,
        reference_arm="electra_128",
    )
