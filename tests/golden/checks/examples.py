"""Pre-training examples: ids, masks and random numbers, exactly.

Runs, files, seeds and options are those of `info.json`.
"""

import random
import re

import tensorflow as tf

from electra_tf.records import readers
from electra_tf.records import schema
from electra_tf.records.examples import ExampleBuilder
from electra_tf.records.examples import build_features
from tests.golden import loading
from tests.golden.comparison import Line


def list_cases(folder):
    runs = loading.read_json(folder / "info.json")["runs"]
    for name, run in runs.items():
        yield name, _check_run, folder, name, run
    for path in sorted(folder.glob("*-of-*")):
        yield path.name, _check_record_file, path, next(iter(runs.values()))


def _check_run(folder, name, run):
    """A run over all files, and the state in which it leaves the generator."""
    expected = loading.read_arrays(folder / f"{name}.npz")
    features, rng = _build_run(folder, run)
    line = Line(f"{name}, {run['n_examples']} examples")
    for feature, rows in features.items():
        line.compare(feature, rows, expected[feature])
    line.compare("n_examples", len(features["input_ids"]), run["n_examples"])
    line.compare("next_random", rng.random(), expected["next_random"])
    yield line


def _check_record_file(path, run):
    """`...-K-of-N` holds the examples K, K + N, ... of the first run."""
    features, _ = _build_run(path.parent, run)
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    parsed = schema.parse_examples(
        tf.constant(records, tf.string), run["max_seq_length"]
    )
    index, num_files = map(int, re.findall(r"\d+", path.name)[-2:])
    line = Line(f"{path.name}, {len(records)} records")
    for feature, rows in features.items():
        line.compare(feature, parsed[feature], rows[index::num_files])
    yield line


def _build_run(folder, run):
    """Our examples of a run, and the generator as it is left."""
    settings = {name: run[name] for name in ("do_lower_case", "strip_accents")}
    tokenizer = loading.load_tokenizer(folder, **settings)
    length, rng = run["max_seq_length"], _seed_generator(run)
    builder = ExampleBuilder(length, rng)
    options = readers.ReadingOptions("text", run["blanks_separate_docs"])
    for name in run["file_order"]:
        path = str(folder / "corpus" / name)
        for document in readers.FileReader(path, options):
            ids = tokenizer.tokenize(tf.constant(document.lines, tf.string))
            builder.add_lines(ids.values.numpy(), ids.row_lengths().numpy())
            if not document.is_continued:
                builder.end_document()
    special = tokenizer.vocabulary
    rows = builder.take()
    return build_features(rows, length, special.cls_id, special.sep_id), rng


def _seed_generator(run):
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
