r"""Learns a WordPiece vocabulary from text.

    python scripts/train_vocabulary.py --corpus=FILE_OR_FOLDER \
        --vocab_size=30522 --output_dir=DIR/vocabulary

Writes `vocab.txt` and `tokenizer_config.json`, the same bytes on every run.
For a cased vocabulary add --nodo_lower_case.
"""

import pathlib
from collections.abc import Iterator

from absl import flags

from electra_tf import command_line
from electra_tf.config import schema
from electra_tf.processes.progress import WorkProgress
from electra_tf.records import corpus as corpus_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.text import vocabulary_training

_CORPUS = flags.DEFINE_multi_string(
    "corpus", None, "File, folder, tfds:NAME or python_docs.", required=True
)
_OUTPUT = flags.DEFINE_string(
    "output_dir", None, "Folder to write into.", required=True
)
_SIZE = flags.DEFINE_integer("vocab_size", 30522, "Number of tokens.")
_LOWER = flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case.")
_STRIP = flags.DEFINE_bool(
    "strip_accents", True, "Whether to remove accents; only if lower-casing."
)
_MAX_LENGTH = flags.DEFINE_integer(
    "max_word_length", 200, "Characters above which a word is [UNK]."
)
_UNUSED = flags.DEFINE_integer("num_unused", 0, "Slots for later tokens.")
_COVERAGE = flags.DEFINE_float(
    "character_coverage", 0.9995, "Share of text whose characters are tokens."
)
_FREQUENCY = flags.DEFINE_integer(
    "min_frequency", 2, "How often two pieces must meet to become one."
)


def main() -> None:
    """Trains, saves and says what there is."""
    target = pathlib.Path(_OUTPUT.value) / vocabulary_lib.VOCABULARY_FILE
    if target.exists():
        raise FileExistsError(
            f"{target} exists already. Choose another --output_dir, or remove "
            "it yourself: records and models made with it need it."
        )
    settings = schema.build(
        vocabulary_lib.TokenizerSettings,
        {
            "do_lower_case": _LOWER.value,
            "strip_accents": _STRIP.value,
            "max_word_length": _MAX_LENGTH.value,
        },
    )
    corpus = corpus_lib.open_corpus(_CORPUS.value)
    vocabulary = vocabulary_training.train_vocabulary(
        _read_lines(corpus), _SIZE.value, settings,
        num_unused=_UNUSED.value, character_coverage=_COVERAGE.value,
        min_frequency=_FREQUENCY.value,
    )  # fmt: skip
    vocabulary.save(_OUTPUT.value)
    print(f"{target}: {vocabulary.size} tokens, {settings}")


def _read_lines(corpus: corpus_lib.Corpus) -> Iterator[str]:
    """Yields the corpus line by line and shows how far it is."""
    title = f"Reading {corpus.name}"
    with WorkProgress(title, corpus.num_text_bytes, "characters") as progress:
        for document in corpus.documents():
            yield from document.lines
            size = sum(map(len, document.lines))
            progress.advance(size, size)
    print("Learning the pieces ...", flush=True)


if __name__ == "__main__":
    command_line.run(main)
