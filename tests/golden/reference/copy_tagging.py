"""Copies the tagging references, with a vocabulary of the pieces that occur.

Pieces keep their order and are numbered anew, in the vocabulary and in the
rows; the longest match among fewer pieces is the same one. Some tag sequences
and examples are left out; everything else is copied as it is.

    python tests/golden/reference/copy_tagging.py --golden_dir DIR
"""

import argparse
import json
import pathlib
import shutil

import numpy as np

from electra_tf.text import vocabulary as vocabulary_lib

RELATIVE = pathlib.Path("finetuning", "tagging")
COPIED = ("head_chunk.npz", "scorer_inputs.npz")
SPANS_STEP = 8  # every eighth tag sequence
LEFT_OUT_EXAMPLES = "dev"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden_dir", type=pathlib.Path, required=True)
    golden_dir = parser.parse_args().golden_dir
    source = golden_dir / RELATIVE
    target = pathlib.Path(__file__).parent / RELATIVE
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source / "chunk", target / "chunk")
    for name in COPIED:
        shutil.copyfile(source / name, target / name)
    cases = json.loads((source / "spans.json").read_text())
    _write_json(target / "spans.json", cases[::SPANS_STEP])
    info = json.loads((source / "tagging.json").read_text())
    del info["examples"][LEFT_OUT_EXAMPLES]
    _write_json(target / "tagging.json", info)
    vocabulary = vocabulary_lib.Vocabulary.load(
        golden_dir / "tokenization" / "vocab.txt"
    )
    rows = {
        path.name: dict(np.load(path))
        for path in sorted(source.glob("features_*.npz"))
    }
    ids = {vocabulary.id_of(token) for token in vocabulary_lib.SPECIAL_TOKENS}
    ids |= {
        vocabulary.id_of(piece)
        for case in info["alignment"]
        for word in case["pieces"]
        for piece in word
    }
    for arrays in rows.values():
        ids |= set(np.unique(arrays["input_ids"]).tolist())
    kept = sorted(ids)
    (target / "vocab.txt").write_text(
        "".join(f"{vocabulary.tokens[i]}\n" for i in kept), "utf-8"
    )
    for name, arrays in rows.items():
        arrays["input_ids"] = np.searchsorted(kept, arrays["input_ids"]).astype(
            np.int32
        )
        np.savez_compressed(target / name, **arrays)


def _write_json(path: pathlib.Path, content: object) -> None:
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
