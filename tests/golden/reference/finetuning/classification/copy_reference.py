"""Copies some splits, with a vocabulary of only their tokens."""

import argparse
import json
import pathlib
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[4]))

from electra_tf.text import tokenizer as tokenizer_lib  # noqa: E402
from electra_tf.text import vocabulary as vocabulary_lib  # noqa: E402

# One of each layout: no header, swapped pairs, a bad line, an odd name.
SPLITS = (
    ("cola", "train", "train"),
    ("sst", "test", "test"),
    ("mrpc", "train", "train"),
    ("qqp", "dev", "dev"),
    ("mnli", "diagnostic", "diagnostic"),
    ("sts", "dev", "dev"),
)
FILES = ("head_mnli.npz", "head_sts.npz", "metrics.json", "metrics_inputs.npz")
HYPERPARAMETERS = "default_hyperparameters.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden_dir", type=pathlib.Path, required=True)
    finetuning = parser.parse_args().golden_dir / "finetuning"
    source = finetuning / "classification"
    for name in FILES:
        shutil.copyfile(source / name, HERE / name)
    shutil.copyfile(finetuning / HYPERPARAMETERS, HERE.parent / HYPERPARAMETERS)
    examples = json.loads((source / "examples.json").read_text("utf-8"))
    kept = _select(examples["tasks"])
    numbers = _write_vocabulary(finetuning.parent / "tokenization", kept)
    for task, split, file_name in SPLITS:
        target = HERE / "tsv" / task / f"{file_name}.tsv"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / target.relative_to(HERE), target)
        name = f"{task}_{split}.npz"
        with np.load(source / name) as stored:
            arrays = dict(stored)
        arrays["input_ids"] = numbers[arrays["input_ids"]]
        np.savez_compressed(HERE / name, **arrays)
    examples["tasks"] = kept
    text = json.dumps(examples, indent=0, ensure_ascii=False)
    (HERE / "examples.json").write_text(text + "\n", "utf-8")


def _select(tasks: dict) -> dict:
    """The chosen splits of `examples.json`."""
    kept: dict = {}
    for task, split, _ in SPLITS:
        entry = kept.setdefault(task, {**tasks[task], "splits": {}})
        entry["splits"][split] = tasks[task]["splits"][split]
    return kept


def _write_vocabulary(folder: pathlib.Path, tasks: dict) -> np.ndarray:
    """Writes the tokens of all texts; returns old ids to new ones.

    Also those of what is cut off: how much is cut depends on them.
    """
    vocabulary = vocabulary_lib.Vocabulary.load(folder)
    texts = [
        example[key] or ""
        for task in tasks.values()
        for split in task["splits"].values()
        for example in split["examples"]
        for key in ("text_a", "text_b")
    ]
    pieces = tokenizer_lib.Tokenizer(vocabulary).tokenize(texts)
    used = sorted({*pieces.values.numpy().tolist(), *vocabulary.special_ids})
    numbers = np.full(vocabulary.size, -1, np.int32)
    numbers[used] = np.arange(len(used))
    kept = tuple(vocabulary.tokens[old] for old in used)
    (HERE / "vocab.txt").write_text("\n".join(kept) + "\n", "utf-8")
    return numbers


if __name__ == "__main__":
    main()
