r"""Converts a model to another format: TF1, ours, Hugging Face, KerasHub.

    electra-convert --from=tf1 --to=electra_tf \
        --input=electra_small --output_dir=DIR/model
    electra-convert --to=huggingface \
        --input=DIR/model --output_dir=DIR/hf

All tensors are converted, or the command fails and lists the others. The output
is read back and compared bit by bit before it gets its final name.
"""

import dataclasses
from typing import Any

from absl import flags
from absl import logging

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage

FLAGS = flags.FLAGS
_FORMATS = ("tf1", "electra_tf", "huggingface", "keras_hub")
flags.DEFINE_string("input", None, "Folder, TF1 prefix, or name on the hub.")
flags.DEFINE_string("output_dir", None, "Folder to create; must not exist.")
flags.DEFINE_enum("from", "", ("", *_FORMATS), "Input format; empty: detected.")
flags.DEFINE_enum("to", None, _FORMATS, "Format to write.")
flags.DEFINE_string("generator_input", "", "Generator for a discriminator.")
flags.DEFINE_string("vocab_file", "", "vocab.txt or its folder, if missing.")
flags.DEFINE_list("labels", [], "Names of the outputs, if the files lack them.")
flags.DEFINE_bool("text_pairs", False, "The classifier takes pairs of texts.")
flags.DEFINE_string("drop", "", "Regular expression of tensors to leave out.")
flags.DEFINE_string("checkpoint", "latest", "Of a run: latest, best, a folder.")
flags.DEFINE_bool("use_average", False, "Take a run's moving average.")
flags.DEFINE_string("task", "", "The task to take of a trial with several.")
flags.DEFINE_enum("weights", "float32", ["float32", "bfloat16"], "Rounding.")
for _name in ("input", "output_dir"):
    # An empty path would be the current folder.
    flags.register_validator(
        _name,
        lambda path: path is None or path.strip(),
        message=f"--{_name} must be a path. Received: an empty one.",
    )


def main() -> None:
    """Converts a model and prints its parts and notes."""
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    source = installed.find_model(FLAGS.input)
    # Imported late, as TensorFlow takes seconds to import.
    from electra_tf.export import conversion
    from electra_tf.formats import portable

    values: dict[str, Any] = FLAGS.flag_values_dict()
    values["source_format"] = values["from"]
    names = [f.name for f in dataclasses.fields(conversion.ConversionOptions)]
    options = conversion.ConversionOptions(**{n: values[n] for n in names})
    output_dir = storage.path(FLAGS.output_dir)
    written = conversion.convert(source, FLAGS.to, output_dir, options)
    print("\n".join(portable.describe(written)))
    print(f"Written to {output_dir} as {FLAGS.to}; read back bit by bit.")


if __name__ == "__main__":
    command_line.run(main, required=["input", "output_dir", "to"])
