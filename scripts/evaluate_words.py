r"""Has a model learnt context? Fills gaps and finds swapped words.

    electra-evaluate-words --model=DIR/model --sentences=TEXT
    electra-evaluate-words --model=runs/tiny/model \
        --swaps=data/python_docs/swapped_words.tsv \
        --text="Return the [MASK] of the list."

Prints every measure with a baseline that ignores the context.
"""

import json

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage
from electra_tf.records import corpus

FLAGS = flags.FLAGS
flags.DEFINE_string("model", None, "Any model that electra_tf.load can load.")
flags.DEFINE_string("sentences", "", "A corpus to draw sentences from.")
flags.DEFINE_integer("num_sentences", 600, "One gap and swap in each.", 1)
flags.DEFINE_integer("seed", 1, "Seed of sentences, gaps and swaps.", 0)
flags.DEFINE_string("swaps", "", "Table of sentence, word, replacement.")
flags.DEFINE_multi_string("text", [], "A text with [MASK] to fill; repeatable.")
flags.DEFINE_bool("json", False, "Print only the measures, as JSON.")


def main() -> None:
    """Prints measures, their baselines, and examples."""
    if not (FLAGS.sentences or FLAGS.swaps or FLAGS.text):
        raise ValueError("Give --sentences, --swaps or --text.")
    if FLAGS.json and FLAGS.text:
        raise ValueError("--json prints only measures. Leave --text out.")
    model = installed.find_model(FLAGS.model)
    if FLAGS.sentences:
        corpus.open_corpus(FLAGS.sentences)
    # Imported late, as TensorFlow takes seconds to import.
    from analyses import word_tests

    from electra_tf.loaded_models import pretrained

    results, seed = {}, FLAGS.seed
    if FLAGS.swaps:
        swaps = word_tests.read_swaps(storage.path(FLAGS.swaps))
    electra = pretrained.load_pretrained(model)
    if FLAGS.sentences:
        count = FLAGS.num_sentences
        drawn = word_tests.read_sentences(FLAGS.sentences, count, seed)
        results["sentences"] = word_tests.run(electra, drawn, seed)
    if FLAGS.swaps:
        ranked = word_tests.rank_swaps(electra, swaps)
        results["swaps"] = word_tests.WordTests(swaps=ranked)
    if FLAGS.json:
        numbers = {name: tests.compute() for name, tests in results.items()}
        print(json.dumps(numbers, indent=2))
        return
    for tests in results.values():
        print("\n".join(tests.describe()), end="\n\n")
    for text, masks in zip(
        FLAGS.text, electra.fill_masks(FLAGS.text), strict=True
    ):
        print(text)
        for fillings in masks:
            best = (f"{token} {share:.2f}" for token, share in fillings)
            print(f"    {', '.join(best)}")


if __name__ == "__main__":
    command_line.run(main, required=["model"])
