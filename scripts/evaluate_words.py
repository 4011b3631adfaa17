r"""Has a model learnt context? Fills gaps and finds swapped words.

    python scripts/evaluate_words.py --model=DIR/model --sentences=TEXT
    python scripts/evaluate_words.py --model=runs/tiny/model \
        --swaps=data/python_docs/swapped_words.tsv \
        --text="Return the [MASK] of the list."

Beside every number stands that of a model which reads nothing.
"""

import json
import pathlib

from absl import flags

from electra_tf import command_line

_MODEL = flags.DEFINE_string(
    "model",
    None,
    "A model in any format that electra_tf.load takes.",
    required=True,
)
_SENTENCES = flags.DEFINE_string(
    "sentences",
    "",
    "Running text to draw sentences from: a file, a folder, or any corpus.",
)
_NUM_SENTENCES = flags.DEFINE_integer(
    "num_sentences", 600, "Sentences to draw; a gap and a swap in each.", 1
)
_SEED = flags.DEFINE_integer("seed", 1, "Of sentences, gaps and swaps.", 0)
_SWAPS = flags.DEFINE_string(
    "swaps", "", "Swaps made by hand: a table of sentence, word, replacement."
)
_TEXTS = flags.DEFINE_multi_string(
    "text", [], "A text with [MASK] to show filled; may be given again."
)
_JSON = flags.DEFINE_bool("json", False, "Print the numbers alone, as JSON.")


def main() -> None:
    """Prints the numbers beside their baselines, and examples."""
    if not (_SENTENCES.value or _SWAPS.value or _TEXTS.value):
        raise ValueError("Give --sentences, --swaps or --text.")
    if _JSON.value and _TEXTS.value:
        raise ValueError("--json prints numbers alone. Leave --text out.")
    # TensorFlow takes seconds to import; a mistaken flag is reported before.
    from electra_tf import electra as electra_lib
    from electra_tf.analysis import word_tests

    seed, drawn, swaps = _SEED.value, [], []
    if _SENTENCES.value:
        drawn = word_tests.read_sentences(
            _SENTENCES.value, _NUM_SENTENCES.value, seed
        )
    if _SWAPS.value:
        swaps = word_tests.read_swaps(pathlib.Path(_SWAPS.value))
    electra = electra_lib.Electra.load(_MODEL.value)
    results = {}
    if drawn:
        results["sentences"] = word_tests.run(electra, drawn, seed)
    if swaps:
        ranked = word_tests.rank_swaps(electra, swaps)
        results["swaps"] = word_tests.WordTests(swaps=ranked)
    if _JSON.value:
        found = {name: tests.compute() for name, tests in results.items()}
        print(json.dumps(found, indent=2))
        return
    for tests in results.values():
        print("\n".join(tests.describe()), end="\n\n")
    if _TEXTS.value:
        _print_filled(_TEXTS.value, electra.fill_masks(_TEXTS.value))


def _print_filled(texts: list[str], filled: list) -> None:
    for text, masks in zip(texts, filled, strict=True):
        print(text)
        for fillings in masks:
            best = (f"{token} {share:.2f}" for token, share in fillings)
            print(f"    {', '.join(best)}")


if __name__ == "__main__":
    command_line.run(main)
