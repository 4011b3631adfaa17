"""The builder of datasets: whole runs of it, each with its start."""

import pathlib
import subprocess
import sys
import tempfile
from typing import Any

from benchmarks import side
from electra_tf.records import manifest

_SCRIPT = pathlib.Path(__file__).parents[1] / "build_pretraining_dataset.py"


def build(**arguments: Any) -> side.Built:
    """A step builds the whole dataset, in a folder that is deleted."""

    def step(_: Any) -> float:
        with tempfile.TemporaryDirectory() as folder:
            given = arguments | {"output_dir": folder + "/dataset"}
            finished = subprocess.run(
                [sys.executable, str(_SCRIPT)]
                + [f"--{name}={value}" for name, value in given.items()],
                capture_output=True,
                text=True,
            )
            if finished.returncode:
                sys.exit(finished.stderr)
            splits = manifest.load_index(given["output_dir"])["splits"]
            return sum(split["num_examples"] for split in splits.values())

    # No single process has the memory.
    methods = {"peak_memory": lambda: None}
    return side.Built(step, {}, ["electra-tf"], methods)


if __name__ == "__main__":
    side.serve({"build": build})
