"""Runs transformers, in whatever Python has it; called by its test.

python transformers_peer.py answer FOLDER CLASS INPUTS OUTPUTS
python transformers_peer.py tokenize FOLDER TEXTS OUTPUTS
python transformers_peer.py make FOLDER CLASS FIELDS VOCABULARY
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


def make(folder: str, name: str, fields: str, vocabulary: str) -> None:
    """A model with random weights and its tokenizer, as it saves them."""
    torch.manual_seed(3)
    config = transformers.ElectraConfig(**json.loads(fields))
    model = getattr(transformers, name)(config)
    for path, parameter in model.named_parameters():
        mean = float(path.endswith("LayerNorm.weight"))
        torch.nn.init.normal_(parameter, mean, 0.2)
    model.save_pretrained(folder)
    tokenizer = transformers.ElectraTokenizerFast.from_pretrained(vocabulary)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    {"answer": answer, "tokenize": tokenize, "make": make}[sys.argv[1]](
        *sys.argv[2:]
    )
