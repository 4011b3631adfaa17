r"""Shows which words of a text look replaced to a model, or to its export.

    electra-score --model=tiny-en \
        --text="The king was born in London in the year 1820." --swap=born:table
    electra-score --model=tiny-en --input_file=texts.csv \
        --output_file=scores.csv

Models of the objective `electric` give likelihoods of texts and words. A file
is CSV, TSV or JSON lines; the output has its rows in the same order, with
additional columns `scored_words`, `replaced_probabilities`, `most_suspicious`.
Repeat a stopped command to continue.
"""

from typing import Any

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf.loaded_models import tables

FLAGS = flags.FLAGS
tables.define_flags("A model that electra_tf.load can load, or an export.")
flags.DEFINE_multi_string("text", [], "A text to score; repeatable.")
flags.DEFINE_string("swap", "", "WORD:REPLACEMENT to compare with the text.")
flags.DEFINE_integer("num_marked", 1, "Words to mark in each text.", 1)


def main() -> None:
    """Prints each text's table of words and marked text, or writes a file."""
    table, folder = tables.check_flags(bool(FLAGS.text))
    # Imported late, as TensorFlow takes seconds to import.
    from electra_tf.export.clients import scoring
    from electra_tf.export.clients import text_models
    from electra_tf.loaded_models import pretrained

    texts, swap, num_marked = FLAGS.text, FLAGS.swap, FLAGS.num_marked
    model: Any
    if installed.is_export(folder):
        model = text_models.LoadedExport(folder)
    else:
        model = pretrained.load_pretrained(folder)
    if table is not None:
        columns = tables.find_columns(["texts"], FLAGS.columns)
        key, score = model.checksum(), model.score
        table.write(columns, lambda c: map(_describe, score(c["texts"])), key)
        print(f"Wrote {table.target}")
        return
    swaps = [scoring.swap_word(text, swap) for text in texts if swap]
    changed = [c.data.decode("utf-8", "surrogateescape") for c in swaps]
    originals = model.score(texts)
    scoring.print_scored(originals, num_marked)
    results = zip(originals, model.score(changed), swaps, strict=False)
    for original, scored, change in results:
        print(f"\nWith {swap}:\n")
        scoring.print_scored([scored], num_marked)
        print(scoring.describe_swap(original, scored, change))


def _describe(scored: Any) -> dict[str, Any]:
    words = [word.text for word in scored.words]
    numbers = [round(float(word[-1]), 6) for word in scored.words]
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
