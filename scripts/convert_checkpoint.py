r"""Writes a model in another format: TF1, ours, Hugging Face, KerasHub.

    python scripts/convert_checkpoint.py --from=tf1 --to=electra_tf \
        --input=electra_small --output_dir=DIR/model
    python scripts/convert_checkpoint.py --to=huggingface \
        --input=DIR/model --output_dir=DIR/hf

Every tensor finds its place, or the command fails and lists those that do not.
What was written is read back and compared bit by bit before it gets its name.
"""

import pathlib

from absl import flags
from absl import logging

from electra_tf import command_line

_FORMATS = ("tf1", "electra_tf", "huggingface", "keras_hub")
_INPUT = flags.DEFINE_string(
    "input",
    None,
    "The model: a folder, the prefix of a TF1 checkpoint, or tiny-en.",
    required=True,
)
_OUTPUT_DIR = flags.DEFINE_string(
    "output_dir", None, "Folder to create; must not exist.", required=True
)
_FROM = flags.DEFINE_enum(
    "from", "", ("", *_FORMATS), "Format of the input; empty: found out."
)
_TO = flags.DEFINE_enum("to", None, _FORMATS, "Format to write.", required=True)
_GENERATOR_INPUT = flags.DEFINE_string(
    "generator_input",
    "",
    "Where the input is a discriminator alone: its generator's model.",
)
_VOCAB_FILE = flags.DEFINE_string(
    "vocab_file", "", "vocab.txt or its folder, if the input has none."
)
_LABELS = flags.DEFINE_list(
    "labels", [], "Of a fine-tuned model whose files do not name them."
)
_TEXT_PAIRS = flags.DEFINE_bool(
    "text_pairs", False, "Of a classifier whose files do not say: takes pairs."
)
_DROP = flags.DEFINE_string(
    "drop", "", "Regular expression of parts to leave out, by our names."
)
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint", "latest", "Of a run of ours: latest, best, or a folder."
)
_USE_AVERAGE = flags.DEFINE_bool(
    "use_average", False, "Of a run of ours: the moving average."
)
_TASK = flags.DEFINE_string("task", "", "Of a trial with several, which one.")
_WEIGHTS = flags.DEFINE_enum(
    "weights",
    "float32",
    ["float32", "bfloat16"],
    "bfloat16 rounds them; --to=electra_tf then stores them in half the space.",
)
for _name in ("input", "output_dir"):
    # An empty path would be the current folder; --input=$UNSET is a slip.
    flags.register_validator(
        _name,
        lambda path: path is None or path.strip(),
        message=f"--{_name} must be a path. Received: an empty one.",
    )


def main() -> None:
    """Converts and says what was found and what was left out."""
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export import conversion
    from electra_tf.formats import portable

    options = conversion.ConversionOptions(
        _FROM.value,
        pathlib.Path(_GENERATOR_INPUT.value)
        if _GENERATOR_INPUT.value
        else None,
        pathlib.Path(_VOCAB_FILE.value) if _VOCAB_FILE.value else None,
        tuple(_LABELS.value),
        _TEXT_PAIRS.value,
        _DROP.value,
        _CHECKPOINT.value,
        _USE_AVERAGE.value,
        _TASK.value,
        _WEIGHTS.value == "bfloat16",
    )
    output_dir = pathlib.Path(_OUTPUT_DIR.value)
    written = conversion.convert(
        pathlib.Path(_INPUT.value), _TO.value, output_dir, options
    )
    print("\n".join(portable.describe(written)))
    print(f"Written to {output_dir} as {_TO.value}; read back bit by bit.")


if __name__ == "__main__":
    command_line.run(main)
