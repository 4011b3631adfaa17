"""Token ids, line by line, exactly."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf

from electra_tf.text.vocabulary import TokenizerSettings
from tests.golden import loading
from tests.golden.comparison import Line

# The reference's name of each mode of casing, and our settings for it.
_MODES = {
    "ids_lower": TokenizerSettings(),
    "ids_lower_keep_accents": TokenizerSettings(strip_accents=False),
    "ids_cased": TokenizerSettings(do_lower_case=False),
}


def list_cases(folder: Path) -> Iterator[tuple[str, Any]]:
    """Every file of JSON lines in every mode."""
    paths = sorted(folder.glob("*.jsonl")) or [folder / "tokenization.jsonl"]
    for path in paths:
        for mode in _MODES:
            name = f"{path.stem}, {mode}"
            yield name, functools.partial(_check_ids, name, path, mode)


def _check_ids(name: str, path: Path, mode: str) -> Iterator[Line]:
    """The ids of all texts, with and without their offsets."""
    cases = _read_lines(path)
    tokenizer = loading.load_tokenizer(path.parent, _MODES[mode])
    # JSON can hold lone surrogates, which UTF-8 proper cannot.
    encoded = [case["text"].encode("utf-8", "surrogatepass") for case in cases]
    texts = tf.constant(encoded, tf.string)
    ids = tokenizer.tokenize(texts).to_list()
    ids_with_offsets = tokenizer.tokenize_with_offsets(texts)[0].to_list()
    line = Line(name)
    for number, (case, *ours) in enumerate(
        zip(cases, ids, ids_with_offsets, strict=True), 1
    ):
        line.add(f"line {number}", ours != [case[mode]] * 2)
    yield line


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON lines file; texts may hold any line separator."""
    cases = []
    with open(path, encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file, 1):
            try:
                cases.append(json.loads(line))
            except ValueError as error:
                raise ValueError(
                    f"Expected JSON in {path}, line {number}. Received: "
                    f"{error}."
                ) from error
    return cases
