"""Harvests the embedded corpus: the documentation of this Python installation.

    python data/python_docs/prepare.py                      # into the cache
    python data/python_docs/prepare.py --output_dir=FOLDER

Prints the folder. The builder does the same for `--corpus=python_docs`.
"""

import json
import sys

from absl import flags

from electra_tf import command_line
from electra_tf.records import python_docs

_OUTPUT = flags.DEFINE_string(
    "output_dir", None, "Folder to create; by default one in the user's cache."
)


def main() -> None:
    """Prepares the corpus unless it is there, and says what it holds."""
    folder = python_docs.prepare(_OUTPUT.value)
    provenance = json.loads(
        (folder / python_docs.PROVENANCE_FILE).read_text("utf-8")
    )
    for name, counts in provenance["files"].items():
        print(
            f"{name:20} {counts['documents']:6,} documents "
            f"{counts['characters']:10,} characters",
            file=sys.stderr,
        )
    print(folder)


if __name__ == "__main__":
    command_line.run(main)
