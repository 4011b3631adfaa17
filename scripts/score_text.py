r"""Shows which words of a text look replaced to a model, or to its export.

    electra-score --model=tiny-en --text="The cat sat on the mat."
    electra-score --saved_model=runs/tiny/export \
        --text="The cat sat on the mat." --swap=mat:banana

An export of the objective `electric` says how likely text and words are.
"""

import functools
from typing import Any

from absl import flags

from electra_tf import command_line
from electra_tf import installed

FLAGS = flags.FLAGS
flags.DEFINE_string("model", "", "In any format that electra_tf.load takes.")
flags.DEFINE_string("saved_model", None, "Folder made by electra-export.")
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
    if bool(FLAGS.model) == bool(FLAGS.saved_model):
        raise ValueError("Give --model or --saved_model.")
    if FLAGS.model:
        model = installed.find_model(FLAGS.model)
    else:
        folder = installed.find_export(FLAGS.saved_model)
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf.export.clients import scoring
    from electra_tf.export.clients import text_models
    from electra_tf.formats import reading
    from electra_tf.loaded_models import pretrained

    texts, swap, num_marked = FLAGS.text, FLAGS.swap, FLAGS.num_marked
    swaps = [scoring.swap_word(text, swap) for text in texts if swap]
    changed = [c.data.decode("utf-8", "surrogateescape") for c in swaps]
    score: Any
    if FLAGS.model:
        score = pretrained.PretrainedModel.from_portable(
            reading.read_model(model)
        ).score
    else:
        export = text_models.LoadedExport(folder)
        signature = "score_text"
        if scoring.LIKELIHOOD_SIGNATURE in export.signature_names:
            signature = scoring.LIKELIHOOD_SIGNATURE
        score = functools.partial(scoring.score, export, signature=signature)
    originals = score(texts)
    scoring.print_scored(originals, num_marked)
    for original, scored, change in zip(
        originals, score(changed), swaps, strict=False
    ):
        print(f"\nWith {swap}:\n")
        scoring.print_scored([scored], num_marked)
        print(scoring.describe_swap(original, scored, change))


if __name__ == "__main__":
    command_line.run(main, required=["text"])
