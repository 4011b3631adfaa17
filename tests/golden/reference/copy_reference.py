"""Copies a small part of one forward configuration into this folder."""

import argparse
import json
import pathlib
import shutil

import numpy as np

FILES = (
    "vocab.txt",
    "checkpoint",
    "model.ckpt.index",
    "model.ckpt.data-00000-of-00001",
    "inputs.npz",
)
# Where the configuration has it.
TRAINING = "train_one_hot.npz"
# What `info.json` says of files that are not copied.
LEFT_OUT = ("train_lookup", "after_training_checkpoint_from")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden_dir", type=pathlib.Path, required=True)
    parser.add_argument("--configuration", required=True)
    parser.add_argument("--leave_out", nargs="*", default=[], metavar="ARRAY")
    arguments = parser.parse_args()
    relative = pathlib.Path("forward", arguments.configuration)
    source = arguments.golden_dir / relative
    target = pathlib.Path(__file__).parent / relative
    target.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        shutil.copyfile(source / name, target / name)
    if (source / TRAINING).is_file():
        shutil.copyfile(source / TRAINING, target / TRAINING)
    with np.load(source / "outputs.npz") as outputs:
        kept = {k: outputs[k] for k in outputs if k not in arguments.leave_out}
    np.savez_compressed(target / "outputs.npz", **kept)
    info = json.loads((source / "info.json").read_text("utf-8"))
    info = {key: info[key] for key in info if key not in LEFT_OUT}
    if arguments.leave_out:
        info["outputs_left_out"] = sorted(arguments.leave_out)
    (target / "info.json").write_text(json.dumps(info, indent=1) + "\n")


if __name__ == "__main__":
    main()
