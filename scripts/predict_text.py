r"""Shows the predictions of a fine-tuned model, or writes them to a file.

    electra-predict --model=DIR/mine --text="A good film."
    electra-predict --model=DIR/mine --text="A cat sat." \
        --text_pair="A cat was sitting."
    electra-predict --saved_model=DIR/export --question="Who sat?" \
        --context="The cat sat on the mat."
    electra-predict --model=DIR/mine --input_file=texts.csv \
        --output_file=answers.csv

Predictions are labels with probabilities, a score, words with tags, or an
answer with its position in the context. Repeat flags for further rows. A file
is CSV, TSV or JSON lines; the output has its rows in the same order, with
additional columns `predicted_...`. Repeat a stopped command to continue.
"""

from collections.abc import Iterator
from typing import Any

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf.loaded_models import tables

FLAGS = flags.FLAGS
tables.define_flags("A fine-tuning, a trial, or an export.")
flags.DEFINE_string("task", "", "The task to take of several.")
flags.DEFINE_multi_string("text", [], "A text.")
flags.DEFINE_multi_string("text_pair", [], "The second text of a pair.")
flags.DEFINE_multi_string("question", [], "A question.")
flags.DEFINE_multi_string("context", [], "A context, or one for all questions.")
_INPUTS = ("text", "text_pair", "question", "context")


def main() -> None:
    """Prints the predictions, a block for each row, or writes them."""
    inputs = {f"{n}s": getattr(FLAGS, n) for n in _INPUTS if getattr(FLAGS, n)}
    table, folder = tables.check_flags(bool(inputs))
    # Imported late, as TensorFlow takes seconds to import.
    from electra_tf.export.clients import text_models
    from electra_tf.loaded_models import pretrained

    loaded: Any
    if installed.is_export(folder):
        loaded = model = text_models.LoadedExport(folder)
    else:
        loaded = pretrained.load(folder, task=FLAGS.task)
        model = loaded.text_model
    names = model.input_names
    if table is None:
        for lines in model.describe(inputs):
            print(lines)
        return

    def answer(texts: tables.Texts) -> Iterator[dict[str, Any]]:
        for _, prediction in model.answer(texts):
            yield tables.add_prefix(prediction)

    own = getattr(loaded, "own", None)
    # Predictions depend on the metadata as well, for example on a threshold.
    key = f"{loaded.checksum()} {model.metadata}"
    table.write(tables.find_columns(names, FLAGS.columns, own), answer, key)
    print(f"Wrote {table.target}")


if __name__ == "__main__":
    command_line.run(main)
