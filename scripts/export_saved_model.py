r"""Exports a trained model as a SavedModel that takes raw text.

    python scripts/export_saved_model.py --model_dir=runs/tiny \\
        --export_dir=runs/tiny/export
    python scripts/export_saved_model.py --model_dir=runs/tiny \\
        --serving_dir=serving --model_name=electra

The second writes the next version into a folder that TensorFlow Serving
serves (docs/serving.md). The model is that of a pre-training run or of a
fine-tuned trial. README.md in the export documents its signatures, which
depend on what it was trained for.
"""

from absl import flags
from absl import logging

from electra_tf import command_line
from electra_tf import config
from electra_tf import installed

_MODEL_DIR = flags.DEFINE_string(
    "model_dir",
    None,
    "Folder of a pre-training run, of a trial, or a fine-tuning's output_dir, "
    "which means its best trial.",
    required=True,
)
_EXPORT_DIR = flags.DEFINE_string(
    "export_dir", None, "Folder to create; must not exist."
)
_SERVING_DIR = flags.DEFINE_string(
    "serving_dir",
    None,
    "In its place: folder of TensorFlow Serving, which gets a new version.",
)
_MODEL_NAME = flags.DEFINE_string(
    "model_name", None, "In --serving_dir, what clients ask for."
)
_SERVER_DIR = flags.DEFINE_string(
    "server_dir",
    None,
    "Absolute path of --serving_dir as the server sees it. Default: /models, "
    "as in its container image.",
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
_WEIGHTS = flags.DEFINE_enum(
    "weights",
    "float32",
    ["float32", "bfloat16", "int8"],
    "How kernels and tables are stored.",
)
_DEVICE = flags.DEFINE_enum(
    "device",
    "cpu",
    ["cpu", "any"],
    "cpu: it runs on the CPU and is fast there. any: it also takes an "
    "accelerator, and computes a batch at once.",
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
    from electra_tf.export import saved_model
    from electra_tf.export import serving_folder

    options = saved_model.ExportOptions(
        _CHECKPOINT.value,
        _USE_AVERAGE.value,
        _PRECISION.value,
        _MAX_LENGTH.value,
        _WEIGHTS.value,
        _DEVICE.value,
    )
    export_dir, served = serving_folder.choose_target(
        _EXPORT_DIR.value,
        _SERVING_DIR.value,
        _MODEL_NAME.value,
        _SERVER_DIR.value,
    )
    exported = saved_model.export(
        installed.find_model(_MODEL_DIR.value), export_dir, options, _TASK.value
    )
    print(
        f"Exported {exported.checkpoint} to {exported.folder}. A fresh process "
        "gives the same answers, largest difference "
        f"{exported.largest_difference:.1e}."
    )
    if served is not None:
        print(*served.write_settings(), sep="\n")


if __name__ == "__main__":
    command_line.run(main)
