"""Opens the dataset folder of a run and reports damaged shards.

Opening reads the manifests and the sizes of the shards, but no whole shard.
Records are checked as they are read.
"""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import pathlib
import threading
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from electra_tf import errors
from electra_tf import storage
from electra_tf.inputs import masking
from electra_tf.inputs import streams
from electra_tf.records import manifest
from electra_tf.records.examples import FORM
from electra_tf.text.vocabulary import Vocabulary

# At this rate 73 GB take 24 minutes and a tenth of a core.
CHECKSUM_BYTES_PER_SECOND = 50_000_000
_CHECKSUM_CHUNK_BYTES = 1 << 20
# TensorFlow's errors have one of these phrases if a broken record caused them:
# our messages, the name of the parsing operation, or a file's OSError.
_PHRASES = (
    *(streams.MISSING_RECORDS, "ParseExample", FORM, manifest.OVERLONG),
    "[Errno ",
)


class DamagedShardError(errors.DataError):
    """A shard differs from its manifest."""


@dataclasses.dataclass(frozen=True)
class Split:
    """The shards of one split, checked and ready to be read."""

    paths: tuple[str, ...]  # of the shards, in the manifest's order
    shard_sizes: tuple[int, ...]  # the number of examples in each shard
    max_seq_length: int  # tokens of a row, S
    identity: str = ""  # a checksum of the examples
    checksums: tuple[str, ...] = ()  # of the shards, SHA-256 in hexadecimal
    vocabulary: Vocabulary | None = None  # ids of the rows must be below its V
    num_tokens: int = 0  # without padding
    is_packed: bool = False  # whether a row can hold several texts

    @property
    def num_examples(self) -> int:
        """The number of examples, N."""
        return sum(self.shard_sizes)


class Dataset(NamedTuple):
    """The checked contents of a dataset folder."""

    vocabulary: Vocabulary
    train: Split
    held_out: Split | None
    identity: dict[str, str]  # split name to `Split.identity`


def open_dataset(folder: pathlib.Path, max_seq_length: int) -> Dataset:
    """Opens a dataset folder.

    Raises:
        FileNotFoundError: if there is no dataset in the folder.
        DataError: if records have another row length or a shard is damaged.
    """
    vocabulary = load_vocabulary(folder)
    splits = {
        name: open_split(folder / name, vocabulary, max_seq_length)
        for name in manifest.SPLITS
        if name == manifest.TRAIN or (folder / name).is_dir()
    }
    identity = {name: split.identity for name, split in splits.items()}
    train, held_out = splits[manifest.TRAIN], splits.get(manifest.VALIDATION)
    return Dataset(vocabulary, train, held_out, identity)


def load_vocabulary(folder: pathlib.Path) -> Vocabulary:
    """Loads the vocabulary of a dataset."""
    manifest.Index.load(folder)
    return Vocabulary.load(folder)


def compute_baselines(
    token_counts: np.ndarray,
    held_out_counts: np.ndarray,
    frequency_power: float = 0.0,
) -> dict[str, float]:
    """Measures the training text's unigram model on held-out text.

    A generator that has learned more than frequencies has a `masked_accuracy`
    above `unigram_accuracy` and a `masked_loss` below `unigram_entropy` (nats).
    Both counts are `[V]`, 0 for tokens that are never masked; a token that the
    training text lacks counts half. `frequency_power` weighs tokens as masking
    does; at 0.5 the result is right to 0.1 nats.
    """
    weights = masking.rareness(token_counts, frequency_power)
    train, held_out = token_counts * weights, held_out_counts * weights
    shares = held_out / held_out.sum()
    costs = -np.log(np.maximum(token_counts, 0.5) * weights / train.sum())
    return {
        "unigram_accuracy": float(shares[train.argmax()]),
        "unigram_entropy": float(np.sum(shares * costs)),
    }


def open_split(
    folder: pathlib.Path, vocabulary: Vocabulary, max_seq_length: int
) -> Split:
    """Opens the folder with a split's `manifest.json` and shards.

    Raises `DataError` if the records were made with another vocabulary or row
    length, or if a shard is missing or has not the size in the manifest.
    """
    content = manifest.Manifest.load(folder)
    content.check(folder, vocabulary, max_seq_length)
    paths = [folder / shard.name for shard in content.shards]
    with concurrent.futures.ThreadPoolExecutor() as pool:  # for stores
        sizes = list(pool.map(_size_of, paths))
    for path, shard, size in zip(paths, content.shards, sizes, strict=True):
        if size is None:
            raise _damaged(path, shard.num_examples, "no such file")
        if size != shard.num_bytes:
            damage = manifest.find_damage(
                path, shard.num_examples, max_seq_length, vocabulary
            )
            received = f"{size} bytes instead of {shard.num_bytes}"
            received += f"; {damage}" if damage else ""
            raise _damaged(path, shard.num_examples, received)
    shards = content.shards
    text = repr([(shard.num_examples, shard.sha256) for shard in shards])
    return Split(
        paths=tuple(map(str, paths)),
        shard_sizes=tuple(shard.num_examples for shard in shards),
        max_seq_length=max_seq_length,
        identity=hashlib.sha256(text.encode()).hexdigest(),
        checksums=tuple(shard.sha256 for shard in shards),
        vocabulary=vocabulary,
        num_tokens=content.num_tokens,
        is_packed=bool(content.builder.get("packed")),
    )


def _size_of(path: pathlib.Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


class ChecksumCheck(threading.Thread):
    """Compares local shards with their checksums while a run trains.

    It reads `CHECKSUM_BYTES_PER_SECOND`. Shards in a store are not read;
    `electra-build-dataset --verify` checks them.
    """

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(daemon=True)
        self._dataset = dataset
        self._error: Exception | None = None
        self._is_ended = threading.Event()
        self.start()

    def run(self) -> None:
        """Reads the shards up to the first damaged one."""
        try:
            for split in (self._dataset.train, self._dataset.held_out):
                if split and all(map(storage.is_local, split.paths)):
                    self._check(split)
        except (DamagedShardError, OSError) as error:
            self._error = error

    def _check(self, split: Split) -> None:
        columns = split.paths, split.shard_sizes, split.checksums
        for path, size, checksum in zip(*columns, strict=True):
            digest = hashlib.sha256()
            with storage.naming(path), storage.path(path).open("rb") as stream:
                while chunk := stream.read(_CHECKSUM_CHUNK_BYTES):
                    digest.update(chunk)
                    seconds = len(chunk) / CHECKSUM_BYTES_PER_SECOND
                    if self._is_ended.wait(seconds):
                        return
            if digest.hexdigest() != checksum:
                raise _damaged(path, size, "content of another sha256")

    def require_good(self) -> None:
        """Raises the error of a damaged shard that was found so far."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Ends the thread."""
        self._is_ended.set()


@contextlib.contextmanager
def explain_shard_errors(split: Split) -> Iterator[None]:
    """Turns TensorFlow's errors about records into `DamagedShardError`."""
    try:
        yield
    except tf.errors.OpError as error:
        is_data_loss = isinstance(error, tf.errors.DataLossError)
        if is_data_loss or any(phrase in str(error) for phrase in _PHRASES):
            shards = zip(split.paths, split.shard_sizes, strict=True)
            for path, expected in shards:
                damage = manifest.find_damage(
                    path, expected, split.max_seq_length, split.vocabulary
                )
                if damage:
                    raise _damaged(path, expected, damage) from error
        raise


def _damaged(
    path: str | pathlib.Path, expected: int, received: str
) -> DamagedShardError:
    return DamagedShardError(
        f"Shard {path} must hold {expected} readable records. Received: "
        f"{received}. Delete the file if it exists and run "
        "electra-build-dataset again with --resume."
    )
