r"""Shows which words of a text look replaced to a model, or to its export.

    electra-score --model=tiny-en \
        --text="The king was born in London in the year 1820." --swap=born:table
    electra-score --model=tiny-en --input_file=texts.csv \
        --output_file=scores.csv

An export of the objective `electric` says how likely text and words are. A file
is CSV, TSV or JSON lines; its rows come back in their order, with the columns
`scored_words`, their probabilities, and `most_suspicious`. What was stopped
goes on with the same command.
"""

import functools
import pathlib
from typing import Any

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf.loaded_models import tables

FLAGS = flags.FLAGS
flags.DEFINE_string("model", "", "In any format that electra_tf.load takes.")
flags.DEFINE_string("saved_model", None, "Folder made by electra-export.")
flags.DEFINE_multi_string("text", [], "A text to score; repeatable.")
flags.DEFINE_string("input_file", "", "Texts: .csv, .tsv or .jsonl.")
flags.DEFINE_string("output_file", "", "A new file, as --input_file.")
flags.DEFINE_list("columns", [], "Of --input_file, that of texts; empty: text.")
flags.DEFINE_string(
    "swap",
    "",
    "WORD:REPLACEMENT. Also scores every text with the word's first "
    "occurrence exchanged, and compares.",
)
flags.DEFINE_integer("num_marked", 1, "Words to mark in each text.", 1)


def main() -> None:
    """Prints a table of words and the marked text for every text."""
    table, folder = tables.check_flags(FLAGS, bool(FLAGS.text))
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export.clients import scoring

    texts, swap, num_marked = FLAGS.text, FLAGS.swap, FLAGS.num_marked
    score, key = _open(folder)
    if table is not None:
        columns = tables.find_columns(["texts"], FLAGS.columns)
        table.write(columns, lambda c: map(_describe, score(c["texts"])), key)
        print(f"Wrote {table.target}")
        return
    swaps = [scoring.swap_word(text, swap) for text in texts if swap]
    changed = [c.data.decode("utf-8", "surrogateescape") for c in swaps]
    originals = score(texts)
    scoring.print_scored(originals, num_marked)
    for original, scored, change in zip(
        originals, score(changed), swaps, strict=False
    ):
        print(f"\nWith {swap}:\n")
        scoring.print_scored([scored], num_marked)
        print(scoring.describe_swap(original, scored, change))


def _open(folder: pathlib.Path) -> tuple[Any, str]:
    """The function that scores texts, and what tells its model apart."""
    from electra_tf.export.clients import scoring
    from electra_tf.export.clients import text_models
    from electra_tf.finetuning import model as model_lib
    from electra_tf.formats import reading
    from electra_tf.loaded_models import pretrained

    if not installed.is_export(folder):
        model = pretrained.PretrainedModel.from_portable(
            reading.read_model(folder)
        )
        return model.score, model_lib.checksum(model.networks.main.variables)
    export = text_models.LoadedExport(folder)
    signature = "score_text"
    if scoring.LIKELIHOOD_SIGNATURE in export.signature_names:
        signature = scoring.LIKELIHOOD_SIGNATURE
    score = functools.partial(scoring.score, export, signature=signature)
    return score, tables.digest_export(folder)


def _describe(scored: Any) -> dict[str, Any]:
    """The columns that are added to the row of a text."""
    words = [word.text for word in scored.words]
    numbers = [round(float(word[3]), 6) for word in scored.words]
    worst = [word.text for word in scored.most_suspicious()]
    added = {
        "scored_words": words,
        "most_suspicious": worst[0] if worst else "",
        "num_truncated": scored.num_truncated,
    }
    if scored.is_likelihood:
        total = scored.pseudo_log_likelihood
        likelihoods = {"log_likelihoods": numbers, "log_likelihood": total}
        return added | likelihoods
    return added | {"replaced_probabilities": numbers}


if __name__ == "__main__":
    command_line.run(main)
