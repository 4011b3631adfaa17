"""Reads a whole dataset back and compares it with its manifests."""

import functools
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from electra_tf import errors
from electra_tf.processes import pool as pool_lib
from electra_tf.processes import progress
from electra_tf.records import manifest as manifest_lib
from electra_tf.records.manifest import Manifest
from electra_tf.records.manifest import Shard
from electra_tf.records.schema import parse_examples
from electra_tf.text.vocabulary import Vocabulary

_EXAMPLES_AT_ONCE = 1024


def verify_dataset(
    folder: str | os.PathLike, num_processes: int = 1
) -> dict[str, int]:
    """Reads every record back; returns the number of examples of each split.

    Checked are the manifests, size, checksum and records of every shard, and
    the token counts. `DataError` lists everything that is wrong.
    """
    folder = pathlib.Path(folder)
    vocabulary = Vocabulary.load(folder)
    sizes: dict[str, int] = {}
    counts: dict[str, np.ndarray] = {}
    tasks: list[tuple[pathlib.Path, Shard, int]] = []
    problems: list[str] = []
    for split, summary in manifest_lib.load_index(folder)["splits"].items():
        path = folder / split
        manifest = Manifest.load(path)
        length = manifest.max_seq_length
        manifest.check(vocabulary, length)
        digest = manifest_lib.file_sha256(path / manifest_lib.MANIFEST_FILE)
        if digest != summary["manifest_sha256"]:
            problems.append(f"{path}: the manifest was changed after the build")
        sizes[split] = manifest.num_examples
        counts[split] = -manifest_lib.load_token_counts(path, vocabulary.size)
        tasks += [(path / each.name, each, length) for each in manifest.shards]
    start = functools.partial(_start_worker, vocabulary)
    pool = pool_lib.ProcessPool(start, num_processes)
    total = sum(sizes.values())
    with progress.WorkProgress("Verifying", total, "examples") as line, pool:
        for task, (found, found_counts) in pool.run(tasks, line.advance):
            problems += [f"{task[0]} {problem}" for problem in found]
            counts[task[0].parent.name] += found_counts
    wrong = [split for split in counts if counts[split].any()]
    if wrong and not problems:
        problems.append(f"the token counts of {', '.join(wrong)} differ")
    if problems:
        raise errors.DataError(
            f"{folder} is damaged:\n  " + "\n  ".join(problems) + "\nDelete "
            "damaged shards and run the builder again with --resume."
        )
    return sizes


def _start_worker(vocabulary: Vocabulary) -> pool_lib.Handler:
    """Returns the function that checks a shard in a worker process."""
    pool_lib.limit_threads()

    def check(
        task: tuple[pathlib.Path, Shard, int], report: pool_lib.Report
    ) -> tuple[list[str], np.ndarray]:
        path, shard, length = task
        report(0, 0)
        counts = np.zeros(vocabulary.size, np.int64)
        if not path.is_file():
            return ["is missing"], counts
        problems = []
        num_bytes = path.stat().st_size
        if num_bytes != shard.num_bytes:
            problems.append(
                f"has {num_bytes} bytes; the manifest says {shard.num_bytes}"
            )
        elif manifest_lib.file_sha256(path) != shard.sha256:
            problems.append("was changed: its sha256 is another")

        def count(rows: dict[str, Any]) -> None:
            ids = rows["input_ids"].numpy()[rows["input_mask"].numpy() > 0]
            found = np.bincount(ids, minlength=vocabulary.size)
            np.add(counts, found[: vocabulary.size], out=counts)
            num_rows = len(rows["input_ids"])
            report(num_rows, num_rows)

        damage = find_damage(path, shard.num_examples, length, count)
        if damage:
            problems.append(f"holds {damage}")
        # Text never becomes these two: brackets are words of their own.
        counts[[vocabulary.cls_id, vocabulary.sep_id]] = 0
        return problems, counts

    return check


def find_damage(
    path: str | os.PathLike,
    num_examples: int,
    max_seq_length: int,
    on_rows: Callable[[dict[str, Any]], None] = lambda rows: None,
) -> str | None:
    """Says which record of a shard is the first that cannot be read, if any."""
    import tensorflow as tf

    options = tf.data.Options()
    # Its thread can block the end of a program, see `inputs/options.py`.
    options.autotune.enabled = False
    shard = tf.data.TFRecordDataset(os.fspath(path)).with_options(options)
    count, problem = 0, ""
    # Many records at once; where that fails, one by one.
    for batch_size in (_EXAMPLES_AT_ONCE, 1):
        try:
            for records in shard.skip(count).batch(batch_size):
                on_rows(parse_examples(records, max_seq_length))
                count += len(records)
            if count == num_examples:
                return None
            return f"{count} records, as if the file had been cut at {count}"
        except tf.errors.DataLossError as error:
            is_cut = "truncated" in error.message
            problem = "is cut off" if is_cut else "is corrupt"
        except tf.errors.InvalidArgumentError:
            problem = (
                "has other features, or rows of another length than "
                f"{max_seq_length}"
            )
    return f"record {count} (from 0) {problem}"
