r"""Learns a WordPiece vocabulary from text.

    electra-train-vocabulary --corpus=FILE_OR_FOLDER \
        --vocab_size=30522 --output_dir=DIR/vocabulary

Writes `vocab.txt` and `tokenizer_config.json`, with the same bytes in every
run. For a cased vocabulary add --nodo_lower_case. Accents are removed unless a
sample of the text shows that they are letters, as in Hindi, Thai or Japanese.
"""

import sys
from collections.abc import Iterator

from absl import flags

from electra_tf import command_line
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.processes.progress import WorkProgress
from electra_tf.records import corpus as corpus_lib
from electra_tf.records import readers
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.text import vocabulary_training

FLAGS = flags.FLAGS
flags.DEFINE_multi_string("corpus", None, "File, folder or tfds:NAME.")
flags.DEFINE_string("corpus_format", "auto", "Or text, jsonl, parquet, ...")
flags.DEFINE_string("text_field", "text", "JSON member or column of the text.")
flags.DEFINE_alias("text_column", "text_field")
flags.DEFINE_string("output_dir", None, "Folder to write into.")
flags.DEFINE_integer("vocab_size", 30522, "Number of tokens.")
flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case.")
flags.DEFINE_bool("strip_accents", None, "Default: chosen by a sample.")
flags.DEFINE_integer("max_word_length", 200, "Longer words are [UNK].")
flags.DEFINE_integer("num_unused", 0, "Slots for later tokens.", lower_bound=0)
flags.DEFINE_float("character_coverage", 0.9995, "Of the text.", 0.0, 1.0)
flags.DEFINE_integer("min_frequency", 2, "Of adjacent pieces to merge.", 1)

_SAMPLE_CHARACTERS = 1 << 22  # for the choice of accents


def main() -> None:
    """Learns and saves a vocabulary, and prints its size."""
    target = storage.path(FLAGS.output_dir) / vocabulary_lib.VOCABULARY_FILE
    if target.exists():
        raise FileExistsError(
            f"{target} exists already. Choose another --output_dir, or remove "
            "the file yourself: records and models made with it need it."
        )
    values = {"format": FLAGS.corpus_format, "text_field": FLAGS.text_field}
    options = schema.build(readers.ReadingOptions, values)
    corpus = corpus_lib.open_corpus(FLAGS.corpus, options)
    strip_accents = FLAGS.strip_accents
    if strip_accents is None:
        strip_accents, reason = vocabulary_training.choose_accents(
            _read_sample(corpus)
        )
        if FLAGS.do_lower_case:
            print(reason)
    settings = vocabulary_lib.TokenizerSettings(
        FLAGS.do_lower_case, strip_accents, FLAGS.max_word_length
    )
    vocabulary = vocabulary_training.train_vocabulary(
        _read_lines(corpus),
        FLAGS.vocab_size,
        settings,
        num_unused=FLAGS.num_unused,
        character_coverage=FLAGS.character_coverage,
        min_frequency=FLAGS.min_frequency,
    )
    vocabulary.save(FLAGS.output_dir)
    case = "lower-cased" if settings.do_lower_case else "cased"
    print(f"{target}: {vocabulary.size:,} tokens, {case}.")


def _read_sample(corpus: corpus_lib.Corpus) -> str:
    lines = list[str]()
    for source in corpus.sources:
        left = _SAMPLE_CHARACTERS // len(corpus.sources)
        for document in corpus_lib.open_source(source, corpus.options):
            text = "\n".join(document.lines)[:left]
            lines.append(text)
            left -= len(text)
            if left <= 0:
                break
    return "\n".join(lines)


def _read_lines(corpus: corpus_lib.Corpus) -> Iterator[str]:
    print("\n".join(corpus_lib.preview(corpus)), file=sys.stderr)
    title = f"Reading {corpus.name}"
    total = sum(source.num_bytes for source in corpus.sources)
    with WorkProgress(title, total, "characters") as progress:
        for source in corpus.sources:
            reader = corpus_lib.open_source(source, corpus.options)
            num_bytes = 0
            for document in reader:
                yield from document.lines
                size = sum(map(len, document.lines))
                progress.advance(reader.num_bytes - num_bytes, size)
                num_bytes = reader.num_bytes
    print("Learning the tokens ...", flush=True)


if __name__ == "__main__":
    command_line.run(main, required=["corpus", "output_dir"])
