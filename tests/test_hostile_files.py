"""Files that promise more than they hold take no memory, and are refused."""

import gzip
import json
import struct

import h5py
import numpy as np
import pytest

import electra_tf
from electra_tf import config
from electra_tf import errors
from electra_tf import hub
from electra_tf.formats import reading
from electra_tf.loaded_models import pretrained
from electra_tf.records import manifest
from electra_tf.tasks import files
from tests import tiny_electra
from tests import tiny_run
from tests.formats import tiny_models


def test_a_model_larger_than_the_machine_is_not_begun():
    sizes = config.EncoderConfig(
        vocab_size=0, hidden_size=2**17, num_hidden_layers=85
    )
    message = "memory of .* numbers to keep"
    with pytest.raises(errors.ConfigError, match=message):
        pretrained.PretrainedModel.untrained(sizes, tiny_electra.VOCABULARY)


def _tensor(shape, size):
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}
    header = json.dumps({"electra.x": entry}).encode()
    return struct.pack("<Q", len(header)) + header


def _hdf5(path, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("a/b/x/kernel:0", dtype="f4", **options)


def test_a_header_of_100_gb_is_refused(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    reading.write(tiny_models.build("encoder"), "huggingface", folder)
    weights = folder / "model.safetensors"
    for data in (
        struct.pack("<Q", 10**11),
        _tensor([10**11], 4 * 10**11),
        _tensor([2**62, 4, 0], 0),
    ):
        weights.write_bytes(data)
        with pytest.raises(errors.ModelError, match="SafetensorError"):
            electra_tf.load(folder)
    weights.unlink()
    other = tmp_path / "other"
    other.write_bytes(bytes(40))
    for options in (
        {"shape": (10**11,)},
        {"data": np.zeros(10**5), "compression": "gzip"},
        {"shape": (10,), "external": [(str(other), 0, 40)]},
    ):
        _hdf5(folder / "tf_model.h5", **options)
        with pytest.raises(errors.ModelError, match="compressed or cut off"):
            electra_tf.load(folder)


def test_counts_and_records_are_no_longer_than_their_file(tmp_path):
    split = tiny_run.write_dataset(tmp_path / "data") / "train"
    counts = split / manifest.TOKEN_COUNTS_FILE
    whole = counts.read_bytes()
    shape = b"(50,), }".ljust(20)
    promise = whole.replace(shape, b"(100000000000,), }".ljust(20))
    assert promise != whole
    for data in (promise, b"", whole[:90]):
        counts.write_bytes(data)
        with pytest.raises(errors.DataError, match="cannot be read"):
            manifest.load_token_counts(split)
    (shard, *_) = split.glob("*.tfrecord*")
    size = shard.stat().st_size
    shard.write_bytes(shard.read_bytes() + tiny_run.header(10**11) + b"abc")
    found = manifest.find_damage(shard, 36, 16)
    assert found == (
        f"record 35 (from 0) at byte {size} is corrupt: its header asks for "
        "more bytes than any row has, 100000000000"
    )


def test_a_packed_file_unpacks_to_no_more_than_text_would(tmp_path):
    path = tmp_path / "a.gz"
    for data in (b"a\n" * 10**6, bytes(10**7)):
        path.write_bytes(gzip.compress(data))
        with pytest.raises(errors.DataError, match=r"a\.gz, line .*200 to 1"):
            list(files.read_lines(path))
    text = b"".join(b"%d of the rows\n" % i for i in range(9999))
    path.write_bytes(gzip.compress(text))
    assert len(list(files.read_lines(path))) == 9999


@pytest.mark.parametrize(
    "name", ["a/../b", "../a/b", "a/..", "a/b@../../x", "a/b@refs/../x", "/a/b"]
)
def test_names_of_the_hub_stay_inside_its_cache(name):
    assert hub.download(name) is None
