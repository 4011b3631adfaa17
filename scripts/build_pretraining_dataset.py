r"""Builds a folder of TFRecord shards from text, or verifies one.

    python scripts/build_pretraining_dataset.py --corpus=python_docs \
        --vocab_file=runs/vocabulary --output_dir=runs/records --num_processes=2
    python scripts/build_pretraining_dataset.py --verify --output_dir=runs/records
"""

import sys

from absl import app
from absl import flags

from electra_tf.records.plan import BuildSettings
from electra_tf.records.verifier import verify_dataset
from electra_tf.records.workers import WorkerError
from electra_tf.records.writer import build_dataset

_CORPUS = flags.DEFINE_multi_string(
    "corpus", [], "File, folder, tfds:NAME[:FIELD] or python_docs; repeatable."
)
flags.DEFINE_alias("corpus_dir", "corpus")
_VOCABULARY = flags.DEFINE_string(
    "vocab_file", None, "vocab.txt or its folder."
)
flags.DEFINE_alias("vocab", "vocab_file")
_OUTPUT = flags.DEFINE_string(
    "output_dir", None, "Dataset folder.", required=True
)
_LENGTH = flags.DEFINE_integer("max_seq_length", 128, "Tokens per example.")
_PROCESSES = flags.DEFINE_integer("num_processes", 1, "Parallel processes.")
_NUM_FILES = flags.DEFINE_integer(
    "num_out_files", 0, "Training shards; 0 chooses by the corpus's size."
)
_BLANKS = flags.DEFINE_bool(
    "blanks_separate_docs", True, "Whether blank lines end documents."
)
_FORMAT = flags.DEFINE_enum(
    "corpus_format", "auto", ["auto", "text", "jsonl", "wiki", "archive"],
    "Format of the files; auto goes by name and first bytes.",
)  # fmt: skip
_FIELD = flags.DEFINE_string("text_field", "text", "Text member of JSON lines.")
_FRACTION = flags.DEFINE_float(
    "validation_fraction", 0.01, "Share of documents to hold out."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all random numbers.")
_OVERFLOW = flags.DEFINE_bool(
    "keep_overflow", False, "Start the next example with what is cut off."
)
_ORIGINAL = flags.DEFINE_bool(
    "original_order", False, "Reproduce the original's order of everything."
)
_RESUME = flags.DEFINE_bool("resume", False, "Complete what is missing.")
_VERIFY = flags.DEFINE_bool("verify", False, "Read a finished dataset back.")


def main(argv: list[str]) -> None:
    """Builds or verifies, and prints what there is."""
    if len(argv) > 1:
        raise app.UsageError(f"Unexpected arguments: {argv[1:]}.")
    try:
        if _VERIFY.value:
            counts = verify_dataset(_OUTPUT.value, _PROCESSES.value)
            print(f"{_OUTPUT.value} is intact: {counts} examples.")
            return
        settings = BuildSettings(
            tuple(_CORPUS.value), _VOCABULARY.value, _OUTPUT.value,
            _LENGTH.value, _NUM_FILES.value, _FRACTION.value, _SEED.value,
            _OVERFLOW.value, _ORIGINAL.value, _FORMAT.value, _BLANKS.value,
            _FIELD.value,
        )  # fmt: skip
        for manifest in build_dataset(
            settings, _PROCESSES.value, _RESUME.value
        ).values():
            print(manifest.summary())
    except (ValueError, OSError, WorkerError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    app.run(main)
