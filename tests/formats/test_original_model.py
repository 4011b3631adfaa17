"""The original's checkpoints are read whole, or refused with the reason."""

import dataclasses
import struct

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.compat.tensorflow_stub import pywrap_tensorflow
from tensorflow.core.protobuf import tensor_bundle_pb2

from electra_tf import errors
from electra_tf.formats import original_model
from electra_tf.formats import portable
from electra_tf.formats import reading
from tests.formats import tiny_models


def _write(folder, kind="embeddings", **fields):
    return tiny_models.write(folder, kind, "tf1", **fields)


def _tensors(folder):
    reader = tf.train.load_checkpoint(str(folder / "model.ckpt"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def _put_tensors(folder, tensors, name="model.ckpt"):
    """Saves tensors under plain names, as TensorFlow 1 does."""
    tf.raw_ops.SaveV2(
        prefix=str(folder / name),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )


def _refuses(folder, message):
    with pytest.raises(errors.ModelError, match=message):
        original_model.read_model(folder)


@pytest.mark.parametrize(
    "kind", ["none", "all", "electric", "masked_lm", "tagging"]
)
def test_every_tensor_is_needed_and_no_other_has_a_place(tmp_path, kind):
    model, tensors = _write(tmp_path, kind), _tensors(tmp_path)
    (tmp_path / "hparams.json").unlink()
    found = original_model.read_model(tmp_path)
    # Sizes of attention heads and dropout rates are told by hparams.json.
    ignored = ("task", "encoder", "generator")
    tiny_models.require_same(found, model, ignored)
    assert found.step == model.step
    name = max(tensors.keys() - {"global_step"})
    _put_tensors(tmp_path, {n: tensors[n] for n in tensors if n != name})
    _refuses(tmp_path, "TF1 checkpoint .*(is missing|is not used)")
    _put_tensors(tmp_path, tensors | {f"{name}_2": tensors[name]})
    _refuses(tmp_path, "(kernel|bias|gamma|beta|embeddings)_2 .*not used")


def test_moments_and_step_are_told_from_weights(tmp_path):
    model = _write(tmp_path)
    tensors = _tensors(tmp_path)
    weights = {n: v for n, v in tensors.items() if n != "global_step"}
    first = {f"{name}/adam_m": 2 * value for name, value in weights.items()}
    second = {f"{name}/adam_v": 3 * value for name, value in weights.items()}
    _put_tensors(tmp_path, tensors | first | second)
    _, *read, step = original_model.read_checkpoint(tmp_path)
    assert step == 41
    for factor, values in enumerate(read, start=1):
        expected = {name: factor * value for name, value in weights.items()}
        tiny_models.require_tensors(values, expected)
    found = original_model.read_model(tmp_path)
    tiny_models.require_same(found, model)
    assert found.notes == (f"left out {2 * len(weights)} optimizer slots",)


@pytest.mark.parametrize(("width", "heads"), [(48, 1), (192, 3)])
def test_a_released_checkpoint_has_heads_64_wide(tmp_path, width, heads):
    encoder = dataclasses.replace(
        tiny_models.ENCODER, hidden_size=width, num_attention_heads=heads
    )
    _write(tmp_path, "discriminator", encoder=encoder)
    assert original_model.read_model(tmp_path).notes == ()
    (tmp_path / "hparams.json").unlink()
    found = original_model.read_model(tmp_path / "model.ckpt")
    assert f"assumed {heads} attention heads" in found.notes[0]
    # No tensor tells these.
    assert found.encoder == dataclasses.replace(
        encoder,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.02,
    )


def test_hparams_of_another_model_are_refused(tmp_path):
    for changes, message in (
        ({"vocab_size": 23}, r"json,.*word_emb.*\(24, 12\) should be \(23, 12"),
        ({"untied_generator_embeddings": True}, "generator/emb.*is missing"),
        ({"hiden_size": 3}, r"hparams\.json: .*hiden_size"),
    ):
        _write(tmp_path)
        tiny_models.change_json(tmp_path / "hparams.json", **changes)
        _refuses(tmp_path, message)


def test_of_several_checkpoints_the_file_names_one(tmp_path):
    _write(tmp_path)
    with pytest.raises(FileNotFoundError, match="absent.* Received: none"):
        original_model.read_model(tmp_path / "absent")
    changed = _tensors(tmp_path) | {"global_step": np.int64(7)}
    _put_tensors(tmp_path, changed, "model.ckpt-7")
    named = reading.read_model(tmp_path / "model.ckpt-7.data-00000-of-00001")
    assert named.step == 7
    listed = tmp_path / "checkpoint"
    for newest, step in (("model.ckpt", 41), ("/of/another/model.ckpt-7", 7)):
        listed.write_text(f'model_checkpoint_path: "{newest}"\n')
        assert original_model.read_model(tmp_path).step == step
    listed.write_text('model_checkpoint_path: "model.ckpt-9"\n')
    with pytest.raises(FileNotFoundError, match=r"model.ckpt-7.index"):
        original_model.read_model(tmp_path)


_task = portable.PortableTask
_LABELS = ("a", "b")


def test_what_the_original_lacks_is_refused(tmp_path):
    main, heads = map(tiny_models.build, ("discriminator", "other_heads"))
    main.tensors["copy_predictions/dense/kernel"] = np.zeros([16, 1])
    sizes = "64 units.*num_attention_heads: 4, 1; intermediate_size: 20, 32"
    tasks = [
        _task("own", "classification", _LABELS),
        _task("rte", "classification", _LABELS, True),
        # Its outputs are the values, those of the original are not.
        _task("stsb", "regression"),
        _task("mnli", "tagging", _LABELS),
    ]
    for model, message in (
        (main, "--drop='copy_predictions'"),
        (heads, sizes),
        *((tiny_models.build("classification", task=task),
           "--drop='task_specific'") for task in tasks),
    ):  # fmt: skip
        with pytest.raises(errors.ModelError, match=message):
            original_model.write(model, tmp_path)
    assert not list(tmp_path.iterdir())


def _block(entries, starts=None):
    """A block of LevelDB's table format, with its checksum."""
    content, places = b"", []
    for key, value in entries:
        places.append(len(content))
        content += bytes([0, len(key), len(value)]) + key + value
    places = places if starts is None else starts
    content += struct.pack(f"<{len(places) + 1}I", *places, len(places))
    content += b"\0"  # not compressed
    return content + struct.pack("<I", pywrap_tensorflow.masked_crc32c(content))


def _table(entries, starts=None):
    """An index as TensorFlow writes it, of one block of tensors."""
    data, size = _block(entries, starts), len(_block(entries, starts)) - 5
    place = bytes([0, size & 127 | 128, size >> 7])
    names, table = _block([]), _block([(b"~", place)])
    footer = bytes([len(data) & 127 | 128, len(data) >> 7, len(names) - 5])
    start = len(data) + len(names)
    footer += bytes([start & 127 | 128, start >> 7, len(table) - 5])
    magic = bytes.fromhex("57fb808b247547db")
    return data + names + table + footer.ljust(40, b"\0") + magic


def _entry(axes=(2, 3), **fields):
    entry = tensor_bundle_pb2.BundleEntryProto(
        **({"dtype": 1, "size": 24, "crc32c": 0} | fields)
    )
    for size in axes:
        entry.shape.dim.add(size=size)
    return entry.SerializeToString()


_HEADER = (b"", b"\x08\x01")  # of one shard


# Most of them would end the process in TensorFlow.
def test_an_index_is_checked_before_tensorflow_reads_it(tmp_path):
    for entries, message in (
        ([_HEADER, (b"a", _entry([2**62, 2**62]))], "a must be a tensor"),
        ([_HEADER, (b"a", _entry([2**62, 4, 0], size=0))], "a must be"),
        ([_HEADER, (b"a", _entry([-2, -3]))], r"float32 \[-2, -3\]"),
        ([_HEADER, (b"a", _entry([1] * 20, size=4))], "a must be"),
        ([_HEADER, (b"a", _entry([2**31], size=2**33))], "a must be"),
        ([_HEADER, (b"a", _entry(dtype=77))], "index is damaged.*77"),
        ([_HEADER, (b"a", _entry(dtype=7))], "Received: string"),
        ([_HEADER, (b"a", _entry(dtype=101))], "Received: float32_ref"),
        ([_HEADER, (b"a", _entry(dtype=129, size=6))], "int4_ref"),
        ([_HEADER, (b"a", _entry(size=20))], "20 bytes"),
        ([_HEADER, (b"a", _entry(shard_id=1))], "a must be"),
        ([_HEADER, (b"a", _entry(shard_id=-1))], "a must be"),
        ([_HEADER, (b"a", _entry(offset=-1))], "a must be"),
        ([_HEADER, (b"a", _entry(offset=41))], "a must be"),
        ([_HEADER, (b"a", _entry()), (b"a", _entry())], "not in order"),
        ([(b"a", _entry())], "not in order"),
        ([_HEADER, (b"a", b"\x0f")], "index is damaged"),
        ([(b"", b"\x08\x02")], "data-00000-of-00002"),
        ([_HEADER] + [(n, _entry()) for n in (b"a", b"b", b"c")], "share"),
    ):
        path = tmp_path / "x"
        path.with_name("x.data-00000-of-00001").write_bytes(bytes(64))
        path.with_name("x.index").write_bytes(_table(entries))
        with pytest.raises(errors.ModelError, match=message):
            original_model.read_checkpoint(path)


def test_an_index_has_no_entries_but_those_that_are_checked(tmp_path):
    path = tmp_path / "x"
    data = np.arange(16, dtype=np.float32).tobytes()
    path.with_name("x.data-00000-of-00001").write_bytes(data)
    crc = pywrap_tensorflow.masked_crc32c(data[8:32])
    entries = [_HEADER, (b"a", _entry(offset=8, crc32c=crc))]
    index = path.with_name("x.index")
    index.write_bytes(_table(entries))
    found = original_model.read_checkpoint(path).variables
    np.testing.assert_array_equal(found["a"], [[2, 3, 4], [5, 6, 7]])
    for damaged, message in (
        (_table(entries, [0, 7]), "a block is damaged"),
        (index.read_bytes()[:-1], "lists no tensors"),
        (index.read_bytes()[-48:], "cut off|damaged"),
    ):
        index.write_bytes(damaged)
        with pytest.raises(errors.ModelError, match=message):
            original_model.read_checkpoint(path)
