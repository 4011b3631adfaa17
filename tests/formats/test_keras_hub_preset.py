"""Presets of KerasHub's are read whole, or refused with the reason."""

import dataclasses
import json
import shutil

import h5py
import numpy as np
import pytest

from electra_tf import errors
from electra_tf.formats import keras_hub_preset
from tests.formats import tiny_models


@pytest.fixture(scope="session")
def written_preset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preset")
    tiny_models.write(folder, "encoder", "keras_hub")
    return folder


@pytest.fixture
def preset(written_preset, tmp_path):
    return shutil.copytree(written_preset, tmp_path / "preset")


def _refuses(folder, message):
    with pytest.raises(errors.ModelError, match=message):
        keras_hub_preset.read_model(folder)


def test_a_preset_is_an_encoder_with_its_vocabulary(written_preset):
    names = set(tiny_models.names_in(written_preset))
    assert names == {"assets", "config.json", "metadata.json",
                     "model.weights.h5", "tokenizer.json"}  # fmt: skip
    found = keras_hub_preset.read_model(written_preset)
    model = tiny_models.build("encoder")
    tiny_models.require_same(found, model, ("encoder",))
    assert "pooled_dense" in found.notes[0]
    # One rate of dropout serves both, and nothing says how it was initialized.
    assert found.encoder == dataclasses.replace(
        model.encoder, attention_probs_dropout_prob=0.25, initializer_range=0.02
    )


def test_a_head_is_refused_with_what_to_drop(tmp_path):
    parts = r"discriminator_p.*\|generator\|generator_predictions"
    with pytest.raises(errors.ModelError, match=f"--drop='{parts}'"):
        keras_hub_preset.write(tiny_models.build("embeddings"), tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda value: value * np.nan, "embedding/embeddings holds NaN"),
        (lambda value: value[:5], "does not describe.*,... numbers. Received"),
        (lambda value: value.astype("int64"), "position_.* holds int64, expec"),
    ],
)
def test_a_weight_of_another_kind_is_refused(preset, change, message):
    with h5py.File(preset / "model.weights.h5", "a") as file:
        name = "layers/position_embedding/vars/0"
        file[name] = change(file.pop(name)[()])
    _refuses(preset, message)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_heads", "2", "num_attention_heads` must be"),
        # KerasHub itself would leave the other layer out.
        ("num_layers", 1, "does not describe.*the config needs .*Received: "),
        # More memory than there is.
        ("vocab_size", 10**9, "does not describe.*the config needs"),
    ],
)
def test_sizes_that_cannot_be_are_refused_before_they_are_built(
    preset, monkeypatch, field, value, message
):
    monkeypatch.delattr(keras_hub_preset, "_load_backbone")
    sizes = json.loads((preset / "config.json").read_text())["config"]
    changed = sizes | {field: value}
    tiny_models.change_json(preset / "config.json", config=changed)
    _refuses(preset, f"config.json.*{message}")
