r"""Converts an export to a model of LiteRT or ONNX.

    electra-convert-export --saved_model=runs/tiny/export \
        --format=litert --out=runs/tiny/litert

One signature of ids is converted, batch and length free; text operations
exist in TensorFlow alone. ONNX needs `pip install electra-tf[onnx]`.
"""

from absl import flags
from absl import logging

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage

FLAGS = flags.FLAGS
flags.DEFINE_string("saved_model", None, "Folder made by electra-export.")
flags.DEFINE_string("out", None, "Folder to create; must not exist.")
flags.DEFINE_enum("format", None, ("litert", "onnx"), "What to convert to.")
flags.DEFINE_string("signature", "", "One that takes ids; empty: the first.")


def main() -> None:
    """Converts, checks, and says where the result is."""
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.ERROR)
    saved_model = installed.find_export(FLAGS.saved_model)
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from runtimes import converted_model

    converted = converted_model.convert(
        saved_model, storage.path(FLAGS.out), FLAGS.format, FLAGS.signature
    )
    print(
        f"Converted {converted.signature} to {converted.path}. It gives the "
        "answers of the SavedModel, largest difference "
        f"{converted.largest_difference:.1e}."
    )


if __name__ == "__main__":
    command_line.run(main, required=["saved_model", "out", "format"])
