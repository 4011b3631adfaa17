r"""Exports a trained model as a SavedModel that takes raw text.

    electra-export --model_dir=runs/tiny/model \
        --export_dir=runs/tiny/export
    electra-export --model_dir=runs/tiny/model \
        --serving_dir=serving --model_name=electra

The second command writes the next version into a folder that TensorFlow Serving
serves (docs/serving.md). The model is a pre-training run, a trial or a
fine-tuning. README.md in the export documents its signatures.
"""

import dataclasses

from absl import flags
from absl import logging

from electra_tf import command_line
from electra_tf import config
from electra_tf import installed
from electra_tf import storage

FLAGS = flags.FLAGS
flags.DEFINE_string("model_dir", None, "A run, a trial, or a fine-tuning.")
flags.DEFINE_string("export_dir", None, "Folder to create; must not exist.")
flags.DEFINE_string("serving_dir", None, "Instead: the folder of a server.")
flags.DEFINE_string("model_name", None, "The model's name at the server.")
flags.DEFINE_string("server_dir", None, "Path of --serving_dir at the server.")
flags.DEFINE_string("task", "", "The task to export of a trial with several.")
flags.DEFINE_string("checkpoint", "latest", "latest, best, or its folder.")
flags.DEFINE_bool("use_average", False, "Take the weights' moving average.")
flags.DEFINE_enum("precision", "float32", config.PRECISIONS, "Of products.")
_WEIGHTS = ["float32", "bfloat16", "int8"]
flags.DEFINE_enum("weights", "float32", _WEIGHTS, "Format of stored weights.")
flags.DEFINE_enum("device", "cpu", ["cpu", "any"], "any: accelerators too.")
flags.DEFINE_integer("max_length", 0, "Maximum tokens; 0: as in training.", 0)


def main() -> None:
    """Exports and checks a model, and prints the path of the export."""
    # Hides TensorFlow's reports of renamed inputs; --verbosity=0 shows them.
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    serving_dir, name = FLAGS.serving_dir, FLAGS.model_name
    if (FLAGS.export_dir is None) == (serving_dir is None):
        raise ValueError("Give exactly one of --export_dir and --serving_dir.")
    if (name is None) != (serving_dir is None):
        raise ValueError("Give --serving_dir and --model_name together.")
    if FLAGS.server_dir is not None and serving_dir is None:
        raise ValueError("--server_dir belongs to --serving_dir.")
    model_dir = installed.find_model(FLAGS.model_dir)
    # Imported late, as TensorFlow takes seconds to import.
    from electra_tf.export import saved_model
    from electra_tf.export import serving_folder

    fields = dataclasses.fields(saved_model.ExportOptions)
    options = saved_model.ExportOptions(
        **{field.name: getattr(FLAGS, field.name) for field in fields}
    )
    export_dir = storage.path(FLAGS.export_dir or "")
    if serving_dir is not None:
        served = storage.path(serving_dir), name
        # A bad path or name fails before the export.
        serving_folder.plan_config(*served, FLAGS.server_dir or "")
        export_dir = serving_folder.next_version(*served)
    exported = saved_model.export(model_dir, export_dir, options, FLAGS.task)
    print(
        f"Exported {exported.checkpoint} to {exported.folder}. Largest "
        "difference of the answers in a fresh process: "
        f"{exported.largest_difference:.1e}."
    )
    if serving_dir is not None:
        server_dir = FLAGS.server_dir or ""
        report = serving_folder.write_settings(*served, server_dir)
        print(*report, sep="\n")


if __name__ == "__main__":
    command_line.run(main, required=["model_dir"])
