"""Runs transformers: transformers_peer.py FOLDER CLASS INPUTS OUTPUTS."""

import json
import sys

import numpy as np
import torch
import transformers


def answer(folder: str, name: str, inputs: str, outputs: str) -> None:
    """A model's outputs, and what it says of its file."""
    model, report = getattr(transformers, name).from_pretrained(
        folder, output_loading_info=True
    )
    model.eval()
    tensors = {n: torch.tensor(v) for n, v in np.load(inputs).items()}
    with torch.inference_mode():
        found = model(**tensors)
    arrays = {
        n: v.numpy() for n, v in found.items() if isinstance(v, torch.Tensor)
    }
    problems = {n: sorted(map(str, v)) for n, v in report.items()}
    np.savez(outputs, report=json.dumps(problems), **arrays)


if __name__ == "__main__":
    answer(*sys.argv[1:])
