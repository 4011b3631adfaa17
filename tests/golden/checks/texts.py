"""Token ids, and pre-training examples with their random numbers, exactly.

Runs, files, seeds and options of the examples are those of `info.json`.
"""

import json
import operator
import random
import re

import tensorflow as tf

from electra_tf.records import examples
from electra_tf.records import readers
from electra_tf.records.examples import ExampleBuilder
from electra_tf.records.examples import build_features
from tests.golden import comparison
from tests.golden import loading

# The reference's name of each mode of casing, and our settings for it.
_MODES = {
    "ids_lower": {},
    "ids_lower_keep_accents": {"strip_accents": False},
    "ids_cased": {"do_lower_case": False},
}


def list_tokenization(folder):
    paths = sorted(folder.glob("*.jsonl")) or [folder / "tokenization.jsonl"]
    for path in paths:
        for mode in _MODES:
            yield f"{path.stem}, {mode}", _check_ids, path, mode


def list_examples(folder):
    runs = loading.read_json(folder / "info.json")["runs"]
    for name, run in runs.items():
        yield name, _check_run, folder, name, run
    for path in sorted(folder.glob("*-of-*")):
        yield path.name, _check_record_file, path, next(iter(runs.values()))


def _check_ids(path, mode):
    """The ids of all texts, with and without their offsets."""
    # Texts may hold any line separator.
    lines = path.read_text(encoding="utf-8").strip("\n").split("\n")
    cases = [json.loads(line) for line in lines]
    tokenizer = loading.load_tokenizer(path.parent, **_MODES[mode])
    # JSON can hold lone surrogates, which UTF-8 proper cannot.
    encoded = [case["text"].encode("utf-8", "surrogatepass") for case in cases]
    texts = tf.constant(encoded, tf.string)
    ids = tokenizer.tokenize(texts).to_list()
    ids_with_offsets = tokenizer.tokenize_with_offsets(texts)[0].to_list()
    rows = zip(ids, ids_with_offsets, cases, strict=True)
    entries = (
        (f"line {number}", ours, [case[mode]] * 2)
        for number, (*ours, case) in enumerate(rows, 1)
    )
    title = f"{path.stem}, {mode}"
    yield comparison.compare(title, entries, measure=operator.ne)


def _check_run(folder, name, run):
    """A run over all files, and the state in which it leaves the generator."""
    ours, rng = _build_run(folder, run)
    expected = loading.read_arrays(folder / f"{name}.npz")
    expected["n_examples"] = run["n_examples"]
    ours["n_examples"] = len(ours["input_ids"])
    ours["next_random"] = rng.random()
    entries = ((key, ours[key], expected[key]) for key in ours)
    yield comparison.compare(f"{name}, {run['n_examples']} examples", entries)


def _check_record_file(path, run):
    """`...-K-of-N` holds the examples K, K + N, ... of the first run."""
    features, _ = _build_run(path.parent, run)
    records = list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())
    parsed = examples.parse_examples(
        tf.constant(records, tf.string), run["max_seq_length"]
    )
    index, num_files = map(int, re.findall(r"\d+", path.name)[-2:])
    entries = (
        (feature, parsed[feature], rows[index::num_files])
        for feature, rows in features.items()
    )
    yield comparison.compare(f"{path.name}, {len(records)} records", entries)


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
    the generator that it has just seeded, and goes on with that.
    """
    rng, order = random.Random(run["seed"]), sorted(run["file_order"])
    if run["file_order"] != order:
        rng.shuffle(order)
        if run["file_order"] == order:
            return rng
    return random.Random(run["seed"])
