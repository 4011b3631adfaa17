r"""Builds a folder of TFRecord shards from text, or verifies one.

    electra-build-dataset --corpus=python_docs \
        --vocab_file=vocabulary --output_dir=records --num_processes=2
    electra-build-dataset --verify --output_dir=records

On several machines: first with --task=0/8 to --task=7/8, then with --merge.
"""

import dataclasses
import sys

from absl import flags

from electra_tf import command_line
from electra_tf.config import schema
from electra_tf.records.manifest import Index
from electra_tf.records.manifest import verify_dataset
from electra_tf.records.shards import BuildSettings
from electra_tf.records.writer import build_dataset
from electra_tf.records.writer import run_task

flags.DEFINE_multi_string("corpus", [], "File, folder, tfds:NAME, python_docs.")
flags.DEFINE_alias("corpus_dir", "corpus")
flags.DEFINE_string("vocab_file", None, "vocab.txt, or the folder it is in.")
flags.DEFINE_alias("vocab", "vocab_file")
flags.DEFINE_string("output_dir", None, "Dataset folder.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens per example.")
flags.DEFINE_integer("num_processes", 1, "Parallel processes.")
flags.DEFINE_multi_string("beam_option", None, "As --runner=FlinkRunner.")
flags.DEFINE_integer("num_out_files", 0, "Training shards; 0: by text size.")
flags.DEFINE_float("validation_fraction", 0.01, "Share held out, 0-1.")
flags.DEFINE_integer("seed", 0, "Seed of all random numbers.")
flags.DEFINE_bool("keep_overflow", False, "Keep tokens that would be cut off.")
flags.DEFINE_bool("packed", False, "Put several short documents into a row.")
flags.DEFINE_bool("original_order", False, "Use the original's order.")
flags.DEFINE_string("corpus_format", "auto", "Or text, jsonl, parquet, ...")
flags.DEFINE_bool("blanks_separate_docs", True, "Blank lines end documents.")
flags.DEFINE_string("text_field", "text", "JSON member or column of the text.")
flags.DEFINE_alias("text_column", "text_field")
_DEDUPLICATE = ["", "exact", "near"]
flags.DEFINE_enum("deduplicate", "", _DEDUPLICATE, "Drop repeated documents.")
flags.DEFINE_list("corpus_weights", [], "Shares of words, e.g. 0.7,0.3.")
flags.DEFINE_bool("resume", False, "Complete an unfinished dataset.")
flags.DEFINE_string("task", "", "This machine's share: 3/64 is 3 of 0-63.")
flags.DEFINE_bool("merge", False, "Complete the dataset after all tasks.")
flags.DEFINE_bool("verify", False, "Check a dataset without changing it.")


def main() -> int:
    """Builds or verifies a dataset, and prints its report."""
    values = flags.FLAGS.flag_values_dict()
    if values["verify"]:
        counts = verify_dataset(values["output_dir"], values["num_processes"])
        print(f"{values['output_dir']} is intact: {counts} examples.")
        return 0
    if not values["corpus"] or not values["vocab_file"]:
        raise ValueError("Building needs --corpus and --vocab_file.")
    if values["task"] and values["merge"]:
        raise ValueError(
            "--task and --merge cannot be combined. Received: both. Use "
            "--merge once all tasks have ended."
        )
    values["vocabulary"] = values["vocab_file"]
    names = [field.name for field in dataclasses.fields(BuildSettings)]
    settings = schema.build(BuildSettings, {x: values[x] for x in names})
    workers, beam = values["num_processes"], values["beam_option"]
    try:
        if values["task"]:
            print(run_task(settings, values["task"], workers, beam))
            return 0
        resume, merge = values["resume"], values["merge"]
        build_dataset(settings, workers, resume, beam, merge)
    except KeyboardInterrupt:
        print("Interrupted; --resume continues the build.", file=sys.stderr)
        return 130
    print("\n".join(Index.load(values["output_dir"]).report))
    return 0


if __name__ == "__main__":
    command_line.run(main, required=["output_dir"])
