"""Presets of KerasHub's are read whole, or refused with the reason."""

import json
import shutil

import h5py
import numpy as np
import pytest
import safetensors.numpy

from electra_tf.formats import keras_hub_preset
from electra_tf.formats import portable
from tests.formats import tiny_models


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A discriminator's preset."""
    folder = tmp_path_factory.mktemp("keras_hub") / "preset"
    folder.mkdir()
    keras_hub_preset.write(tiny_models.build("discriminator"), folder)
    return folder


@pytest.fixture
def folder(written, tmp_path):
    """A copy that may be damaged."""
    return shutil.copytree(written, tmp_path / "preset")


def _change(folder, name, **fields):
    path = folder / name
    content = json.loads(path.read_text()) | fields
    path.write_text(json.dumps(content))


def _refuses(folder, message):
    with pytest.raises(portable.FormatError, match=message):
        keras_hub_preset.read(folder)


def test_a_preset_has_the_encoder_and_our_heads_beside_it(written):
    assert keras_hub_preset.is_folder(written)
    names = set(tiny_models.names_in(written))
    assert {"config.json", "model.weights.h5", "tokenizer.json"} < names
    heads = safetensors.numpy.load_file(written / "heads.safetensors")
    assert {n.split("/")[0] for n in heads} == {"discriminator_predictions"}
    found = keras_hub_preset.read(written)
    tiny_models.require_same(found, tiny_models.build("discriminator"))
    assert "pooled_dense" in found.notes[0]


@pytest.mark.slow
def _datasets(file):
    names = []

    def collect(name, entry):
        if isinstance(entry, h5py.Dataset):
            names.append(name)

    file.visititems(collect)
    return names


def test_a_preset_without_any_one_weight_is_refused(folder):
    path = folder / "model.weights.h5"
    whole = path.read_bytes()
    with h5py.File(path) as file:
        names = _datasets(file)
    # Both layers are alike; one takes seconds.
    for name in [n for n in names if "transformer_encoder_1" not in n]:
        path.write_bytes(whole)
        with h5py.File(path, "a") as file:
            del file[name]
        _refuses(folder, "must be a preset that KerasHub loads")


def test_a_weight_of_another_shape_or_no_number_is_refused(folder):
    path = folder / "model.weights.h5"
    with h5py.File(path, "a") as file:
        (name,) = [n for n in _datasets(file) if "position_embedding" in n]
        value = file[name][()]
        del file[name]
        file[name] = np.full_like(value, np.nan)
    _refuses(folder, "position_embeddings holds NaN")
    with h5py.File(path, "a") as file:
        del file[name]
        file[name] = value[:5]
    _refuses(folder, "KerasHub loads")


def test_weights_cut_off_are_refused(folder):
    path = folder / "model.weights.h5"
    whole = path.read_bytes()
    for length in (0, 100, len(whole) // 2):
        path.write_bytes(whole[:length])
        _refuses(folder, "cut off or damaged")
    path.unlink()
    _refuses(folder, "KerasHub loads")


@pytest.mark.parametrize(
    ("field", "value"),
    [("hidden_dim", 32), ("num_layers", 3), ("max_sequence_length", 24),
     ("vocab_size", 30), ("intermediate_dim", 32)],
)  # fmt: skip
def test_a_config_of_other_sizes_is_refused(folder, field, value):
    content = json.loads((folder / "config.json").read_text())
    _change(folder, "config.json", config=content["config"] | {field: value})
    _refuses(folder, "KerasHub loads|does not describe")


def test_fewer_layers_than_weights_are_refused(folder):
    """KerasHub itself would leave the other layers out."""
    content = json.loads((folder / "config.json").read_text())
    sizes = content["config"] | {"num_layers": 1}
    _change(folder, "config.json", config=sizes)
    _refuses(folder, "does not describe.*: 25 by the config. Received: 41")


def test_one_weight_more_is_refused(folder):
    with h5py.File(folder / "model.weights.h5", "a") as file:
        file["layers/extra/vars/0"] = np.zeros([2])
    _refuses(folder, "does not describe.*: 41 by the config. Received: 42")


def test_another_number_of_heads_is_refused(folder):
    content = json.loads((folder / "config.json").read_text())
    sizes = content["config"] | {"num_heads": 4}
    _change(folder, "config.json", config=sizes)
    _refuses(folder, "KerasHub loads")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {
                "class_name": "BertBackbone",
                "registered_name": "keras_hub>BertBackbone",
            },
            "one of BertBackbone",
        ),
        ({"module": "evil.keras_hub"}, "nothing that KerasHub knows"),
        ({"module": 5}, "nothing that KerasHub knows"),
        ({"registered_name": "keras_hub>BertBackbone"}, "must be a preset"),
    ],
)
def test_another_backbone_is_refused(folder, fields, message):
    if "registered_name" in fields and "class_name" not in fields:
        # KerasHub would build a BERT out of it.
        content = json.loads((folder / "config.json").read_text())
        del content["config"]["embedding_dim"]
        fields = fields | {"config": content["config"]}
    _change(folder, "config.json", **fields)
    _refuses(folder, message)


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_config_that_is_none_is_refused(folder, content):
    (folder / "config.json").write_text(content)
    assert not keras_hub_preset.is_folder(folder)
    _refuses(folder, "nothing that KerasHub knows")


def test_heads_must_be_whole(folder):
    heads = safetensors.numpy.load_file(folder / "heads.safetensors")
    for name in heads:
        rest = {n: heads[n] for n in heads if n != name}
        safetensors.numpy.save_file(rest, folder / "heads.safetensors")
        _refuses(folder, "must hold the tensors that heads.json names")
    more = heads | {"x/kernel": np.zeros([2], np.float32)}
    safetensors.numpy.save_file(more, folder / "heads.safetensors")
    _refuses(folder, "must hold the tensors that heads.json names")
    (folder / "heads.safetensors").write_bytes(b"\5")
    _refuses(folder, "must be a safetensors file")
    (folder / "heads.safetensors").unlink()
    _refuses(folder, "must hold the tensors that heads.json names")


def test_without_our_files_a_preset_is_an_encoder(folder):
    (folder / "heads.safetensors").unlink()
    (folder / "heads.json").unlink()
    found = keras_hub_preset.read(folder)
    assert found.parts == ("electra",)
    # One rate serves both, and KerasHub knows no longest word.
    assert found.encoder.attention_probs_dropout_prob == 0.25
    assert found.encoder.initializer_range == 0.02
    assert found.vocabulary == tiny_models.VOCABULARY


@pytest.mark.parametrize(
    "fields",
    [
        {"task": {"name": "own"}},
        {"task": 5},
        {"task": {"name": "own", "labels": 3, "value_range": [0, 1]}},
        {"step": "x"},
        {"attention_probs_dropout_prob": None},
        {"step": None},
        {"tokenizer": {"lower": True}},
        {"tokenizer": 5},
        {"heads": None},
        {"initializer_range": "x"},
    ],
)
def test_facts_that_are_damaged_are_refused(folder, fields):
    _change(folder, "heads.json", **fields)
    _refuses(folder, "heads.json")


@pytest.mark.parametrize("content", ["{", "[1]", "5"])
def test_facts_that_are_no_json_are_refused(folder, content):
    (folder / "heads.json").write_text(content)
    _refuses(folder, "heads.json is damaged")


def test_a_vocabulary_that_is_not_the_models_is_refused(folder):
    file = folder / "assets" / "tokenizer" / "vocabulary.txt"
    file.write_text(file.read_text() + "more\n")
    _refuses(folder, "of 24 tokens. Received: 25")
