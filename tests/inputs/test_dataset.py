"""A dataset folder is opened whole; damaged shards are named."""

import dataclasses
import pathlib
import re
import shutil
import time

import numpy as np
import pytest

from electra_tf.inputs import dataset as dataset_lib
from electra_tf.inputs import pipeline
from electra_tf.inputs import streams
from electra_tf.inputs.dataset import DamagedShardError
from electra_tf.records import manifest
from tests import tiny
from tests import tiny_run
from tests.inputs import conftest

SIZES = (40, 30, 50)
# Of a record: 87 bytes of content, framed by 12 before and 4 after.
RECORD = 87 + 16


@pytest.fixture
def copy(dataset, tmp_path):
    """The same folder, to be changed."""
    return shutil.copytree(dataset, tmp_path / "copy")


def test_a_dataset_needs_a_training_split_and_may_have_another(copy):
    opened = dataset_lib.open_dataset(copy, tiny.LENGTH)
    assert opened.vocabulary == tiny.VOCABULARY
    assert opened.train.num_examples == 105
    assert opened.held_out.num_examples == 21
    assert set(opened.identity) == {"train", "validation"}
    # Other examples in files of the same sizes are another dataset.
    path = copy / "train" / "manifest.json"
    digest = opened.train.checksums[0]
    path.write_text(path.read_text().replace(digest, digest[::-1]))
    other = dataset_lib.open_dataset(copy, tiny.LENGTH)
    assert other.identity["train"] != opened.identity["train"]
    shutil.rmtree(copy / "validation")
    opened = dataset_lib.open_dataset(copy, tiny.LENGTH)
    assert opened.held_out is None
    assert set(opened.identity) == {"train"}
    shutil.rmtree(copy / "train")
    with pytest.raises((OSError, ValueError), match="train"):
        dataset_lib.open_dataset(copy, tiny.LENGTH)


def _flip(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x10
    path.write_bytes(content)


def _cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def _lengthen(path, offset, length):
    content = path.read_bytes()
    head = tiny_run.header(length)
    path.write_bytes(content[:offset] + head + content[offset + 12 :])


PLACE = 17 * RECORD
NINE = conftest.number_examples(0, 30, length=9)
DAMAGES = [
    (_flip, (PLACE + 60,), "record 17 (from 0) is corrupt"),
    (
        _lengthen,  # to a header of 100 GB
        (PLACE, 10**11),
        f"record 17 (from 0) at byte {PLACE} is corrupt",
    ),
    (_cut, (PLACE + 60,), "record 17 (from 0) is cut off"),
    (_cut, (PLACE,), "17 records, as if the file had been cut at 17"),
    (
        conftest.write_shard,
        (NINE,),
        "record 0 (from 0) has other features, or rows of another length",
    ),
]


def _require_named(message, batches, split):
    with (
        pytest.raises(DamagedShardError, match=message),
        dataset_lib.explain_shard_errors(split),
    ):
        list(batches)


@pytest.mark.parametrize(("harm_fn", "arguments", "expected"), DAMAGES)
def test_training_on_a_damaged_shard_names_file_and_record(
    make_split, harm_fn, arguments, expected
):
    split = make_split(SIZES)
    path = pathlib.Path(split.paths[1])
    harm_fn(path, *arguments)
    message = f"Shard {path} must hold 30 .* Received: {re.escape(expected)}"
    order = streams.StreamOrder(split.shard_sizes, 4, 8, 1, 10)
    batches = pipeline.build_training_dataset(split, order)
    _require_named(message, batches.take(2 * order.batches_per_epoch), split)
    if expected.startswith("record"):
        batches = pipeline.build_evaluation_dataset(split, 4, 8)
        _require_named(message, batches, split)


def test_a_cut_or_missing_shard_is_found_before_training(copy):
    path = sorted((copy / "train").glob("pretrain*"))[1]
    message = f"Shard {path} must hold 35 .*"
    _cut(path, path.stat().st_size // 35 * 17)
    with pytest.raises(DamagedShardError, match=f"{message}17 records, as if"):
        dataset_lib.open_dataset(copy, tiny.LENGTH)
    path.unlink()
    with pytest.raises(DamagedShardError, match=f"{message}no such.*--resume"):
        dataset_lib.open_dataset(copy, tiny.LENGTH)


def test_a_shard_of_another_checksum_is_named_at_the_stated_rate(
    copy, monkeypatch
):
    opened = dataset_lib.open_dataset(copy, tiny.LENGTH)
    first, second, *_ = map(pathlib.Path, opened.train.paths)
    _flip(second, 50)
    rate = 10 * first.stat().st_size
    monkeypatch.setattr(dataset_lib, "CHECKSUM_BYTES_PER_SECOND", rate)
    begin = time.monotonic()
    check = dataset_lib.ChecksumCheck(opened)
    check.join()
    assert 0.2 <= time.monotonic() - begin < 1  # of two shards, 0.1 s each
    message = f"Shard {second} must .* content of another sha256"
    with pytest.raises(DamagedShardError, match=message):
        check.require_good()


def test_checksums_stop_at_once_and_leave_stores_alone(copy, monkeypatch):
    monkeypatch.setattr(dataset_lib, "CHECKSUM_BYTES_PER_SECOND", 1)
    opened = dataset_lib.open_dataset(copy, tiny.LENGTH)
    stored = dataclasses.replace(opened.train, paths=("gs://bucket/shard",))
    for held_out in (opened.held_out, None):
        check = dataset_lib.ChecksumCheck(
            opened._replace(train=stored, held_out=held_out)
        )
        check.join(0.1)
        assert check.is_alive() == bool(held_out)
        check.stop()
        check.join(5)
        assert not check.is_alive()
        check.require_good()


def test_a_start_reads_no_shard_whole(make_split, monkeypatch):
    monkeypatch.setattr(pipeline, "_WINDOW_RECORDS", 8)
    asked, skip = [], manifest.skip_records

    def watch(path, begin, count):
        asked.append(begin)
        return skip(path, begin, count)

    monkeypatch.setattr(manifest, "skip_records", watch)
    split = make_split((3000,))
    next(iter(pipeline.build_evaluation_dataset(split, 4, 8)))
    assert 0 < max(asked) < pathlib.Path(split.paths[0]).stat().st_size / 4


@pytest.mark.parametrize("name", ["train", "validation"])
def test_a_row_that_no_builder_writes_is_named(copy, name):
    opened = dataset_lib.open_dataset(copy, tiny.LENGTH)
    split = opened.train if name == "train" else opened.held_out
    path, number = pathlib.Path(split.paths[0]), split.shard_sizes[0]
    rows = {
        name: values.numpy().astype(np.int64)
        for name, values in tiny.build_features(number).items()
    }
    # In 32 bits it would be one of the vocabulary.
    rows["input_ids"][3, 2] = 2**32 + 7
    conftest.write_shard(path, rows)
    order = streams.StreamOrder(split.shard_sizes, 1, 1, 1, 10)
    batches = pipeline.build_training_dataset(split, order)
    batches = batches.take(order.batches_per_epoch)
    if name == "validation":
        batches = pipeline.build_evaluation_dataset(split, 1, 4)
    message = r"Received: record 3 \(from 0\) is not texts, each \[CLS\] ids"
    _require_named(message, batches, split)
