"""Reads a whole dataset back and compares it with its manifests."""

import functools
import os
import pathlib

import numpy as np

from electra_tf import errors
from electra_tf.processes import pool as pool_lib
from electra_tf.processes import progress
from electra_tf.records import manifest as manifest_lib
from electra_tf.records.schema import parse_examples
from electra_tf.text.vocabulary import Vocabulary

_EXAMPLES_AT_ONCE = 1024


def verify_dataset(
    folder: str | os.PathLike, num_processes: int = 1
) -> dict[str, int]:
    """Reads every record back and checks it against the manifests.

    Checked are size, checksum and number of records of every shard, the form of
    every example, that ids exist, the token counts, that shards are balanced,
    and that the vocabulary is the one recorded. Returns the number of examples
    of each split; `DataError` lists everything that is wrong.
    """
    folder = pathlib.Path(folder)
    index = manifest_lib.load_index(folder)
    vocabulary = Vocabulary.load(folder)
    manifests = {
        split: manifest_lib.Manifest.load(folder / split)
        for split in index["splits"]
    }
    problems = []
    for split, manifest in manifests.items():
        problems += _check_manifest(folder / split, manifest, vocabulary)
        path = folder / split / manifest_lib.MANIFEST_FILE
        recorded = index["splits"][split]["manifest_sha256"]
        if manifest_lib.file_sha256(path) != recorded:
            problems.append(f"{path} was changed after the build")
    counts = {
        split: -manifest_lib.load_token_counts(folder / split, vocabulary.size)
        for split in manifests
    }
    tasks = [
        (folder / split, shard, manifest.max_seq_length)
        for split, manifest in manifests.items()
        for shard in manifest.shards
    ]
    total = sum(manifest.num_examples for manifest in manifests.values())
    start = functools.partial(_start_worker, vocabulary)
    pool = pool_lib.ProcessPool(start, num_processes)
    with progress.WorkProgress("Verifying", total, "examples") as line, pool:
        for task, (found, token_counts) in pool.run(tasks, line.advance):
            problems += found
            counts[task[0].name] += token_counts
    if not problems:
        problems += [
            f"{folder / split}: the token counts differ"
            for split in manifests
            if counts[split].any()
        ]
    if problems:
        raise errors.DataError(
            f"{folder} is damaged:\n  " + "\n  ".join(problems) + "\nDelete "
            "damaged shards and run the builder again with --resume."
        )
    return {split: each.num_examples for split, each in manifests.items()}


def _check_manifest(
    folder: pathlib.Path,
    manifest: manifest_lib.Manifest,
    vocabulary: Vocabulary,
) -> list[str]:
    """What is wrong with a manifest by itself."""
    problems = []
    if manifest.vocabulary != manifest_lib.describe_vocabulary(vocabulary):
        problems.append(
            f"{folder.parent}: the vocabulary is not the recorded one "
            f"(sha256 {vocabulary.sha256}, recorded "
            f"{manifest.vocabulary['sha256']})"
        )
    sizes = [shard.num_examples for shard in manifest.shards]
    if sum(sizes) != manifest.num_examples or max(sizes) - min(sizes) > 1:
        problems.append(
            f"{folder}: shards are not balanced: {min(sizes)} to {max(sizes)} "
            f"examples, {sum(sizes)} in all; the manifest says "
            f"{manifest.num_examples}"
        )
    return problems


def _start_worker(vocabulary: Vocabulary) -> pool_lib.Handler:
    """Returns the function that checks a shard in a worker process."""
    pool_lib.limit_threads()

    def check(
        task: tuple[pathlib.Path, manifest_lib.Shard, int],
        report: pool_lib.Report,
    ) -> tuple[list[str], np.ndarray]:
        report(0, 0)
        folder, shard, max_seq_length = task
        path = folder / shard.name
        if not path.is_file():
            return [f"{path} is missing"], np.zeros(vocabulary.size, np.int64)
        problems = []
        num_bytes = path.stat().st_size
        if num_bytes != shard.num_bytes:
            kind = "truncated" if num_bytes < shard.num_bytes else "too long"
            problems.append(
                f"{path} is {kind}: {num_bytes} bytes, the manifest says "
                f"{shard.num_bytes}"
            )
        elif manifest_lib.file_sha256(path) != shard.sha256:
            problems.append(f"{path} was changed: its sha256 is another")
        problem, counts = _check_records(
            path, shard, max_seq_length, vocabulary, report
        )
        return problems + problem, counts

    return check


def _check_records(
    path: pathlib.Path,
    shard: manifest_lib.Shard,
    max_seq_length: int,
    vocabulary: Vocabulary,
    report: pool_lib.Report,
) -> tuple[list[str], np.ndarray]:
    """What is wrong with a shard's records, and its `[vocabulary]` counts."""
    import tensorflow as tf

    counts = np.zeros(vocabulary.size, np.int64)
    num_examples = num_tokens = 0
    records = tf.data.TFRecordDataset(str(path)).batch(_EXAMPLES_AT_ONCE)
    batches = records.map(lambda r: parse_examples(r, max_seq_length))
    try:
        for features in batches.as_numpy_iterator():
            num_rows = len(features["input_ids"])
            problem = _check_examples(features, vocabulary)
            if problem:
                last = num_examples + num_rows - 1
                place = f"{path}, records {num_examples} to {last}"
                return [f"{place}: {problem}"], counts
            is_real = features["input_mask"] > 0
            counts += np.bincount(
                features["input_ids"][is_real], minlength=vocabulary.size
            )
            num_examples += num_rows
            num_tokens += int(is_real.sum())
            report(num_rows, num_rows)
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        reason = str(error.message)[:200]
        place = f"{path}: reading fails after {num_examples} records"
        return [f"{place}: {reason}"], counts
    # Text never becomes these two: brackets are words of their own.
    counts[[vocabulary.cls_id, vocabulary.sep_id]] = 0
    if (num_examples, num_tokens) == (shard.num_examples, shard.num_tokens):
        return [], counts
    problem = (
        f"{path} holds {num_examples} examples, {num_tokens} tokens; the "
        f"manifest says {shard.num_examples} and {shard.num_tokens}"
    )
    return [problem], counts


def _check_examples(
    features: dict[str, np.ndarray], vocabulary: Vocabulary
) -> str | None:
    """What is wrong with the form of some example, if anything."""
    input_ids = features["input_ids"]
    if input_ids.min() < 0 or input_ids.max() >= vocabulary.size:
        return (
            f"an id is {input_ids.min()} or {input_ids.max()}, outside the "
            f"vocabulary of {vocabulary.size}"
        )
    columns = np.arange(input_ids.shape[1])
    lengths = features["input_mask"].sum(axis=1, keepdims=True)
    is_real = columns < lengths
    last_ids = np.take_along_axis(input_ids, np.maximum(lengths, 1) - 1, axis=1)
    num_second = features["segment_ids"].sum(axis=1, keepdims=True)
    is_second = is_real & (columns >= lengths - num_second)
    rules = {
        "an input_mask is not ones followed by zeros": (
            features["input_mask"] == is_real
        ),
        "an example does not begin with [CLS]": (
            input_ids[:, 0] == vocabulary.cls_id
        ),
        "an example does not end with [SEP]": last_ids == vocabulary.sep_id,
        "an id is not [PAD] where input_mask is 0": (
            input_ids[~is_real] == vocabulary.pad_id
        ),
        "segment_ids are not zeros, then ones up to the padding": (
            features["segment_ids"] == is_second
        ),
    }
    return next(
        (name for name, holds in rules.items() if not holds.all()), None
    )
