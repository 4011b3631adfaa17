r"""Converts an export to LiteRT or ONNX.

    electra-convert-export --saved_model=runs/tiny/export \
        --format=litert --out=runs/tiny/litert

Converts one signature of ids, with any batch size and length; only TensorFlow
has text operations. ONNX needs `pip install electra-tf[onnx]`.
"""

from absl import flags
from absl import logging

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage

FLAGS = flags.FLAGS
flags.DEFINE_string("saved_model", None, "Folder made by electra-export.")
flags.DEFINE_string("out", None, "Folder to create; must not exist.")
flags.DEFINE_enum("format", None, ("litert", "onnx"), "Format to write.")
flags.DEFINE_string("signature", "", "A signature of ids; empty: the first.")


def main() -> None:
    """Converts and checks an export, and prints the path of the result."""
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.ERROR)
    saved_model = installed.find_export(FLAGS.saved_model)
    # Imported late, as TensorFlow takes seconds to import.
    from runtimes import converted_model

    converted = converted_model.convert(
        saved_model, storage.path(FLAGS.out), FLAGS.format, FLAGS.signature
    )
    print(
        f"Converted {converted.signature} to {converted.path}. Largest "
        "difference from the SavedModel's answers: "
        f"{converted.largest_difference:.1e}."
    )


if __name__ == "__main__":
    command_line.run(main, required=["saved_model", "out", "format"])
