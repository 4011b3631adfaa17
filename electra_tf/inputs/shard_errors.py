"""Which record of which shard is damaged, said in one sentence.

TensorFlow reports a broken record as `corrupted record at 348`: a byte offset
without a file, from the middle of a training step. When such an error arrives,
the shards are read once more, to name file and record.
"""

import contextlib
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import tensorflow as tf

from electra_tf import errors
from electra_tf.inputs import options
from electra_tf.inputs import streams
from electra_tf.records import schema
from electra_tf.records.manifest import Manifest

if TYPE_CHECKING:
    from electra_tf.inputs.pipeline import Split

_ROWS_PER_READ = 256

# What an `InvalidArgumentError` says if records caused it: the name of the
# operation that parses them is part of its message.
_PHRASES = (streams.MISSING_RECORDS, "ParseExample")


class DamagedShardError(errors.DataError):
    """A shard is not what its manifest says: names file, record and remedy."""


@contextlib.contextmanager
def explain_shard_errors(split: "Split") -> Iterator[None]:
    """Turns TensorFlow's errors about broken records into one clear error."""
    try:
        yield
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
        is_data_loss = isinstance(error, tf.errors.DataLossError)
        if not is_data_loss and not any(p in str(error) for p in _PHRASES):
            raise
        damage = find_damage(split)
        if damage is None:
            raise
        raise DamagedShardError(damage) from error


def check_files(folder: pathlib.Path, manifest: Manifest) -> None:
    """Checks that every shard is there and has the size it was written with."""
    for shard in manifest.shards:
        path = folder / shard.name
        if not path.is_file():
            raise DamagedShardError(
                _describe(path, shard.num_examples, "no such file")
            )
        num_bytes = path.stat().st_size
        if num_bytes != shard.num_bytes:
            found = f"{num_bytes} bytes instead of {shard.num_bytes}"
            damage = _find_damage_in(
                str(path), shard.num_examples, manifest.max_seq_length
            )
            if damage is not None:
                found += f"; {damage}"
            raise DamagedShardError(_describe(path, shard.num_examples, found))


def find_damage(split: "Split") -> str | None:
    """A sentence about the first damaged shard; None if all can be read."""
    for path, expected in zip(split.paths, split.shard_sizes, strict=True):
        damage = _find_damage_in(path, expected, split.max_seq_length)
        if damage is not None:
            return _describe(path, expected, damage)
    return None


def _describe(path: str | pathlib.Path, expected: int, found: str) -> str:
    return (
        f"Shard {path} must hold {expected} readable records. Received: "
        f"{found}. Delete the file if it exists and run "
        "scripts/build_pretraining_dataset.py again with --resume."
    )


def _find_damage_in(path: str, expected: int, length: int) -> str | None:
    records = options.with_options(tf.data.TFRecordDataset(path))
    batches = records.batch(_ROWS_PER_READ).map(
        lambda serialized: tf.shape(
            schema.parse_examples(serialized, length)["input_ids"], tf.int64
        )[0]
    )
    try:
        count = int(batches.reduce(tf.constant(0, tf.int64), tf.add))
    except tf.errors.OpError:
        return _find_record(records, length)
    if count != expected:
        return f"{count} records, as if the file had been cut at record {count}"
    return None


def _find_record(records: tf.data.Dataset, length: int) -> str:
    """Describes the first record that cannot be read."""
    index = 0
    try:
        for serialized in records:
            schema.parse_examples(serialized[tf.newaxis], length)
            index += 1
    except tf.errors.DataLossError as error:
        kind = "is cut off" if "truncated" in error.message else "is corrupt"
        return f"record {index} (from 0) {kind}"
    except tf.errors.InvalidArgumentError:
        return (
            f"record {index} (from 0) has other features, or rows of another "
            f"length than {length}"
        )
    return f"a damage after record {index} that a second reading did not meet"
