"""Files that promise more than they hold take no memory, and are refused."""

import gzip
import json
import os
import struct

import h5py
import numpy as np
import pytest

import electra_tf
from electra_tf import config
from electra_tf import errors
from electra_tf import hub
from electra_tf.export import conversion
from electra_tf.formats import hugging_face
from electra_tf.formats import reading
from electra_tf.loaded_models import pretrained
from electra_tf.processes import atomic
from electra_tf.processes import locks
from electra_tf.records import manifest
from electra_tf.tasks import files
from electra_tf.training import checkpoints
from tests import tiny_electra
from tests import tiny_run
from tests.formats import tiny_models


def test_a_model_larger_than_the_machine_is_not_begun():
    sizes = config.EncoderConfig(
        vocab_size=0, hidden_size=2**17, num_hidden_layers=85
    )
    with pytest.raises(errors.ConfigError, match="memory of .* weights"):
        pretrained.PretrainedModel.untrained(sizes, tiny_electra.VOCABULARY)


def _tensor(shape, size):
    entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}
    header = json.dumps({"electra.x": entry}).encode()
    return struct.pack("<Q", len(header)) + header


def _hdf5(path, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("a/b/x/kernel:0", dtype="f4", **options)


def _nested(path):
    with h5py.File(path, "w") as group:
        for _ in range(30_000):
            group = group.create_group("a")


def _cycle(path):
    with h5py.File(path, "w") as file:
        for name in "abcdefgh":
            file[name] = file["/"]


def _sparse(path):
    with path.open("wb") as file:
        file.truncate(6 << 30)


def _endless(path):
    path.symlink_to("/dev/zero")


_WEIGHTS = {"safetensors": "model.safetensors", "h5": "tf_model.h5"}


def _other(path):
    other = path.with_name("other")
    other.write_bytes(bytes(40))
    _hdf5(path, shape=(10,), external=[(str(other), 0, 40)])


@pytest.mark.parametrize(
    ("name", "write", "message"),
    [
        ("safetensors", struct.pack("<Q", 10**11), "SafetensorError"),
        ("safetensors", _tensor([10**11], 4 * 10**11), "SafetensorError"),
        ("safetensors", _tensor([2**62, 4, 0], 0), "SafetensorError"),
        ("safetensors", _sparse, "6,442,450,944 bytes"),
        ("safetensors", _endless, "a device"),
        ("safetensors", os.mkfifo, "or a pipe"),
        ("h5", lambda p: _hdf5(p, shape=(10**11,)), "or cut off"),
        ("h5", lambda p: _hdf5(p, data=np.ones(9), compression="gzip"),
         "compressed or"),
        ("h5", _other, "compressed or cut off"),
        ("h5", _nested, "too many groups"),
        ("h5", _cycle, "too many groups"),
        ("h5", _sparse, "6,442,450,944 bytes"),
        ("h5", os.mkfifo, "or a pipe"),
    ],
)  # fmt: skip
def test_weights_are_no_more_than_the_config_says(
    tmp_path, name, write, message
):
    folder = tmp_path / "model"
    folder.mkdir()
    hugging_face.write(tiny_models.build("encoder"), folder)
    (folder / _WEIGHTS["safetensors"]).unlink()
    path = folder / _WEIGHTS[name]
    if isinstance(write, bytes):
        path.write_bytes(write)
    else:
        write(path)
    with pytest.raises(errors.ModelError, match=message):
        electra_tf.load(folder)


@pytest.mark.parametrize("hurt", [_sparse, _endless, os.mkfifo])
@pytest.mark.parametrize(
    ("format_name", "names"),
    [
        ("huggingface", ("config.json", "vocab.txt", "tokenizer.json",
                         "tokenizer_config.json")),
        ("tf1", ("hparams.json", "vocab.txt", "tokenizer_config.json",
                 "model.ckpt.index")),
        ("electra_tf", ("config.json", "vocab.txt",
                        "checkpoints/step-00000000/state.json",
                        "checkpoints/step-00000000/variables.index")),
        ("keras_hub", ("config.json", "tokenizer.json", "metadata.json",
                       "model.weights.h5")),
    ],
)  # fmt: skip
def test_only_files_are_opened_and_no_large_ones(
    tmp_path, format_name, names, hurt
):
    conversion.write(tiny_models.build("encoder"), format_name, tmp_path)
    for name in names:
        path, kept = tmp_path / name, tmp_path / "kept"
        path.rename(kept)
        hurt(path)
        with pytest.raises((ValueError, FileNotFoundError)):
            electra_tf.load(tmp_path)
        path.unlink()
        kept.rename(path)
    electra_tf.load(tmp_path)


def test_many_labels_take_no_longer_than_a_few(tmp_path):
    tiny_models.write(tmp_path, "classification", "huggingface")
    for count, message in (
        (100_000, r"should be \(100000, 16\)"), (100_001, "100,001 names"),
    ):  # fmt: skip
        names = {str(number): f"name {number}" for number in range(count)}
        tiny_models.change_json(tmp_path / "config.json", id2label=names)
        with pytest.raises(errors.ModelError, match=message):
            reading.read_model(tmp_path)


def test_tensors_of_a_tf1_file_are_compared_before_they_are_read(tmp_path):
    tiny_models.write(tmp_path, "encoder", "tf1")
    shapes = checkpoints.read_shapes(str(tmp_path / "model.ckpt"))
    data = tmp_path / "model.ckpt.data-00000-of-00001"
    data.write_bytes(bytes(data.stat().st_size))  # no checksum is right
    assert shapes["electra/embeddings/word_embeddings"].shape == (24, 12)
    tiny_models.change_json(tmp_path / "hparams.json", vocab_size=23)
    with pytest.raises(errors.ModelError, match=r"should be \(23, 12\)"):
        reading.read_model(tmp_path)


@pytest.mark.parametrize("name", ["a[b]c", "back\\slash", "st*r?"])
def test_a_name_that_is_a_pattern_is_read_as_it_is(tmp_path, name):
    for format_name in ("tf1", "electra_tf"):
        folder = tmp_path / name / format_name
        model = tiny_models.build("discriminator")
        conversion.save(model, format_name, folder)
        tiny_models.require_same(reading.read_model(folder), model)


def test_a_name_that_is_not_utf8_is_refused_before_all_work(tmp_path):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    for begin in (
        lambda: atomic.creating_folder(folder, refuses="--x").__enter__(),
        lambda: locks.hold(folder).__enter__(),
        lambda: reading.read_model(folder),
    ):
        with pytest.raises(ValueError, match=r"UTF-8. Received: b.*xe9"):
            begin()
        assert not folder.exists()


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
        with pytest.raises(errors.DataError, match=r"a\.gz, line .*200:1"):
            list(files.read_lines(path))
    text = b"".join(b"%d of the rows\n" % i for i in range(9999))
    path.write_bytes(gzip.compress(text))
    assert len(list(files.read_lines(path))) == 9999


@pytest.mark.parametrize(
    "name", ["a/../b", "../a/b", "a/..", "a/b@../../x", "a/b@refs/../x", "/a/b"]
)
def test_names_of_the_hub_stay_inside_its_cache(name):
    assert hub.download(name) is None
