"""Models of Hugging Face's are read whole, or refused with the reason."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import safetensors.numpy

from electra_tf import errors
from electra_tf.formats import hugging_face
from electra_tf.formats import portable
from tests.formats import tiny_models


def _write(folder, kind):
    folder.mkdir()
    model = tiny_models.build(kind)
    hugging_face.write(model, folder)
    return model


@pytest.fixture
def folder(tmp_path):
    """A discriminator's."""
    _write(tmp_path / "hf", "discriminator")
    return tmp_path / "hf"


def _tensors(folder):
    return safetensors.numpy.load_file(folder / "model.safetensors")


def _put_tensors(folder, tensors):
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def _change_config(folder, **fields):
    path = folder / "config.json"
    content = json.loads(path.read_text()) | fields
    content = {n: v for n, v in content.items() if v is not ...}
    path.write_text(json.dumps(content))


def _refuses(folder, message, kind=errors.ModelError):
    with pytest.raises(kind, match=message):
        hugging_face.read(folder)


@pytest.mark.parametrize(
    ("kind", "architecture"),
    [
        ("discriminator", "ElectraForPreTraining"),
        ("masked_lm", "ElectraForMaskedLM"),
        ("encoder", "ElectraModel"),
        ("classification", "ElectraForSequenceClassification"),
        ("hidden_layer", "ElectraForSequenceClassification"),
        ("regression", "ElectraForSequenceClassification"),
        ("tagging", "ElectraForTokenClassification"),
        ("answering", "ElectraForQuestionAnswering"),
    ],
)
def test_every_kind_has_its_class_and_comes_back(tmp_path, kind, architecture):
    folder = tmp_path / "hf"
    model = _write(folder, kind)
    content = json.loads((folder / "config.json").read_text())
    assert content["architectures"] == [architecture]
    tensors = _tensors(folder)
    tiny_models.require_same(hugging_face.read(folder), model)
    name = max(tensors)
    _put_tensors(folder, {n: tensors[n] for n in tensors if n != name})
    _refuses(folder, f"model.safetensors, by its config.json,.*{name} is miss")
    _put_tensors(folder, tensors | {f"{name}_2": tensors[name]})
    _refuses(folder, f"{name}_2 .*not used")


def test_two_towers_are_two_folders(tmp_path):
    model = _write(tmp_path / "hf", "embeddings")
    names = tiny_models.names_in(tmp_path / "hf")
    assert names == ["discriminator", "generator"]
    tiny_models.require_same(hugging_face.read(tmp_path / "hf"), model)
    # One alone is a model too.
    shutil.rmtree(tmp_path / "hf" / "generator")
    alone = hugging_face.read(tmp_path / "hf")
    assert alone.parts == ("discriminator_predictions", "electra")
    assert alone.generator is None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("electric", "--drop='cloze_pred.*ltr"),
        ("discriminator", "are energies.*--drop='discriminator_pred"),
    ],
)
def test_what_has_no_class_is_listed(tmp_path, kind, message):
    model = tiny_models.build(kind, objective="electric")
    with pytest.raises(errors.ModelError, match=message):
        hugging_face.write(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_names_are_those_of_the_library(folder):
    block = "electra.encoder.layer.{}."
    layers = [
        *(f"attention.self.{n}" for n in ("query", "key", "value")),
        *("attention.output.dense", "attention.output.LayerNorm"),
        *("intermediate.dense", "output.dense", "output.LayerNorm"),
    ]
    both = [
        *(block.format(n) + layer for n in range(2) for layer in layers),
        *("electra.embeddings.LayerNorm", "electra.embeddings_project"),
        "discriminator_predictions.dense",
        "discriminator_predictions.dense_prediction",
    ]
    tables = ("word", "position", "token_type")
    assert _tensors(folder).keys() == {
        *(f"electra.embeddings.{n}_embeddings.weight" for n in tables),
        *(f"{name}.{end}" for name in both for end in ("weight", "bias")),
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_size": 25}, r"word_embeddings.weight \(24, 12\).*\(25, 12"),
        ({"num_hidden_layers": 3}, "electra.encoder.layer.2.*is missing"),
        ({"num_hidden_layers": 1}, "electra.encoder.layer.1.*is not used"),
        # What it is if it is left out is the library's default.
        ({"vocab_size": ...}, r"word_embeddings.*\(30522, 12\)"),
        ({"num_attention_heads": 3}, "divisible"),
        ({"num_attention_heads": "2"}, "`num_attention_heads` must be a whole"),
        ({"model_type": "bert"}, "`model_type` must be 'electra'.*'bert'"),
        ({"hidden_act": "gelu_new"}, "hidden_act.*gelu_new"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps.*1e-06"),
        ({"is_decoder": True}, "is_decoder"),
        ({"architectures": ["ElectraForMultipleChoice"]}, "MultipleChoice"),
        ({"architectures": ["ElectraModel"]}, "discriminator_predictions"),
        ({"architectures": None}, "discriminator_predictions.*not used"),
    ],
)
def test_what_ours_does_not_compute_is_refused(folder, fields, message):
    _change_config(folder, **fields)
    _refuses(folder, rf"config\.json.*{message}")


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_precisions_become_float32_and_are_noted(folder, dtype):
    tensors = {n: v.astype(dtype) for n, v in _tensors(folder).items()}
    _put_tensors(folder, tensors)
    model = hugging_face.read(folder)
    assert model.notes == (f"{np.dtype(dtype)} weights became float32",)
    bias = "discriminator_predictions.dense.bias"
    np.testing.assert_array_equal(
        model.tensors["discriminator_predictions/dense/bias"],
        tensors[bias].astype(np.float32),
    )


def test_buffers_of_older_releases_are_left_out(folder):
    positions = {"electra.embeddings.position_ids": np.arange(20)[None]}
    _put_tensors(folder, _tensors(folder) | positions)
    tiny_models.require_same(
        hugging_face.read(folder), tiny_models.build("discriminator")
    )


def test_the_tied_output_may_be_there_but_not_differ(tmp_path):
    folder = tmp_path / "hf"
    model = _write(folder, "masked_lm")
    tensors = _tensors(folder)
    table = tensors["electra.embeddings.word_embeddings.weight"]
    _put_tensors(folder, tensors | {"generator_lm_head.weight": table})
    found = hugging_face.read(folder)
    tiny_models.require_same(found, model)
    assert "generator_lm_head.weight" in found.notes[0]
    _put_tensors(folder, tensors | {"generator_lm_head.weight": table + 1})
    _refuses(folder, "tied to. Received: another")


def test_a_bare_encoder_may_have_its_prefix(tmp_path):
    folder = tmp_path / "hf"
    model = _write(folder, "encoder")
    tensors = _tensors(folder)
    assert "embeddings.LayerNorm.bias" in tensors
    _put_tensors(folder, {f"electra.{n}": v for n, v in tensors.items()})
    tiny_models.require_same(hugging_face.read(folder), model)


def test_more_than_nine_labels_keep_their_order(tmp_path):
    labels = tuple(f"label {number}" for number in range(12))
    task = portable.PortableTask("own", "tagging", labels)
    hugging_face.write(tiny_models.build("tagging", task=task), tmp_path)
    assert hugging_face.read(tmp_path).task.labels == labels


@pytest.mark.parametrize(
    ("labels", "message"),
    [((), "--labels=NAME"), (("a", "a", "b"), "no two the same")],
)
def test_labels_that_do_not_name_the_outputs_are_not_written(
    tmp_path, labels, message
):
    model = tiny_models.build("classification")
    task = dataclasses.replace(model.task, labels=labels)
    with pytest.raises(errors.ModelError, match=f"tiny classif.*{message}"):
        hugging_face.write(dataclasses.replace(model, task=task), tmp_path)


def test_taggers_exchange_the_segments_there_and_back(tmp_path):
    model = tiny_models.build("tagging")
    hugging_face.write(model, tmp_path)
    written = _tensors(tmp_path)
    theirs = written["electra.embeddings.token_type_embeddings.weight"]
    ours = model.tensors["electra/embeddings/token_type_embeddings"]
    # Words are in segment 1 here and in 0 there; a third stays.
    np.testing.assert_array_equal(theirs, ours[[1, 0, 2]])
    found = hugging_face.read(tmp_path)
    tiny_models.require_same(found, model)
    assert any("segments 0 and 1" in note for note in found.notes)
