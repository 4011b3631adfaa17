r"""Exports a trained model as a SavedModel that takes raw text.

    python scripts/export_saved_model.py --model_dir=runs/tiny \\
        --export_dir=runs/tiny/export

The model is that of a pre-training run or of a fine-tuned trial. README.md in
the export documents its signatures, which depend on what it was trained for.
"""

import pathlib

from absl import flags
from absl import logging

from electra_tf import command_line
from electra_tf import config

_MODEL_DIR = flags.DEFINE_string(
    "model_dir",
    None,
    "Folder of a pre-training run, of a trial, or a fine-tuning's output_dir, "
    "which means its best trial.",
    required=True,
)
_EXPORT_DIR = flags.DEFINE_string(
    "export_dir", None, "Folder to create; must not exist.", required=True
)
_TASK = flags.DEFINE_string(
    "task", "", "Of a trial with several tasks, the one to export."
)
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "latest",
    "latest (of a trial that stopped early: that of its scores), best (lowest "
    "held-out loss, or highest dev score), or a checkpoint's folder.",
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
    "number of positions; of a trial the length of its rows.",
    lower_bound=0,
)


def main() -> None:
    """Exports, checks, and says where the result is."""
    # TensorFlow reports every renamed input; --verbosity=0 shows that.
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export import finetuned_model
    from electra_tf.export import saved_model

    options = saved_model.ExportOptions(
        _CHECKPOINT.value,
        _USE_AVERAGE.value,
        _PRECISION.value,
        _MAX_LENGTH.value,
    )
    folders = pathlib.Path(_MODEL_DIR.value), pathlib.Path(_EXPORT_DIR.value)
    exported = finetuned_model.export(*folders, options, _TASK.value)
    print(
        f"Exported {exported.checkpoint} to {exported.folder}. A fresh process "
        "gives the same answers, largest difference "
        f"{exported.largest_difference:.1e}."
    )


if __name__ == "__main__":
    command_line.run(main)
