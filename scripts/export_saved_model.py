r"""Exports a run's main tower as a SavedModel that takes raw text.

    python scripts/export_saved_model.py --model_dir=runs/tiny \\
        --export_dir=runs/tiny/export

Which signatures it has depends on the run's objective; README.md in the export
documents them.
"""

import pathlib

from absl import flags
from absl import logging

from electra_tf import command_line
from electra_tf import config

_MODEL_DIR = flags.DEFINE_string(
    "model_dir", None, "Folder of a pre-training run.", required=True
)
_EXPORT_DIR = flags.DEFINE_string(
    "export_dir", None, "Folder to create; must not exist.", required=True
)
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "latest",
    "latest, best (lowest held-out loss), or a checkpoint's folder.",
)
_USE_AVERAGE = flags.DEFINE_bool(
    "use_average", False, "Take the moving average of the weights."
)
_PRECISION = flags.DEFINE_enum(
    "precision",
    "float32",
    config.PRECISIONS,
    "Of the products, whatever the run trained with.",
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_length",
    0,
    "Tokens at which texts are cut, with [CLS] and [SEP]. 0: the model's "
    "number of positions.",
    lower_bound=0,
)


def main() -> None:
    """Exports, checks, and says where the result is."""
    # TensorFlow reports every renamed input; --verbosity=0 shows that.
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export import saved_model

    exported = saved_model.export_run(
        pathlib.Path(_MODEL_DIR.value),
        pathlib.Path(_EXPORT_DIR.value),
        saved_model.ExportOptions(
            checkpoint=_CHECKPOINT.value,
            use_average=_USE_AVERAGE.value,
            precision=_PRECISION.value,
            max_length=_MAX_LENGTH.value,
        ),
    )
    print(
        f"Exported {exported.checkpoint} to {exported.folder}. A fresh process "
        "gives the same answers, largest difference "
        f"{exported.largest_difference:.1e}."
    )


if __name__ == "__main__":
    command_line.run(main)
