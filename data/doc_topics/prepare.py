"""Makes the embedded little task: which documentation is a sentence from?

    python data/doc_topics/prepare.py                  # beside the corpus
    python data/doc_topics/prepare.py --output_dir=FOLDER

Prints the folder, which then holds train.csv, dev.csv and test.csv.
"""

import sys

import topics
from absl import flags

from electra_tf import command_line

_OUTPUT = flags.DEFINE_string(
    "output_dir", None, "Folder to create; by default one beside the corpus."
)
_CORPUS = flags.DEFINE_string(
    "corpus_dir",
    None,
    "Folder of the embedded corpus; by default the one in the user's cache.",
)


def main() -> None:
    """Prepares the files unless they are there, and says what they hold."""
    folder = topics.prepare(_OUTPUT.value, _CORPUS.value)
    for split, size in topics.SIZES.items():
        print(f"{split}.csv {size:6,} sentences", file=sys.stderr)
    print(folder)


if __name__ == "__main__":
    command_line.run(main)
