"""Pre-training examples against references: ids, masks, random numbers.

Runs, files, seeds and options are those of `info.json`.
"""

import functools
import random
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from electra_tf.records import examples as examples_lib
from electra_tf.records import readers
from electra_tf.records import schema
from electra_tf.text import tokenizer as tokenizer_lib
from electra_tf.text import vocabulary as vocabulary_lib
from electra_tf.verification import comparison
from electra_tf.verification import reference
from electra_tf.verification.report import CheckResult

KIND = "examples"
_CORPUS = "corpus"


def check_run(folder: Path, name: str) -> CheckResult:
    """One run of the builder over all files, exactly.

    Args:
        folder: with `info.json`, `corpus/` and `<name>.npz`.
        name: a key of `runs`.

    Returns:
        A line that counts wrong entries of ids, masks and segments, a wrong
        count of examples, and a generator left in another state.
    """
    run = reference.read_json(folder / "info.json")["runs"][name]
    expected = reference.read_arrays(folder / f"{name}.npz")
    features, rng = build_run(folder, run)
    line = comparison.Comparison(KIND, f"{name}, {run['n_examples']} examples")
    for feature, rows in features.items():
        error = comparison.count_unequal(rows, expected[feature])
        line.add(feature, error)
    line.add("n_examples", abs(len(features["input_ids"]) - run["n_examples"]))
    line.add("next_random", rng.random() != float(expected["next_random"]))
    return line.result()


def check_record_file(path: Path) -> CheckResult:
    """A record file of the original, read with our schema, exactly.

    Args:
        path: `...-K-of-N` beside `info.json`; holds examples K, K + N, ... of
            the first run.

    Returns:
        A line that counts the entries that differ from our examples.
    """
    match = re.search(r"-(\d+)-of-(\d+)$", path.name)
    if match is None:
        raise reference.ReferenceFileError(
            f"Expected a name ending in -K-of-N. Received: {path}."
        )
    index, num_files = map(int, match.groups())
    runs = reference.read_json(path.parent / "info.json")["runs"]
    run = next(iter(runs.values()))
    features, _ = build_run(path.parent, run)
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    parsed = schema.parse_examples(
        tf.constant(records, tf.string), run["max_seq_length"]
    )
    line = comparison.Comparison(KIND, f"{path.name}, {len(records)} records")
    for feature, rows in features.items():
        error = comparison.count_unequal(
            parsed[feature].numpy(), rows[index::num_files]
        )
        line.add(feature, error)
    return line.result()


def build_run(
    folder: Path, run: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], random.Random]:
    """Our examples of one run.

    Args:
        folder: with `corpus/`.
        run: its entry in `info.json`.

    Returns:
        Feature name to `[n, S]` int32, and the generator as it is left.
    """
    vocabulary = reference.load_vocabulary(
        folder,
        vocabulary_lib.TokenizerSettings(
            do_lower_case=run["do_lower_case"],
            strip_accents=run["strip_accents"],
        ),
    )
    tokenizer = _build_tokenizer(vocabulary)
    rng = _seed_generator(run)
    builder = examples_lib.ExampleBuilder(run["max_seq_length"], rng)
    options = readers.ReadingOptions("text", run["blanks_separate_docs"])
    for name in run["file_order"]:
        path = folder / _CORPUS / name
        for document in readers.FileReader(str(path), name, options):
            ids = tokenizer.tokenize(tf.constant(document.lines, tf.string))
            builder.add_lines(ids.values.numpy(), ids.row_lengths().numpy())
            if not document.is_continued:
                builder.end_document()
    features = examples_lib.build_features(
        builder.take(),
        run["max_seq_length"],
        vocabulary.cls_id,
        vocabulary.sep_id,
    )
    return features, rng


@functools.lru_cache(maxsize=2)
def _build_tokenizer(
    vocabulary: vocabulary_lib.Vocabulary,
) -> tokenizer_lib.Tokenizer:
    """Runs share vocabularies, and compiling one takes seconds."""
    return tokenizer_lib.Tokenizer(vocabulary)


def _seed_generator(run: Mapping[str, Any]) -> random.Random:
    """The run's generator at the start of the first file.

    The original's command-line program sorts the files and shuffles them with
    the generator that it has just seeded. A run whose order came about that
    way goes on with the numbers behind those of the shuffle.
    """
    rng = random.Random(run["seed"])
    order = sorted(run["file_order"])
    is_sorted = run["file_order"] == order
    rng.shuffle(order)
    is_shuffled = run["file_order"] == order and not is_sorted
    return rng if is_shuffled else random.Random(run["seed"])
