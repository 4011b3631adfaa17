"""Copies some lines of each kind, with a vocabulary of only their tokens."""

import argparse
import collections
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

from electra_tf.text.vocabulary import SPECIAL_TOKENS  # noqa: E402
from electra_tf.text.vocabulary import TokenizerSettings  # noqa: E402
from electra_tf.text.vocabulary import Vocabulary  # noqa: E402
from tests.text.reference_tokenizer import reference_ids  # noqa: E402

MODES = {
    "ids_lower": TokenizerSettings(),
    "ids_lower_keep_accents": TokenizerSettings(strip_accents=False),
    "ids_cased": TokenizerSettings(do_lower_case=False),
}
LINES_PER_KIND = 16
MAX_CHARACTERS = 420
"""Longer than two words at the limit of 200, to keep those."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--golden_dir", type=pathlib.Path, required=True)
    source = parser.parse_args().golden_dir / "tokenization"
    tokens = Vocabulary.load(source).tokens
    cases = _choose(source / "tokenization.jsonl")
    used = {i for case in cases for mode in MODES for i in case[mode]}
    used |= {tokens.index(token) for token in SPECIAL_TOKENS}
    numbers = {old: new for new, old in enumerate(sorted(used))}
    kept = tuple(tokens[old] for old in sorted(used))
    for case in cases:
        for mode in MODES:
            case[mode] = [numbers[old] for old in case[mode]]
    (HERE / "vocab.txt").write_bytes(
        "".join(f"{token}\n" for token in kept).encode()
    )
    with open(HERE / "tokenization.jsonl", "w", newline="\n") as stream:
        for case in cases:
            if _is_unchanged(case, kept):
                line = json.dumps(case, separators=(",", ":"))
                stream.write(line + "\n")


def _choose(path: pathlib.Path) -> list[dict]:
    """Returns the same number of lines of each kind, spread evenly."""
    kinds = collections.defaultdict(list)
    with open(path, newline="\n") as stream:
        for case in map(json.loads, stream):
            if len(case["text"]) <= MAX_CHARACTERS:
                kinds[case["kind"]].append(case)
    return [
        cases[index * len(cases) // LINES_PER_KIND]
        for cases in kinds.values()
        for index in range(LINES_PER_KIND)
    ]


def _is_unchanged(case: dict, tokens: tuple[str, ...]) -> bool:
    return all(
        case[mode] == reference_ids(case["text"], Vocabulary(tokens, settings))
        for mode, settings in MODES.items()
    )


if __name__ == "__main__":
    main()
