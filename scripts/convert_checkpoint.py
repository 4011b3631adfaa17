r"""Writes a model in another format: TF1, ours, Hugging Face, KerasHub.

    electra-convert --from=tf1 --to=electra_tf \
        --input=electra_small --output_dir=DIR/model
    electra-convert --to=huggingface \
        --input=DIR/model --output_dir=DIR/hf

Every tensor finds its place, or the command fails and lists those that do not.
What was written is read back and compared bit by bit before it gets its name.
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
flags.DEFINE_string("input", None, "A folder, TF1 prefix, or name of the hub.")
flags.DEFINE_string("output_dir", None, "Folder to create; must not exist.")
flags.DEFINE_enum("from", "", ("", *_FORMATS), "Format of the input, if given.")
flags.DEFINE_enum("to", None, _FORMATS, "Format to write.")
flags.DEFINE_string("generator_input", "", "A lone discriminator's generator.")
flags.DEFINE_string("vocab_file", "", "vocab.txt or its folder, if missing.")
flags.DEFINE_list("labels", [], "Of outputs, if the files do not name them.")
flags.DEFINE_bool("text_pairs", False, "A classifier takes pairs.")
flags.DEFINE_string("drop", "", "Regular expression of our names to leave out.")
flags.DEFINE_string("checkpoint", "latest", "Of a run; or best, or a folder.")
flags.DEFINE_bool("use_average", False, "Of a run of ours: the moving average.")
flags.DEFINE_string("task", "", "Of a trial with several, which one.")
flags.DEFINE_enum("weights", "float32", ["float32", "bfloat16"], "Or rounded.")
for _name in ("input", "output_dir"):
    # An empty path would be the current folder.
    flags.register_validator(
        _name,
        lambda path: path is None or path.strip(),
        message=f"--{_name} must be a path. Received: an empty one.",
    )


def main() -> None:
    """Converts and says what was found and what was left out."""
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    source = installed.find_model(FLAGS.input)
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export import conversion
    from electra_tf.formats import portable

    values: dict[str, Any] = FLAGS.flag_values_dict()
    values["source_format"] = values["from"]
    names = [f.name for f in dataclasses.fields(conversion.ConversionOptions)]
    told = {name: values[name] for name in names}
    options = conversion.ConversionOptions(**told)
    output_dir = storage.path(FLAGS.output_dir)
    written = conversion.convert(source, FLAGS.to, output_dir, options)
    print("\n".join(portable.describe(written)))
    print(f"Written to {output_dir} as {FLAGS.to}; read back bit by bit.")


if __name__ == "__main__":
    command_line.run(main, required=["input", "output_dir", "to"])
