r"""Times an export on raw text, alone or beside Hugging Face's transformers.

    electra-benchmark-inference --saved_model=DIR --texts=FILE \
        [--peer_dir=HF_FOLDER --peer_python=PATH]

The export is that of a discriminator; the peer's folder holds the same weights
(electra-convert writes it). Both answer which tokens look
replaced. Compare by ratio within one run: machines differ and are noisy.
"""

import os
import sys

from absl import flags

from electra_tf import command_line
from electra_tf import installed
from electra_tf import storage

FLAGS = flags.FLAGS
flags.DEFINE_string("saved_model", None, "Folder made by electra-export.")
flags.DEFINE_string("texts", None, "File with a text on every line.")
flags.DEFINE_list("batch_sizes", ["1", "64"], "Texts of a batch.")
flags.DEFINE_integer("num_texts", 640, "Texts at each batch size.", 1)
flags.DEFINE_integer("num_batches", 200, "At most as many batches.", 1)
flags.DEFINE_integer("rounds", 5, "Rounds in which both take turns.", 1)
flags.DEFINE_string("peer_dir", None, "The model in Hugging Face's format.")
flags.DEFINE_string(
    "peer_python", sys.executable, "Interpreter with torch and transformers."
)
flags.DEFINE_enum(
    "peer_attention", "sdpa", ["sdpa", "eager"], "How the peer attends."
)
flags.DEFINE_integer(
    "peer_threads", os.cpu_count() or 1, "Threads of torch.", 1
)
flags.register_validator(
    "texts",
    lambda path: path is None or storage.path(path).is_file(),
    message="--texts must be a file that is there.",
)


def main() -> None:
    """Prints the timings of every batch size."""
    saved_model = installed.find_export(FLAGS.saved_model)
    from electra_tf.analysis import benchmarks

    peer = None
    if FLAGS.peer_dir:
        peer = benchmarks.peer_command(
            storage.path(FLAGS.peer_dir),
            FLAGS.peer_python,
            FLAGS.peer_attention,
            FLAGS.peer_threads,
        )
    for line in benchmarks.time_export(
        saved_model,
        storage.path(FLAGS.texts),
        [int(size) for size in FLAGS.batch_sizes],
        benchmarks.Amount(FLAGS.num_texts, FLAGS.num_batches, FLAGS.rounds),
        peer,
    ):
        print(line, flush=True)


if __name__ == "__main__":
    command_line.run(main, required=["saved_model", "texts"])
