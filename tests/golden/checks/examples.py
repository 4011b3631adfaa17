"""Pre-training examples: ids, masks and random numbers, exactly.

Runs, files, seeds and options are those of `info.json`.
"""

import functools
import random
import re
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from electra_tf.records import examples as examples_lib
from electra_tf.records import readers
from electra_tf.records import schema
from electra_tf.text.vocabulary import TokenizerSettings
from tests.golden import loading
from tests.golden.comparison import Line


def list_cases(folder: Path) -> Iterator[tuple[str, Any]]:
    """Every run of the builder, and every record file of the original."""
    runs = loading.read_json(folder / "info.json")["runs"]
    for name, run in runs.items():
        yield name, functools.partial(_check_run, folder, name, run)
    first = next(iter(runs.values()), None)
    for path in sorted(folder.glob("*-of-*")):
        yield path.name, functools.partial(_check_record_file, path, first)


def _check_run(
    folder: Path, name: str, run: Mapping[str, Any]
) -> Iterator[Line]:
    """A run over all files, and the state in which it leaves the generator."""
    expected = loading.read_arrays(folder / f"{name}.npz")
    features, rng = _build_run(folder, run)
    line = Line(f"{name}, {run['n_examples']} examples")
    for feature, rows in features.items():
        line.compare(feature, rows, expected[feature])
    line.compare("n_examples", len(features["input_ids"]), run["n_examples"])
    line.compare("next_random", rng.random(), float(expected["next_random"]))
    yield line


def _check_record_file(path: Path, run: Mapping[str, Any]) -> Iterator[Line]:
    """`...-K-of-N` holds the examples K, K + N, ... of the first run."""
    match = re.search(r"-(\d+)-of-(\d+)$", path.name)
    if match is None:
        raise ValueError(f"Expected a name ending in -K-of-N. Received: {path}.")
    index, num_files = map(int, match.groups())
    features, _ = _build_run(path.parent, run)
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    parsed = schema.parse_examples(
        tf.constant(records, tf.string), run["max_seq_length"]
    )
    line = Line(f"{path.name}, {len(records)} records")
    for feature, rows in features.items():
        line.compare(feature, parsed[feature], rows[index::num_files])
    yield line


def _build_run(
    folder: Path, run: Mapping[str, Any]
) -> tuple[dict[str, Any], random.Random]:
    """Our examples of a run, and the generator as it is left."""
    tokenizer = loading.load_tokenizer(
        folder, TokenizerSettings(run["do_lower_case"], run["strip_accents"])
    )
    rng = _seed_generator(run)
    length = run["max_seq_length"]
    builder = examples_lib.ExampleBuilder(length, rng)
    options = readers.ReadingOptions("text", run["blanks_separate_docs"])
    for name in run["file_order"]:
        path = folder / "corpus" / name
        for document in readers.FileReader(str(path), name, options):
            ids = tokenizer.tokenize(tf.constant(document.lines, tf.string))
            builder.add_lines(ids.values.numpy(), ids.row_lengths().numpy())
            if not document.is_continued:
                builder.end_document()
    special = tokenizer.vocabulary
    features = examples_lib.build_features(
        builder.take(), length, special.cls_id, special.sep_id
    )
    return features, rng


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
