"""Section 3.2: which weights the networks should share, at equal steps.

Command:
    electra-study configs/studies/weight_tying.py \
        --dataset_dir=DIR --tasks_dir=DIR --output_dir=DIR

Paper (generator of the discriminator's size): nothing shared 83.6, token
embeddings 84.3, all weights 84.4. `disentangled` shares as DeBERTa-v3 does.

Embeddings are as wide as the layers, so that the generator has the same width
with its own embeddings as with shared ones.
"""

import pathlib

from electra_tf import config
from electra_tf.studies import definition

_BASE = pathlib.Path(__file__).with_name("base.py")


def get_study() -> definition.Study:
    """Returns four ways to share weights between two networks of one size."""
    return definition.Study(
        name="weight_tying",
        question="Which weights should the two towers share?",
        base=config.load_file(_BASE),
        arms={
            "none": {"generator": {"untied_generator_embeddings": True}},
            "embeddings": {},
            "disentangled": {"generator": {"disentangled_embeddings": True}},
            "all": {
                "generator": {
                    "untied_generator": False,
                    "num_attention_heads": 0,
                }
            },
        },
        budget="steps",
        reference_arm="embeddings",
        seeds=(1, 2),
        tasks=("chunking", "blimp"),
        finetune_steps=300,
        max_examples=4_000,
    )
