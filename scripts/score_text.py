r"""Shows which words of a text look replaced to an exported model.

    electra-score --saved_model=runs/tiny/export \\
        --text="The cat sat on the mat." --swap=mat:banana

An export of the objective `electric` says how likely text and words are.
"""

from absl import flags

from electra_tf import command_line
from electra_tf import installed

FLAGS = flags.FLAGS
flags.DEFINE_string("saved_model", None, "Made by export_saved_model.py.")
flags.DEFINE_multi_string("text", None, "A text to score; repeatable.")
flags.DEFINE_string(
    "swap",
    "",
    "WORD:REPLACEMENT. Also scores every text with the word's first "
    "occurrence exchanged, and compares.",
)
flags.DEFINE_integer("num_marked", 1, "Words to mark in each text.", 1)


def main() -> None:
    """Prints a table of words and the marked text for every text."""
    folder = installed.find_export(FLAGS.saved_model)
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export.clients import display
    from electra_tf.export.clients import scoring
    from electra_tf.export.clients import text_models

    texts, swap, num_marked = FLAGS.text, FLAGS.swap, FLAGS.num_marked
    swaps = [scoring.swap_word(text, swap) for text in texts if swap]
    changed = [change.data for change in swaps]
    export = text_models.LoadedExport(folder)
    signature = "score_text"
    if scoring.LIKELIHOOD_SIGNATURE in export.signature_names:
        signature = scoring.LIKELIHOOD_SIGNATURE
    originals = scoring.score(export, texts, signature)
    display.print_scored(originals, num_marked)
    for original, scored, change in zip(
        originals,
        scoring.score(export, changed, signature),
        swaps,
        strict=False,
    ):
        print(f"\nWith {swap}:\n")
        display.print_scored([scored], num_marked)
        print(display.describe_swap(original, scored, change))


if __name__ == "__main__":
    command_line.run(main, required=["saved_model", "text"])
