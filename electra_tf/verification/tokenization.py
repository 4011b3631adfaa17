"""Token ids against references, line by line."""

import json
from pathlib import Path

import tensorflow as tf

from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "tokenization"
MODES = {
    "ids_lower": vocabulary_lib.TokenizerSettings(),
    "ids_lower_keep_accents": vocabulary_lib.TokenizerSettings(
        strip_accents=False
    ),
    "ids_cased": vocabulary_lib.TokenizerSettings(do_lower_case=False),
}
"""The reference's name of each mode, and our settings for it."""


def check_tokenization(path: Path, mode: str) -> CheckResult:
    """All lines in one mode of casing, exactly.

    Args:
        path: JSON lines with `text` and the ids of each mode; `vocab.txt` is
            beside it.
        mode: a key of `MODES`.

    Returns:
        A line that counts the texts whose ids differ.
    """
    cases = read_lines(path)
    vocabulary = reference.load_vocabulary(path.parent, MODES[mode])
    # JSON can hold lone surrogates, which UTF-8 proper cannot.
    encoded = [case["text"].encode("utf-8", "surrogatepass") for case in cases]
    texts = tf.constant(encoded, tf.string)
    tokenizer = tokenizer_lib.Tokenizer(vocabulary)
    ids = tokenizer.tokenize(texts).to_list()
    wrong = [
        number
        for number, (case, ours) in enumerate(zip(cases, ids, strict=True), 1)
        if case[mode] != ours
    ]
    title = f"{path.stem}, {mode}"
    if wrong:
        title += f" (first: line {wrong[0]})"
    return CheckResult(KIND, title, len(cases), float(len(wrong)), 0.0)


def read_lines(path: Path) -> list[dict]:
    """The objects of a JSON lines file; texts may hold any line separator.

    Raises:
        FileNotFoundError: if there is no such file.
        ReferenceFileError: names the line that is no JSON.
    """
    if not path.is_file():
        raise FileNotFoundError(f"Expected the file {path}; there is none.")
    cases = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            try:
                cases.append(json.loads(line))
            except ValueError as error:
                raise reference.ReferenceFileError(
                    f"Expected JSON in {path}, line {number}. Received: "
                    f"{error}."
                ) from error
    return cases
