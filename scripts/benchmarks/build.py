"""Whole builds of a dataset, each in a new process."""

import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks import side
from electra_tf.records import manifest

_SCRIPT = pathlib.Path(__file__).parents[1] / "build_pretraining_dataset.py"


def build(corpus: str, vocab_file: str, num_processes: int) -> side.Built:
    """Returns a step that builds the whole dataset in a temporary folder."""

    def step(_: Any) -> float:
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder, "dataset")
            command = [sys.executable, str(_SCRIPT), f"--corpus={corpus}"]
            command += [f"--vocab_file={vocab_file}", f"--output_dir={output}"]
            command.append(f"--num_processes={num_processes}")
            finished = subprocess.run(command, capture_output=True, text=True)
            if finished.returncode:
                sys.exit(finished.stderr)
            splits = manifest.Index.load(output).splits.values()
            return sum(split.num_examples for split in splits)

    # Several processes work, so there is no memory of one to report.
    return side.Built(step, {}, ("electra-tf",), {"peak_memory": lambda: None})


if __name__ == "__main__":
    side.serve({"build": build})
