r"""Shows what a fine-tuned model answers, or writes it into a file.

    electra-predict --model=DIR/mine --text="A good film."
    electra-predict --model=DIR/mine --text="A cat sat." \
        --text_pair="A cat was sitting."
    electra-predict --saved_model=DIR/export --question="Who sat?" \
        --context="The cat sat on the mat."
    electra-predict --model=DIR/mine --input_file=texts.csv \
        --output_file=answers.csv

Labels with probabilities, a score, words with tags, or an answer with its
place in the context. Flags may be given again for further rows. A file is CSV,
TSV or JSON lines; its rows come back in their order, with columns
`predicted_...` added. What was stopped goes on with the same command.
"""

import pathlib
from collections.abc import Iterator
from typing import Any

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf.loaded_models import tables

FLAGS = flags.FLAGS
flags.DEFINE_string("model", "", "A fine-tuning, a trial, or an export.")
flags.DEFINE_string("saved_model", "", "Folder made by electra-export.")
flags.DEFINE_string("task", "", "Of a fine-tuning on several tasks.")
flags.DEFINE_multi_string("text", [], "A text.")
flags.DEFINE_multi_string("text_pair", [], "The second text of a pair.")
flags.DEFINE_multi_string("question", [], "A question.")
flags.DEFINE_multi_string("context", [], "One serves all questions.")
flags.DEFINE_string("input_file", "", "Texts: .csv, .tsv or .jsonl.")
flags.DEFINE_string("output_file", "", "A new file, as --input_file.")
flags.DEFINE_list(
    "columns",
    [],
    "Of --input_file, the inputs; empty: those of the training file, or text, "
    "text_pair, question and context.",
)
_INPUTS = ("text", "text_pair", "question", "context")


def main() -> None:
    """Prints the answers, one block for each row, or writes them."""
    inputs = {f"{n}s": getattr(FLAGS, n) for n in _INPUTS if getattr(FLAGS, n)}
    table, folder = tables.check_flags(FLAGS, bool(inputs))
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export import export_metadata
    from electra_tf.export.clients import predictions

    model, metadata, own, key = _open(folder)
    if table is None:
        for lines in predictions.describe(model, metadata, inputs):
            print(lines)
        return

    def answer(texts: tables.Texts) -> Iterator[dict[str, Any]]:
        for _, prediction in predictions.predict(model, metadata, texts):
            yield tables.add_prefix(prediction)

    names = export_metadata.SIGNATURES[metadata.signatures[0]].inputs
    table.write(tables.find_columns(names, FLAGS.columns, own), answer, key)
    print(f"Wrote {table.target}")


def _open(folder: pathlib.Path) -> tuple[Any, Any, Any, str]:
    """A model, its metadata, settings of its files, what tells it apart."""
    from electra_tf.export.clients import predictions
    from electra_tf.export.clients import text_models
    from electra_tf.finetuning import model as model_lib
    from electra_tf.loaded_models import finetuned
    from electra_tf.loaded_models import pretrained

    if installed.is_export(folder):
        export = text_models.LoadedExport(folder)
        metadata = predictions.require_finetuned(export)
        return export, metadata, None, tables.digest_export(folder)
    loaded = pretrained.load(folder, task=FLAGS.task)
    if not isinstance(loaded, finetuned.FinetunedModel):
        raise ValueError(
            f"--model must be a fine-tuned model. Received: {folder}, a pre-"
            "trained one. electra-score is for those; electra-finetune makes "
            "the other."
        )
    metadata = loaded.metadata  # Answers depend on its threshold, say.
    key = f"{model_lib.checksum(loaded.keras_model.weights)} {metadata}"
    return loaded.text_model, metadata, loaded.own, key


if __name__ == "__main__":
    command_line.run(main)
