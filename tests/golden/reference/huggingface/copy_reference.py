"""Copies a few of the Hugging Face models into this folder."""

import argparse
import pathlib
import shutil

import numpy as np

MODELS = ("pretraining", "sequence_classification", "question_answering")
# Large, and what follows from it is there.
LEFT_OUT = ("hidden_states",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden_dir", type=pathlib.Path, required=True)
    source_dir = parser.parse_args().golden_dir / "huggingface"
    for model in MODELS:
        source = source_dir / model
        target = pathlib.Path(__file__).parent / model
        target.mkdir(exist_ok=True)
        for path in source.iterdir():
            if path.suffix != ".npz" and path.name != "tensors.json":
                shutil.copyfile(path, target / path.name)
        for name in ("inputs.npz", "outputs.npz"):
            with np.load(source / name) as arrays:
                kept = {k: arrays[k] for k in arrays if k not in LEFT_OUT}
            np.savez_compressed(target / name, **kept)


if __name__ == "__main__":
    main()
