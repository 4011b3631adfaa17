"""Manifests of dataset folders, and the check of records against them.

A dataset folder holds `manifest.json`, the two files of its vocabulary and one
folder per split, each with its own manifest, shards and `unigram_counts.npy`.
"""

import dataclasses
import functools
import hashlib
import os
import pathlib
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

import numpy as np
import pydantic

from electra_tf import errors
from electra_tf import storage
from electra_tf.config import schema
from electra_tf.processes import atomic
from electra_tf.processes import pool
from electra_tf.processes import progress
from electra_tf.records.examples import FORM
from electra_tf.records.examples import parse_examples
from electra_tf.text.vocabulary import Vocabulary

MANIFEST_FILE = "manifest.json"
TOKEN_COUNTS_FILE = "unigram_counts.npy"
TRAIN = "train"
VALIDATION = "validation"
SPLITS = (TRAIN, VALIDATION)
# Part of the message of `OverlongRecordError`.
OVERLONG = "is corrupt: its header asks for more bytes than any row has"
_MOST_BYTES = 1 << 21  # of the longest row: 65,536 tokens of 32 bytes
_EXAMPLES_AT_ONCE = 1024

RowLength = Annotated[int, pydantic.Field(ge=5, le=1 << 16)]
# A name that stays in its folder.
_FileName = Annotated[str, pydantic.Field(pattern=r"^\w[\w.-]*$")]


@schema.frozen
class Shard:
    """One TFRecord file of a split's folder."""

    name: _FileName
    num_examples: schema.Count
    num_tokens: schema.Count  # without padding, [CLS] and [SEP] included
    num_bytes: schema.Count
    sha256: str


class _ManifestFile:
    @classmethod
    def load(cls, folder: str | os.PathLike) -> Self:
        """Loads the manifest of a folder; raises `DataError`."""
        path, is_index = storage.path(folder, MANIFEST_FILE), cls is Index
        if not path.is_file():
            advice = "A deleted split cannot be restored"
            if is_index:
                advice = "Name it with --config.data.dataset_dir "
                advice += "(--dataset_dir). --resume completes a build"
            raise errors.DataError(
                f"No dataset in {str(folder)!r}: expected {MANIFEST_FILE} "
                f"there. Build one with electra-build-dataset. {advice}."
            )
        content = schema.read_object(path, errors.DataError)
        if is_index != ("splits" in content):
            kinds = ["one of its splits", "a whole dataset"]
            raise errors.DataError(
                f"{folder} must be the folder of {kinds[is_index]}. Received: "
                f"the folder of {kinds[not is_index]}."
            )
        return schema.build(cls, content, str(path), errors.DataError)


@schema.frozen
class Manifest(_ManifestFile):
    """The contents of one split."""

    split: str
    corpus: dict[str, Any]  # name, size, reading options and versions
    vocabulary: dict[str, Any]  # sha256, size and special ids
    tokenizer: dict[str, Any]  # the vocabulary's settings
    max_seq_length: RowLength  # tokens per example, padding included
    builder: dict[str, Any]  # settings and versions
    seed: int
    num_documents: schema.Count
    num_corpus_tokens: schema.Count  # of documents, also those in no example
    num_examples: schema.Count
    num_tokens: schema.Count  # without padding, [CLS] and [SEP] included
    shards: tuple[Shard, ...]  # sizes differ by at most one example
    token_counts: _FileName  # the file that `load_token_counts` reads
    invalid_utf8: dict[str, int]  # byte sequences replaced in each file
    format_version: Literal[1] = 1

    def __post_init__(self) -> None:
        names = {shard.name for shard in self.shards}
        total = sum(shard.num_examples for shard in self.shards)
        schema.require(
            len(names) == len(self.shards) > 0 and total == self.num_examples,
            "`shards` must name one or more different files with "
            f"{self.num_examples} examples. Received: {len(names)} different "
            f"of {len(self.shards)}, with {total}.",
        )

    def check(
        self, folder: pathlib.Path, vocabulary: Vocabulary, max_seq_length: int
    ) -> None:
        """Raises `DataError` unless vocabulary and row length are these."""
        expected = {
            "max_seq_length": max_seq_length,
            "vocabulary": describe_vocabulary(vocabulary),
            "tokenizer": dataclasses.asdict(vocabulary.settings),
        }
        received = {name: getattr(self, name) for name in expected}
        differences = schema.find_differences(received, expected)
        if differences:
            remedy = "Build the dataset again with this vocabulary."
            if self.max_seq_length != max_seq_length:
                remedy = (
                    f"Set --config.data.max_seq_length={self.max_seq_length}, "
                    f"or build the dataset with {max_seq_length}."
                )
            raise errors.DataError(
                f"The {self.split} records in {folder} do not fit. Received "
                f"and expected values: {'; '.join(differences)}. {remedy}"
            )


@schema.frozen
class SplitSummary:
    """A split in the manifest of a dataset."""

    num_examples: schema.Count
    num_tokens: schema.Count
    num_shards: schema.Count
    manifest_sha256: str


@schema.frozen
class Index(_ManifestFile):
    """The manifest of a whole dataset."""

    splits: Annotated[
        dict[Literal["train", "validation"], SplitSummary],
        pydantic.Field(min_length=1),
    ]
    build: dict[str, Any]
    report: tuple[str, ...] = ()  # absent in earlier versions
    format_version: Literal[1] = 1


def describe_vocabulary(vocabulary: Vocabulary) -> dict[str, Any]:
    """Returns a manifest's entry for a vocabulary, as plain JSON."""
    return {
        "sha256": vocabulary.sha256,
        "size": vocabulary.size,
        "special_ids": list(vocabulary.special_ids),
    }


def load_token_counts(
    folder: str | os.PathLike, vocab_size: int | None = None
) -> np.ndarray:
    """Loads how often each id occurs in a split: `[vocabulary]` int64.

    [CLS], [SEP] and padding are not counted. Raises `DataError` if the file is
    damaged or of another vocabulary.
    """
    manifest = Manifest.load(folder)
    path = storage.path(folder, manifest.token_counts)
    try:
        counts = storage.load_rows(path)
    except Exception as error:  # NumPy raises many types
        raise errors.DataError(
            f"{path} cannot be read: {error}. Build the dataset again."
        ) from error
    size = vocab_size or manifest.vocabulary.get("size")
    has_form = counts.dtype == np.int64 and counts.shape == (size,)
    is_filled = counts.any() or not manifest.num_examples
    if not (has_form and is_filled and counts.min() >= 0):
        raise errors.DataError(
            f"{path} must hold one int64 count from 0 up for each of {size} "
            f"ids, not all 0. Received: {counts.dtype} {list(counts.shape)}. "
            "Build the dataset again, or use the vocabulary saved with it."
        )
    return counts


def save_index(
    folder: pathlib.Path, build: Mapping[str, Any], report: list[str]
) -> None:
    """Writes the manifest of a dataset from the manifests of its splits."""
    splits: Any = {}
    for split in SPLITS:
        path = folder / split / MANIFEST_FILE
        if path.is_file():
            manifest = Manifest.load(folder / split)
            splits[split] = SplitSummary(
                manifest.num_examples,
                manifest.num_tokens,
                len(manifest.shards),
                file_sha256(path),
            )
    index = Index(splits, dict(build), tuple(report))
    atomic.write_text(folder / MANIFEST_FILE, schema.to_json(index))


def file_sha256(path: str | os.PathLike) -> str:
    """Computes the SHA-256 of a file's bytes, in hexadecimal digits."""
    with storage.naming(path), storage.path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def verify_dataset(
    folder: str | os.PathLike, num_processes: int = 1
) -> dict[str, int]:
    """Reads every record back; returns the number of examples of each split.

    Checks manifests, token counts, and the size, checksum and records of every
    shard. Raises a `DataError` that lists all problems.
    """
    folder = storage.path(folder)
    splits = Index.load(folder).splits
    vocabulary = Vocabulary.load(folder)
    sizes: dict[str, int] = {}
    counts: dict[str, np.ndarray] = {}
    tasks: list[tuple[pathlib.Path, Shard, int]] = []
    problems: list[str] = []
    for split, summary in splits.items():
        path = folder / split
        manifest = Manifest.load(path)
        length = manifest.max_seq_length
        manifest.check(path, vocabulary, length)
        if file_sha256(path / MANIFEST_FILE) != summary.manifest_sha256:
            problems.append(f"{path}: the manifest was changed after the build")
        sizes[split] = manifest.num_examples
        counts[split] = -load_token_counts(path, vocabulary.size)
        tasks += [(path / each.name, each, length) for each in manifest.shards]
    start = functools.partial(_start_worker, vocabulary)
    workers = pool.ProcessPool(start, num_processes)
    total = sum(sizes.values())
    with progress.WorkProgress("Verifying", total, "examples") as line, workers:
        for task, (damage, shard_counts) in workers.run(tasks, line.advance):
            problems += [f"{task[0]} {problem}" for problem in damage]
            counts[task[0].parent.name] += shard_counts
    wrong = [split for split in counts if counts[split].any()]
    if wrong and not problems:
        problems.append(f"the token counts of {', '.join(wrong)} differ")
    if problems:
        raise errors.DataError(
            f"{folder} is damaged:\n  " + "\n  ".join(problems) + "\nDelete "
            "damaged shards and run the builder again with --resume; if a "
            "manifest or counts have changed, build the dataset again."
        )
    return sizes


def _start_worker(vocabulary: Vocabulary) -> pool.Handler:
    pool.limit_threads()

    def check(
        task: tuple[pathlib.Path, Shard, int], report: pool.Report
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
        elif file_sha256(path) != shard.sha256:
            problems.append("was changed: its sha256 differs")

        def count(rows: dict[str, Any]) -> None:
            num_rows = len(rows["input_ids"])
            report(num_rows, num_rows)
            ids = rows["input_ids"].numpy()[rows["input_mask"].numpy() > 0]
            counts[:] += np.bincount(ids, minlength=vocabulary.size)

        damage = find_damage(
            path, shard.num_examples, length, vocabulary, count
        )
        if damage:
            problems.append(f"holds {damage}")
        # The token counts of a split leave special tokens out.
        counts[[vocabulary.cls_id, vocabulary.sep_id]] = 0
        return problems, counts

    return check


def find_damage(
    path: str | os.PathLike,
    num_examples: int,
    max_seq_length: int,
    vocabulary: Vocabulary | None = None,
    on_rows: Callable[[dict[str, Any]], None] = lambda rows: None,
) -> str | None:
    """Describes the first unreadable record of a shard; None if all are read.

    `on_rows` receives each batch of parsed records.
    """
    import tensorflow as tf

    options = tf.data.Options()
    # Autotune's thread can block exit, see `pipeline.with_options`.
    options.autotune.enabled = False
    shard = tf.data.TFRecordDataset(os.fspath(path)).with_options(options)
    count, overlong = 0, None
    try:
        skip_records(path)
    except OverlongRecordError as error:
        shard, overlong = shard.take(error.number), f"{error}"
    # After a failed batch, records are read one by one to find the damage.
    for batch_size in (_EXAMPLES_AT_ONCE, 1):
        try:
            for records in shard.skip(count).batch(batch_size):
                on_rows(parse_examples(records, max_seq_length, vocabulary))
                count += len(records)
            problem = overlong
            if problem:
                break
            if count == num_examples:
                return None
            return f"{count} records, as if the file had been cut at {count}"
        except tf.errors.DataLossError as error:
            is_cut = "truncated" in error.message
            problem = "is cut off" if is_cut else "is corrupt"
        except tf.errors.InvalidArgumentError as error:
            problem = f"is not {FORM}, with ids of the vocabulary"
            if FORM not in error.message:
                problem = "has other features, or rows of another length than "
                problem += f"{max_seq_length}"
    return f"record {count} (from 0) {problem}"


class OverlongRecordError(ValueError):
    """The header of a record asks for more bytes than any row has."""

    def __init__(self, number: int, begin: int, length: int) -> None:
        super().__init__(f"at byte {begin} {OVERLONG}, {length}")
        self.number = number


def skip_records(
    path: str | os.PathLike, begin: int = 0, count: int | None = None
) -> int:
    """Skips `count` records (None: all) of a shard from byte `begin` on.

    Only the headers are read. They are checked first because TensorFlow
    allocates the length in a header, and crashes if memory lacks.

    Returns the byte after the skipped records. Raises `OverlongRecordError` for
    a record that is longer than any row.
    """
    with storage.path(path).open("rb") as stream:
        stream.seek(begin)
        for number in range(sys.maxsize if count is None else count):
            # A header: 8 bytes of length, 4 of checksum.
            head = stream.read(12)
            if (length := int.from_bytes(head[:8], "little")) > _MOST_BYTES:
                place = stream.tell() - len(head)
                raise OverlongRecordError(number, place, length)
            if not head:
                break
            # The content is followed by a checksum of 4 bytes.
            stream.seek(length + 4, os.SEEK_CUR)
        return stream.tell()
