"""Copies some documents with their features, and a vocabulary of their tokens.

Of heads, post-processing and scores only a part. Questions are numbered anew;
n-best lists are kept of a few.
"""

import argparse
import json
import pathlib
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[4]))

from electra_tf.tasks.question_answering import pieces  # noqa: E402
from electra_tf.tasks.question_answering import records  # noqa: E402
from electra_tf.text import tokenizer as tokenizer_lib  # noqa: E402
from electra_tf.text import vocabulary as vocabulary_lib  # noqa: E402

# Numbers of articles and their paragraphs.
PARAGRAPHS = ((0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 2))
RECORDS = {"squad": "squad_v2_style.json", "squadv1": "squad_v1_style.json"}
FEATURES = ("squadv1",)
POSTPROCESSING = ("joint_v2",)
HEADS = ("predict_independent_no_answerable", "train_joint_simple_answerable")
FILES = ("final_text.json", "normalized_answers.json", "evaluation.json")
NUM_NBEST = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden_dir", type=pathlib.Path, required=True)
    golden_dir = parser.parse_args().golden_dir
    source = golden_dir / "finetuning" / "qa"
    for name in FILES:
        shutil.copyfile(source / name, HERE / name)
    _copy_evaluation(source)
    heads = json.loads((source / "heads.json").read_text("utf-8"))
    _write("heads.json", [head for head in heads if head["tag"] in HEADS])
    for tag in HEADS:
        shutil.copyfile(source / f"head_{tag}.npz", HERE / f"head_{tag}.npz")
    for name in RECORDS.values():
        _copy_records(source / name)
    numbers = _write_vocabulary(golden_dir / "tokenization")
    for task in FEATURES:
        _copy_features(source, task, numbers)
    for tag in POSTPROCESSING:
        _copy_postprocessing(source, tag)


def _write(name: str, content: object) -> None:
    text = json.dumps(content, separators=(",", ":"))
    (HERE / name).write_text(text + "\n", "utf-8")


def _copy_records(path: pathlib.Path) -> None:
    content = json.loads(path.read_text("utf-8"))
    for a, article in enumerate(content["data"]):
        article["paragraphs"] = [
            paragraph
            for p, paragraph in enumerate(article["paragraphs"])
            if (a, p) in PARAGRAPHS
        ]
    _write(path.name, content)


def _copy_evaluation(source: pathlib.Path) -> None:
    """The gold answers; their contexts are not looked at."""
    name = "evaluation_gold.json"
    content = json.loads((source / name).read_text("utf-8"))
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            paragraph["context"] = ""
            for question in paragraph["qas"]:
                question["question"] = ""
                question.pop("plausible_answers", None)
    _write(name, content)


def _write_vocabulary(folder: pathlib.Path) -> np.ndarray:
    """Writes the tokens of all texts; returns old ids to new ones."""
    vocabulary = vocabulary_lib.Vocabulary.load(folder)
    examples = [
        example
        for name in RECORDS.values()
        for example in records.read_squad(HERE / name)
    ]
    texts = {example.context for example in examples}
    texts |= {example.question for example in examples}
    texts |= {answer for example in examples for answer in example.golds or ()}
    found = pieces.tokenize(
        sorted(texts), tokenizer_lib.Tokenizer(vocabulary)
    ).values
    used = sorted({*found.tolist(), *vocabulary.special_ids})
    numbers = np.full(vocabulary.size, -1, np.int32)
    numbers[used] = np.arange(len(used))
    kept = tuple(vocabulary.tokens[old] for old in used)
    (HERE / "vocab.txt").write_text("\n".join(kept) + "\n", "utf-8")
    return numbers


def _copy_features(
    source: pathlib.Path, task: str, numbers: np.ndarray
) -> None:
    name = f"features_{task}.json"
    content = json.loads((source / name).read_text("utf-8"))
    identities = _identities(HERE, task)
    chosen = set(identities)
    content["n_records"] = len(identities)
    content["dropped_ids"] = [i for i in content["dropped_ids"] if i in chosen]
    content["n_failures"] = len(content["dropped_ids"])
    examples = [e for e in content["examples"] if e["id"] in chosen]
    renumbered = {e["eid"]: new for new, e in enumerate(examples)}
    _copy_arrays(source / f"features_train_{task}.npz", renumbered, numbers)
    for example in examples:
        example["eid"] = renumbered[example["eid"]]
    windows = [e for e in content["eval_features"] if e["id"] in chosen]
    _copy_arrays(
        source / f"features_eval_{task}.npz",
        _renumber(source, task),
        numbers,
    )
    content |= {
        "examples": examples,
        "n_examples": len(examples),
        "n_features": sum(e["n_features"] for e in examples),
        "eval_features": windows,
        "n_eval_features": len(windows),
    }
    _write(name, content)


def _copy_postprocessing(source: pathlib.Path, tag: str) -> None:
    name = f"postprocess_{tag}.json"
    content = json.loads((source / name).read_text("utf-8"))
    identities = _identities(HERE, content["task"])
    for key in ("predictions", "null_odds"):
        if content[key]:
            content[key] = {i: content[key][i] for i in identities}
    content["nbest"] = {i: content["nbest"][i] for i in identities[:NUM_NBEST]}
    _write(name, content)
    _copy_arrays(
        source / f"postprocess_{tag}.npz", _renumber(source, content["task"])
    )


def _identities(folder: pathlib.Path, task: str) -> list[str]:
    return [e.id for e in records.read_squad(folder / RECORDS[task])]


def _renumber(source: pathlib.Path, task: str) -> dict[int, int]:
    """The numbers of the questions that are kept: old to new."""
    kept = _identities(HERE, task)
    every = _identities(source, task)
    return {every.index(identity): new for new, identity in enumerate(kept)}


def _copy_arrays(
    path: pathlib.Path,
    renumbered: dict[int, int],
    numbers: np.ndarray | None = None,
) -> None:
    """The rows of the chosen questions."""
    with np.load(path) as stored:
        arrays = dict(stored)
    is_kept = np.isin(arrays["eid"] // 1000, list(renumbered))
    arrays = {name: array[is_kept] for name, array in arrays.items()}
    arrays["eid"] = np.array(
        [1000 * renumbered[e // 1000] + e % 1000 for e in arrays["eid"]],
        np.int32,
    )
    if numbers is not None:
        arrays["input_ids"] = numbers[arrays["input_ids"]]
    np.savez_compressed(HERE / path.name, **arrays)


if __name__ == "__main__":
    main()
