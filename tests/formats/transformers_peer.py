"""Runs transformers, in whatever Python has it; called by its test.

python transformers_peer.py answer FOLDER CLASS INPUTS OUTPUTS
python transformers_peer.py tokenize FOLDER TEXTS OUTPUTS
"""

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


def tokenize(folder: str, texts: str, outputs: str) -> None:
    """The ids of every text, with [CLS] and [SEP]."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with open(texts, encoding="utf-8") as stream:
        lines = json.load(stream)
    with open(outputs, "w", encoding="utf-8") as stream:
        json.dump([tokenizer(line)["input_ids"] for line in lines], stream)


if __name__ == "__main__":
    {"answer": answer, "tokenize": tokenize}[sys.argv[1]](*sys.argv[2:])
