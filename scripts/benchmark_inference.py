r"""Times an export on raw text, alone or beside Hugging Face's transformers.

    python scripts/benchmark_inference.py --saved_model=DIR --texts=FILE \
        [--peer_dir=HF_FOLDER --peer_python=PATH]

The export is that of a discriminator; the peer's folder holds the same weights
(scripts/convert_checkpoint.py writes it). Both answer which tokens look
replaced. Compare by ratio within one run: machines differ and are noisy.
"""

import os
import pathlib
import sys

from absl import flags

from electra_tf import command_line

_SAVED_MODEL = flags.DEFINE_string(
    "saved_model", None, "Folder made by export_saved_model.py.", required=True
)
_TEXTS = flags.DEFINE_string(
    "texts", None, "File with a text on every line.", required=True
)
_BATCH_SIZES = flags.DEFINE_list("batch_sizes", ["1", "64"], "In turn.")
_NUM_TEXTS = flags.DEFINE_integer(
    "num_texts", 640, "Texts of each side at each batch size.", 1
)
_NUM_BATCHES = flags.DEFINE_integer(
    "num_batches", 200, "At most as many batches.", 1
)
_ROUNDS = flags.DEFINE_integer("rounds", 5, "In which sides take turns.", 1)
_PEER_DIR = flags.DEFINE_string(
    "peer_dir", None, "The same discriminator in Hugging Face's format."
)
_PEER_PYTHON = flags.DEFINE_string(
    "peer_python", sys.executable, "Interpreter with torch and transformers."
)
_PEER_ATTENTION = flags.DEFINE_enum(
    "peer_attention", "sdpa", ["sdpa", "eager"], "Theirs; sdpa is the default."
)
_PEER_THREADS = flags.DEFINE_integer(
    "peer_threads", os.cpu_count() or 1, "Threads of torch.", 1
)


def main() -> None:
    """Prints the timings of every batch size."""
    from electra_tf.analysis import inference_benchmark
    from electra_tf.analysis import inference_sides

    peer = None
    if _PEER_DIR.value:
        peer = inference_sides.peer_command(
            pathlib.Path(_PEER_DIR.value),
            _PEER_PYTHON.value,
            _PEER_ATTENTION.value,
            _PEER_THREADS.value,
        )
    for line in inference_benchmark.report(
        pathlib.Path(_SAVED_MODEL.value),
        pathlib.Path(_TEXTS.value),
        [int(size) for size in _BATCH_SIZES.value],
        inference_benchmark.Amount(
            _NUM_TEXTS.value, _NUM_BATCHES.value, _ROUNDS.value
        ),
        peer,
    ):
        print(line, flush=True)


if __name__ == "__main__":
    command_line.run(main)
