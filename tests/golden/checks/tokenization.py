"""Token ids, line by line, exactly."""

import json

import tensorflow as tf

from tests.golden import loading
from tests.golden.comparison import Line

# The reference's name of each mode of casing, and our settings for it.
_MODES = {
    "ids_lower": {},
    "ids_lower_keep_accents": {"strip_accents": False},
    "ids_cased": {"do_lower_case": False},
}


def list_cases(folder):
    paths = sorted(folder.glob("*.jsonl")) or [folder / "tokenization.jsonl"]
    for path in paths:
        for mode in _MODES:
            yield f"{path.stem}, {mode}", _check_ids, path, mode


def _check_ids(path, mode):
    """The ids of all texts, with and without their offsets."""
    cases = _read_lines(path)
    tokenizer = loading.load_tokenizer(path.parent, **_MODES[mode])
    # JSON can hold lone surrogates, which UTF-8 proper cannot.
    encoded = [case["text"].encode("utf-8", "surrogatepass") for case in cases]
    texts = tf.constant(encoded, tf.string)
    ids = tokenizer.tokenize(texts).to_list()
    ids_with_offsets = tokenizer.tokenize_with_offsets(texts)[0].to_list()
    line = Line(f"{path.stem}, {mode}")
    for number, (case, *ours) in enumerate(
        zip(cases, ids, ids_with_offsets, strict=True), 1
    ):
        line.add(f"line {number}", ours != [case[mode]] * 2)
    yield line


def _read_lines(path):
    """The objects of a JSON lines file; texts may hold any line separator."""
    cases = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            try:
                cases.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    return cases
