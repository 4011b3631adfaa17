"""Tests of the errors that damaged shards cause."""

import pathlib
import re

import pytest
import tensorflow as tf

from electra_tf.inputs import dataset
from electra_tf.inputs import options
from electra_tf.inputs import pipeline
from electra_tf.inputs import streams
from electra_tf.inputs.dataset import DamagedShardError
from tests.inputs import conftest

SIZES = (40, 30, 50)
# A record is framed by 12 bytes before and 4 bytes after its content.
FRAME = 16


def _record_size(path):
    size = next(iter(tf.data.TFRecordDataset(path))).numpy()
    return len(size) + FRAME


def _consume(split, strategy=None):
    """Reads two epochs inside a traced step, as training does."""
    strategy = strategy or tf.distribute.get_strategy()
    order = streams.StreamOrder(split.shard_sizes, 4, 8, 1, 10)
    batches = strategy.distribute_datasets_from_function(
        lambda context: pipeline.build_training_dataset(
            split, order, None, context
        ),
        options.input_options(strategy),
    )
    iterator = iter(batches)

    @tf.function
    def step():
        strategy.run(lambda features: None, args=(next(iterator),))

    for _ in range(2 * order.batches_per_epoch):
        step()


def _flip(path, offset):
    content = bytearray(path.read_bytes())
    content[offset] ^= 0x10
    path.write_bytes(content)


def _cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


DAMAGES = {
    "flipped content": (
        lambda path, size: _flip(path, 17 * size + 60),
        "record 17 (from 0) is corrupt",
    ),
    "flipped length": (
        lambda path, size: _flip(path, 17 * size + 1),
        "record 17 (from 0) is corrupt",
    ),
    "cut inside a record": (
        lambda path, size: _cut(path, 17 * size + 60),
        "record 17 (from 0) is cut off",
    ),
    "cut between records": (
        lambda path, size: _cut(path, 17 * size),
        "17 records, as if the file had been cut at record 17",
    ),
    "rows of another length": (
        lambda path, size: conftest.write_shard(
            path, conftest.number_examples(0, 30, length=9)
        ),
        "record 0 (from 0) has other features, or rows of another length",
    ),
}


@pytest.mark.parametrize("kind", DAMAGES)
def test_training_on_a_damaged_shard_names_file_and_record(make_split, kind):
    harm_fn, expected = DAMAGES[kind]
    split = make_split(SIZES)
    path = pathlib.Path(split.paths[1])
    harm_fn(path, _record_size(path))
    message = f"Shard {path} must hold 30 .* Received: {re.escape(expected)}"
    with (
        pytest.raises(DamagedShardError, match=message),
        dataset.explain_shard_errors(split),
    ):
        _consume(split)


def test_evaluation_on_a_cut_shard_names_it(make_split):
    split = make_split(SIZES)
    path = pathlib.Path(split.paths[0])
    _cut(path, path.stat().st_size - 5)
    with (
        pytest.raises(DamagedShardError, match=r"record 39 \(from 0\)"),
        dataset.explain_shard_errors(split),
    ):
        list(pipeline.build_evaluation_dataset(split, 4, 8))


@pytest.mark.parametrize(
    ("harm_fn", "expected"),
    [
        (lambda p, s: _cut(p, 17 * s + 60), "record 17 (from 0) is cut off"),
        (lambda p, s: _cut(p, 17 * s), "17 records, as if the file had been"),
        (lambda p, s: _cut(p, 0), "0 bytes instead of"),
        (lambda p, s: p.unlink(), "no such file"),
    ],
    ids=["cut inside a record", "cut between records", "emptied", "missing"],
)
def test_a_cut_or_missing_shard_is_found_before_training(
    make_dataset, vocabulary, harm_fn, expected
):
    folder = make_dataset(SIZES)
    path = sorted(folder.glob("pretrain*"))[1]
    harm_fn(path, _record_size(path))
    message = f"Shard {path} must hold 30 .*{re.escape(expected)}.*--resume"
    with pytest.raises(DamagedShardError, match=message):
        dataset.open_split(folder, vocabulary, conftest.LENGTH)


def test_errors_of_the_model_pass_unchanged(make_split):
    split = make_split(SIZES)
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="model"),
        dataset.explain_shard_errors(split),
    ):
        tf.debugging.assert_equal(1, 2, "model")
    with pytest.raises(KeyError), dataset.explain_shard_errors(split):
        raise KeyError("model")
